"""Rows of somebody's table as tasks: what a suite says of them, reading them, and filling tasks in."""

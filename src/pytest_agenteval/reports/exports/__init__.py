"""Runs as files for programs and other pages."""

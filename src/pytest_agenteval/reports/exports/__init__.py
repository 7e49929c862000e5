"""Runs as files for programs and other pages, and their trials in the formats of other tools."""

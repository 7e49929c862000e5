"""Agents played by hand."""

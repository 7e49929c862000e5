"""Agents under test, and the loop they share."""

"""Judges: what they are shown, how their replies are read, and what several find together."""

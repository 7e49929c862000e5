"""Comparisons in words."""

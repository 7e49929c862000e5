"""Comparing values: matchers, paths into values, and what folding leaves of a text."""

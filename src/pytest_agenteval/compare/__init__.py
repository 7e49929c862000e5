"""Comparison of two runs: which trials belong together, and whether anything changed."""

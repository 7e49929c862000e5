"""Two runs side by side: which trials belong together, and whether anything changed."""

"""Two runs beside each other: which trials belong together, and whether anything changed."""

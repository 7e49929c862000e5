"""Reports, read by eye and by machine."""

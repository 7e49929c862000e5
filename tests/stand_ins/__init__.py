"""Programs that stand in for others on the PATH, written with the standard library alone."""

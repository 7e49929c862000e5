"""Runs joined into one: which belong together, what keeps others apart, the folder that holds them all."""

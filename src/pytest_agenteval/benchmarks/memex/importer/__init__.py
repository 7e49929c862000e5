"""Memex: a folder of its suites, which runs as it is, becomes suites of the user's own."""

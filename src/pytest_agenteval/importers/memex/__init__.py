"""Memex: a folder of its suites runs as it is, once it has a suite.yaml of ours beside it."""

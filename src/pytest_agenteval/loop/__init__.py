"""Suggestions for suites and prompts, made from stored runs. It runs no agent itself."""

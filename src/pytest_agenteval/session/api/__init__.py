"""Evals from Python: suites and tasks written in code, single trials, and what any code asks, recorded."""

"""Benchmarks that come with the package: guests of the core, which names none of them."""

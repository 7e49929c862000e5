"""Benchmarks that come with the package. The core names none of them."""

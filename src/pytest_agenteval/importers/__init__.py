"""What brings other benchmarks' suites and runs into ours: read from a user's own copy, never shipped."""

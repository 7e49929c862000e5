"""What stored runs suggest for suites and prompts. Runs nothing itself."""

"""What stored runs say should be done next to suites and prompts. Runs nothing itself."""

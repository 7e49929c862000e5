"""What the plugin costs, as ratios: python -m tests.benchmarks [NAME …]."""

"""What the plugin costs, as ratios: python -m tests.performance [NAME …]."""

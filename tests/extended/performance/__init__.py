"""What the plugin costs, as ratios: python -m tests.extended.performance [NAME …]."""

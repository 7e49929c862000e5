"""Models that are really loaded, tiny ones: pytest tests/local_models (needs torch and transformers)."""

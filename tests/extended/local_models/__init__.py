"""Tiny models that are really loaded: pytest tests/extended/local_models (needs torch and transformers)."""

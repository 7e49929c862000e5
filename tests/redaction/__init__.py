"""Secrets: their shapes and spellings, and texts without them."""

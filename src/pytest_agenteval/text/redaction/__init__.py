"""Secrets: what is one, and texts and values without them."""

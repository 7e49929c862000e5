"""Texts, values and patterns; secrets, and texts without them."""

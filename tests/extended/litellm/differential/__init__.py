"""Conversations with real models, each led through litellm and over our own connections."""

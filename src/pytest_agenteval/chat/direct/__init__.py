"""Real models without litellm: three wire formats over one pooled HTTP client."""

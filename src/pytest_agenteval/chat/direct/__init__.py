"""Real models asked without litellm: three wire formats over one pooled HTTP client."""

"""A loop that lets a coding agent change prompts, and confirms on held-out tasks what it leaves of that."""

"""The card agent, its prompts and the templates of its cards."""

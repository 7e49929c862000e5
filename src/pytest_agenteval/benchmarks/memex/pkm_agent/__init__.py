"""The PKM agent, its prompts and its tools."""

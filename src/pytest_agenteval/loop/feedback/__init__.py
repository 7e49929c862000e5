"""What a run teaches whoever changes the prompts: bucket by bucket what went wrong, within a budget."""

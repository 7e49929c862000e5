"""Carrying out plans on actors of a Ray cluster: pytest stays here, the project travels, trials come back."""

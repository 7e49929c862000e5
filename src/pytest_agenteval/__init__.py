"""Evals of LLM agents as pytest items: trials that replay, grades that explain themselves."""

__version__ = "0.1.0"

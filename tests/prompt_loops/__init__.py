"""Whole loops of ``agenteval improve`` with scripted coding agents: pytest tests/prompt_loops."""

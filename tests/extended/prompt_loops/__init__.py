"""Whole loops of ``agenteval improve`` with scripted coding agents: pytest tests/extended/prompt_loops."""

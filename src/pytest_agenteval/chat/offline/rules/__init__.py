"""A model made of rules: mediocre on purpose, so that a first run shows more than 0 and 1."""

from pytest_agenteval.chat.offline.rules.chat import rules

__all__ = ["rules"]

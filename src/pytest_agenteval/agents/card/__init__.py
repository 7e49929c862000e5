"""The card agent: turns one journal entry into one finished timeline card."""

from pytest_agenteval.agents.card.agent import CardAgent

__all__ = ["CardAgent"]

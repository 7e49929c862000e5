"""The card agent: turns one journal entry into one finished timeline card."""

from pytest_agenteval.benchmarks.memex.card_agent.agent import CardAgent

__all__ = ["CardAgent"]

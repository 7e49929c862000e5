"""The PKM agent: files one journal entry in the user's knowledge base, or leaves it alone."""

from pytest_agenteval.benchmarks.memex.pkm_agent.agent import PkmAgent

__all__ = ["PkmAgent"]

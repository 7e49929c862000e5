"""Graders after Memex's evals of its journal agents.

Each has a ``mode``. ``upstream`` scores exactly as Memex does, faults included, so that figures can be
compared with its own. ``default`` scores what Memex says it means to.
"""

from pytest_agenteval.benchmarks.memex.graders.card import CardCompletion, CardTemplateChoice
from pytest_agenteval.benchmarks.memex.graders.card_text import CardMustContain, CardNumbersGiven
from pytest_agenteval.benchmarks.memex.graders.pkm_completion import PkmCompletion
from pytest_agenteval.benchmarks.memex.graders.pkm_facts import PkmFactsFiled
from pytest_agenteval.benchmarks.memex.graders.pkm_judged import PkmAppendCoherence, PkmInsightQuality
from pytest_agenteval.benchmarks.memex.graders.pkm_preservation import PkmNoOverwrite
from pytest_agenteval.benchmarks.memex.graders.pkm_reading import PkmReadBeforeWrite
from pytest_agenteval.benchmarks.memex.graders.pkm_routing import PkmRoutedCorrectly

__all__ = [
    "CardCompletion",
    "CardMustContain",
    "CardNumbersGiven",
    "CardTemplateChoice",
    "PkmAppendCoherence",
    "PkmCompletion",
    "PkmFactsFiled",
    "PkmInsightQuality",
    "PkmNoOverwrite",
    "PkmReadBeforeWrite",
    "PkmRoutedCorrectly",
]

"""Judges: what they are asked, how their replies are read, and what several find together."""

from pytest_agenteval.graders.judge.aggregation import Judgement, Vote
from pytest_agenteval.graders.judge.panel import ask_judges
from pytest_agenteval.graders.judge.rubric import (
    Dimension,
    Rubric,
    packaged_rubric,
    read_rubric,
)

__all__ = [
    "Dimension",
    "Judgement",
    "Rubric",
    "Vote",
    "ask_judges",
    "packaged_rubric",
    "read_rubric",
]

"""Judges: what they are asked, how their replies are read, and what several find together."""

from pytest_agenteval.graders.judge.panel import ask_judges
from pytest_agenteval.graders.judge.rubric import (
    Dimension,
    Rubric,
    packaged_rubric,
    packaged_rubrics,
    read_rubric,
)
from pytest_agenteval.graders.judge.votes import Judgement, Vote

__all__ = [
    "Dimension",
    "Judgement",
    "Rubric",
    "Vote",
    "ask_judges",
    "packaged_rubric",
    "packaged_rubrics",
    "read_rubric",
]

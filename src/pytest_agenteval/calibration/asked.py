"""What came of asking judges about an example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_agenteval.calibration.examples import Example
from pytest_agenteval.graders.judge.aggregation import Judgement
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.transcript import NOTHING, Usage


@dataclass(frozen=True, slots=True)
class Asked:
    """One example, asked about once: all judges side by side. ``repetition`` counts from 1."""

    example: Example
    repetition: int
    judgement: Judgement

    def score(self, judge: str, dimension: str) -> float | None:
        """Give one judge's score, or that of all together where ``judge`` is empty; None for no score."""
        if not judge:
            return self.judgement.scores.get(dimension)
        return next(vote.scores.get(dimension) for vote in self.judgement.votes if vote.judge == judge)


@dataclass(frozen=True, slots=True)
class Answers:
    """Everything that the judges answered, and what each of them took, by name."""

    judges: tuple[Model, ...]
    asked: tuple[Asked, ...]
    usage: Mapping[str, Usage] = field(default_factory=lambda: NOTHING)

"""Shapes of suites that comparisons are simulated in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from pytest_agenteval.scoring.exact_tests import PairedScores
from tests.simulations.score_model import Suite, compared

MANY_SMALL = (9, 3, *[2] * 6, *[1] * 17)
"""41 tasks in 25 buckets, two of which have more than two tasks."""
SEVEN_LARGE = (20, 15, 15, 11, 10, 10, 10)
ALL_SMALL = (3, *[2] * 6, *[1] * 10)
FOUR_EVEN = (10, 10, 10, 10)


@dataclass(frozen=True, slots=True)
class Shape:
    """How many tasks each bucket has, how often each is tried, and how often a trial is missing."""

    buckets: Sequence[int]
    old: int
    new: int
    missing: float = 0.0

    def __str__(self) -> str:
        repetitions = str(self.old) if self.old == self.new else f"{self.old} and {self.new}"
        missing = f", {self.missing:.0%} missing" if self.missing else ""
        buckets = f", {len(self.buckets)} buckets" if len(self.buckets) > 1 else ""
        return f"{self.tasks}x{repetitions}{buckets}{missing}"

    @property
    def tasks(self) -> int:
        """How many tasks there are in all buckets."""
        return sum(self.buckets)

    def compare(self, before: Suite, after: Suite, random: Random) -> dict[str, list[PairedScores]]:
        """Try all tasks before and after; give their scores by bucket."""
        pairs = [
            (self._without_missing(old, random), self._without_missing(new, random))
            for old, new in compared(before, after, self.old, self.new, random)
        ]
        remaining = iter(pairs)
        return {str(at): [next(remaining) for _ in range(size)] for at, size in enumerate(self.buckets)}

    def _without_missing(self, scores: Sequence[float], random: Random) -> list[float]:
        """Leave out trials by lot, but never a task's last."""
        present = [score for score in scores if random.random() >= self.missing]
        return present or list(scores[:1])


THRICE = Shape(MANY_SMALL, 3, 3)
EQUAL = (
    Shape(MANY_SMALL, 2, 2),
    THRICE,
    Shape(SEVEN_LARGE, 1, 1),
    Shape(ALL_SMALL, 2, 2),
    Shape(FOUR_EVEN, 3, 3),
)
UNEQUAL = (
    Shape(MANY_SMALL, 3, 2),
    Shape(MANY_SMALL, 2, 8),
    Shape(MANY_SMALL, 3, 3, missing=0.15),
    Shape(FOUR_EVEN, 5, 1),
    Shape((8,), 5, 1),
)
"""Here the suite's test is not exact: a mean of fewer trials is more skewed, so a sign is no fair coin."""

"""Shapes of suites that comparisons are simulated in, and what the product says of simulated scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TypeAlias

from pytest_agenteval.compare.pairing import TaskPair
from pytest_agenteval.compare.scoring.exact_tests import PairedScores
from pytest_agenteval.compare.verdict import SuiteScoreChange, suite_change
from pytest_agenteval.store.journal_entry import JournalEntry
from tests.compare.samples import entry
from tests.extended.simulations.score_model import MODELS, ScoreModel, Suite, compared

MANY_SMALL = (9, 3, *[2] * 6, *[1] * 17)
"""41 tasks in 25 buckets, two of which have more than two tasks."""
SEVEN_LARGE = (20, 15, 15, 11, 10, 10, 10)
ALL_SMALL = (3, *[2] * 6, *[1] * 10)
FOUR_EVEN = (10, 10, 10, 10)

TOLERANCE = 0.05

Buckets: TypeAlias = Mapping[str, Sequence[PairedScores]]


@dataclass(frozen=True, slots=True)
class Shape:
    """How many tasks each bucket has, how often each is tried, how often a trial is missing or errored."""

    buckets: Sequence[int]
    old: int
    new: int
    missing: float = 0.0
    errored: float = 0.0

    def __str__(self) -> str:
        repetitions = f"x{self.old}" if self.old == self.new else f"x{self.old} -> x{self.new}"
        missing = f", {self.missing:.0%} missing" if self.missing else ""
        errored = f", {self.errored:.0%} errored" if self.errored else ""
        return f"{self.tasks} {repetitions}{missing}{errored}"

    @property
    def tasks(self) -> int:
        """How many tasks there are in all buckets."""
        return sum(self.buckets)

    def compare(
        self, before: Suite, after: Suite, random: Random, model: ScoreModel = MODELS["quarters"]
    ) -> dict[str, list[PairedScores]]:
        """Try all tasks before and after; give their scores by bucket."""
        tried = model.jittered(compared(before, after, self.old, self.new, random), random)
        if self.missing:
            tried = [
                (self._without_missing(old, random), self._without_missing(new, random)) for old, new in tried
            ]
        remaining = iter(tried)
        return {str(at): [next(remaining) for _ in range(size)] for at, size in enumerate(self.buckets)}

    def _without_missing(self, scores: Sequence[float], random: Random) -> list[float]:
        """Leave out trials by lot, but never a task's last."""
        present = [score for score in scores if random.random() >= self.missing]
        return present or list(scores[:1])

    def judge(self, before: Suite, after: Suite, random: Random, model: ScoreModel) -> SuiteScoreChange:
        """Try all tasks before and after, with trials that error by lot; give what is said of them."""
        return judged(self.compare(before, after, random, model), self.errored, random)


def judged(buckets: Buckets, errored: float = 0.0, random: Random | None = None) -> SuiteScoreChange:
    """Give what is said of these scores, where this share of them is that of trials that errored."""

    def entries(scores: Sequence[float]) -> tuple[JournalEntry, ...]:
        if random is None or not errored:
            return tuple(map(_entry, scores))
        return tuple(_entry(None if random.random() < errored else score) for score in scores)

    pairs = [
        TaskPair(f"{bucket}_{at}", bucket, "", entries(old), entries(new))
        for bucket, tasks in buckets.items()
        for at, (old, new) in enumerate(tasks)
    ]
    change = suite_change("simulated", pairs, TOLERANCE)
    assert change is not None
    return change


@cache
def _cached_entry(score: float | None) -> JournalEntry:
    return entry("bucket/task", 1, score)


def _entry(score: float | None) -> JournalEntry:
    # Scores of a continuous model never come again.
    common = score is None or (score * 4).is_integer()
    return _cached_entry(score) if common else entry("bucket/task", 1, score)


THRICE = Shape(MANY_SMALL, 3, 3)

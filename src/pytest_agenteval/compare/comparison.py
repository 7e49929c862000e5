"""Everything that is said of two runs beside each other; every screen, page and file is drawn from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pytest_agenteval.compare.findings import LEVEL
from pytest_agenteval.compare.pairing import Obstacle, SuitePairs, TaskPair, pair_suites, unmatched_groups
from pytest_agenteval.compare.sides import Compared, Side, SideGroup, Who
from pytest_agenteval.compare.verdict import Buckets, Change, suite_change
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.scoring.sensitivity import (
    DifferenceNoise,
    RepetitionsNeeded,
    difference_noise,
    expected_broken,
    mean,
    repetitions_needed,
    smallest_visible_change,
)
from pytest_agenteval.store.journal_entry import JournalEntry

TOLERANCE = 0.05
FEWEST_TO_BREAK = 3
"""Repetitions on either side from which on a task that passed always and now never does is named."""


class Pair(NamedTuple):
    """A figure of both sides; None where it is not known."""

    old: float | None
    new: float | None


class TaskChange(FrozenValue, frozen=True):
    """One task on both sides: scores by repetition, None for errored trials, and how many passed."""

    task: str
    bucket: str
    file: str
    old: tuple[float | None, ...]
    new: tuple[float | None, ...]
    old_passed: int
    new_passed: int

    @property
    def change(self) -> float | None:
        """New mean less old mean; None where a side has no score."""
        old, new = _decided(self.old), _decided(self.new)
        return mean(new) - mean(old) if old and new else None

    @property
    def broken(self) -> bool:
        """Whether all old trials passed and no new one does, with enough of both to say so."""
        return self._settled and self.old_passed == len(self.old) and self.new_passed == 0

    @property
    def mended(self) -> bool:
        """Whether no old trial passed and all new ones do, with enough of both to say so."""
        return self._settled and self.old_passed == 0 and self.new_passed == len(self.new)

    @property
    def _settled(self) -> bool:
        trials = (*self.old, *self.new)
        return min(len(self.old), len(self.new)) >= FEWEST_TO_BREAK and None not in trials


class GraderChange(FrozenValue, frozen=True):
    """The mean over tasks of one grader's scores; graders are described, and get no verdict."""

    grader: str
    tasks: int
    scores: Pair


class Sensitivity(FrozenValue, frozen=True):
    """What the comparison could have seen: None where tasks are too few, or do not spread, to say so.

    ``visible`` is the change that would have been significant 4 times of 5, ``needed`` what it would take to see
    one as large as the tolerance.
    """

    noise: DifferenceNoise
    visible: float | None
    needed: RepetitionsNeeded | None


class SuiteComparison(FrozenValue, frozen=True):
    """One suite with its model and variant on both sides.

    ``suite`` is None where no task has scores on both sides. ``obstacles`` say which tasks are not compared.
    ``repetitions`` are the fewest and most trials of a task, old and new. ``broken_by_chance`` is how many broken
    tasks are to be expected if nothing changed. ``judge_share`` is how much of the trial-to-trial variance is the
    judges' own; None where nobody knows. Costs are means over trials.
    """

    name: str
    old_who: Who
    new_who: Who
    suite: Change | None
    buckets: tuple[Change, ...]
    tasks: tuple[TaskChange, ...]
    graders: tuple[GraderChange, ...]
    sensitivity: Sensitivity | None
    obstacles: tuple[Obstacle, ...]
    differs: tuple[str, ...]
    repetitions: tuple[tuple[int, int], tuple[int, int]]
    errored: tuple[int, int]
    broken_by_chance: float
    tokens: Pair
    seconds: Pair
    cost_usd: Pair
    judge_share: float | None = None

    @property
    def changes(self) -> Iterator[Change]:
        """The suite and its buckets: what a verdict is given of."""
        if self.suite is not None:
            yield self.suite
        yield from self.buckets


class Comparison(FrozenValue, frozen=True):
    """Two sides beside each other.

    ``same_run`` says that both are parts of one run: nothing else changed in between. ``unmatched`` names suites
    with models that have no counterpart, ``old`` and ``new`` the runs.
    """

    old: str
    new: str
    same_run: bool
    tolerance: float
    suites: tuple[SuiteComparison, ...]
    unmatched_old: tuple[str, ...] = ()
    unmatched_new: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """What keeps tasks from being compared."""
        return tuple(obstacle for suite in self.suites for obstacle in suite.obstacles)

    @property
    def worse(self) -> tuple[Change, ...]:
        """The suites and buckets that are worse."""
        return tuple(change for suite in self.suites for change in suite.changes if change.verdict == "worse")

    @property
    def better(self) -> tuple[Change, ...]:
        """The suites and buckets that are better."""
        return tuple(change for suite in self.suites for change in suite.changes if change.verdict == "better")


def compare_sides(
    old: Side, new: Side, *, compared: Compared = "", tolerance: float = TOLERANCE
) -> Comparison:
    """Compare two sides suite by suite, over the tasks that are the same on both."""
    pairs = pair_suites(old, new, compared)
    groups = [suite.group for suite in pairs]
    return Comparison(
        old=old.name,
        new=new.name,
        same_run=old.name == new.name,
        tolerance=tolerance,
        suites=tuple(_compare_suite(suite, tolerance) for suite in pairs),
        unmatched_old=tuple(unmatched_groups(old, {(group.suite, *group.old) for group in groups})),
        unmatched_new=tuple(unmatched_groups(new, {(group.suite, *group.new) for group in groups})),
        odd=tuple(dict.fromkeys((*old.odd, *new.odd))),
    )


def _compare_suite(suite: SuitePairs, tolerance: float) -> SuiteComparison:
    group, pairs = suite.group, suite.pairs
    change = suite_change(group.suite, pairs, tolerance)
    tasks = tuple(map(_task_change, pairs))
    sides = [[entry for pair in pairs for entry in side] for side in zip(*_trials(pairs), strict=True)]
    old, new = sides or ([], [])
    return SuiteComparison(
        name=group.suite,
        old_who=group.old,
        new_who=group.new,
        suite=change.suite if change else None,
        buckets=change.buckets if change else (),
        tasks=tasks,
        graders=tuple(_grader_changes(pairs)),
        sensitivity=_sensitivity(change.scores, tolerance) if change else None,
        obstacles=suite.obstacles,
        differs=suite.differs,
        repetitions=(_repetitions([pair.old for pair in pairs]), _repetitions([pair.new for pair in pairs])),
        errored=(_errored(old), _errored(new)),
        broken_by_chance=expected_broken(
            [(task.old_passed, len(task.old), task.new_passed, len(task.new)) for task in tasks]
        ),
        tokens=Pair(_mean_tokens(old), _mean_tokens(new)),
        seconds=Pair(_mean([entry.seconds for entry in old]), _mean([entry.seconds for entry in new])),
        cost_usd=Pair(_mean_cost(old), _mean_cost(new)),
    )

"""Better, worse or cannot tell: what is said of a suite and of its buckets, errored trials considered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.compare.findings import (
    FEWEST_FOR_SIGNS,
    PLAIN,
    BucketShare,
    Finding,
    SuiteFindings,
    difference,
    suite_findings,
)
from pytest_agenteval.compare.pairing import TaskPair
from pytest_agenteval.compare.scoring.difference_interval import difference_interval
from pytest_agenteval.compare.scoring.exact_tests import SAME, PairedScores
from pytest_agenteval.compare.scoring.intervals import Interval
from pytest_agenteval.compare.scoring.sensitivity import mean
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import Levels

Verdict: TypeAlias = Literal["better", "worse", "not worse", "cannot tell", "identical"]
"""What is said of a change; identical: trials scored as before; not worse: by more than the tolerance."""

Buckets: TypeAlias = Mapping[str, Sequence[PairedScores]]

WORDS: Mapping[int, Verdict] = {1: "better", -1: "worse", 0: "cannot tell"}

LEAST_SHOWN = 1e-4
"""Where a change is significant, its interval leaves out 0: at least by so much, or by half the change."""

AT_WORST, AT_BEST = (1.0, 0.0), (0.0, 1.0)
"""What an errored trial counts as, on the old side and on the new one."""


class Change(FrozenValue, frozen=True):
    """What became of the mean over tasks of mean scores, of a suite or of a bucket.

    ``p`` is that of the test on these tasks, ``p_like_these`` that of tasks like these, None where that is
    not asked: of buckets and of suites of fewer than 7 tasks. What is not ``testable`` could not have been
    significant. ``of_these_tasks`` says that the verdict speaks of these tasks alone; ``like_these`` is then
    what is said of tasks like these, and None where that is not asked. ``undone`` says that the scores alone
    gave another verdict, which errored trials, taken as 0 and as 1, undo. ``interval`` is that of the mean
    change of tasks like these, ``floor`` its lower end with errored trials at their worst. ``share`` says
    which bucket has most of a suite's change.
    """

    name: str
    tasks: int
    old: float
    new: float
    verdict: Verdict
    p: float
    interval: Interval | None = None
    testable: bool = True
    of_these_tasks: bool = False
    undone: bool = False
    p_like_these: float | None = None
    like_these: Verdict | None = None
    floor: float | None = None
    share: BucketShare | None = None

    @property
    def change(self) -> float:
        """New mean less old mean."""
        return self.new - self.old

    @property
    def p_of_verdict(self) -> float:
        """The p of what the verdict speaks of: of tasks like these, unless it speaks of these alone."""
        return self.p if self.p_like_these is None or self.of_these_tasks else self.p_like_these

    def excludes_fall(self, tolerance: float) -> bool:
        """Whether tasks like these are surely not worse by more than ``tolerance``."""
        return self.floor is not None and self.floor > -tolerance


class SuiteChange(FrozenValue, frozen=True):
    """A suite's change, those of its buckets, and the scores of its tasks by bucket."""

    suite: Change
    buckets: tuple[Change, ...]
    scores: Buckets


def suite_change(
    name: str, pairs: Sequence[TaskPair], tolerance: float, levels: Levels = PLAIN
) -> SuiteChange | None:
    """Judge a suite and its buckets at these levels; None where no task has scores on both sides.

    Errored trials are in no score. If there are any, everything is tested again with them at their worst and
    at their best for the new side, and a verdict holds only if all three agree.
    """
    scores = paired_scores(pairs)
    if not scores:
        return None
    errored = any(not entry.averaged for pair in pairs for entry in (*pair.old, *pair.new))
    sides = [scores, *(paired_scores(pairs, *fill) for fill in (AT_WORST, AT_BEST) if errored)]
    findings = [suite_findings(side, levels) for side in sides]
    suite = _suite(name, sides, findings, tolerance, levels.suite)
    buckets = tuple(
        replace(
            _change(bucket, scores[bucket], [finding.buckets[bucket] for finding in findings]),
            of_these_tasks=True,
        )
        for bucket in findings[0].buckets
    )
    return SuiteChange(suite, buckets, scores)


def paired_scores(
    pairs: Sequence[TaskPair], errored_old: float | None = None, errored_new: float | None = None
) -> dict[str, list[PairedScores]]:
    """Give tasks' scores by bucket, with what errored trials count as; None leaves them out.

    A task without a score on either side is left out.
    """
    buckets: dict[str, list[PairedScores]] = {}
    for pair in pairs:
        old, new = _scores(pair.old, errored_old), _scores(pair.new, errored_new)
        if old and new:
            buckets.setdefault(pair.bucket, []).append((old, new))
    return buckets


def _scores(entries: Sequence[JournalEntry], errored: float | None) -> list[float]:
    scores = (entry.score if entry.averaged else errored for entry in entries)
    return [score for score in scores if score is not None]


def _suite(
    name: str, sides: Sequence[Buckets], findings: Sequence[SuiteFindings], tolerance: float, level: float
) -> Change:
    """Judge a suite by its scores and, where trials errored, by their bounds: worst first, then best."""
    change = _change(name, _tasks(sides[0]), [finding.these for finding in findings])
    if change.tasks < FEWEST_FOR_SIGNS:
        return replace(change, of_these_tasks=True)
    like_these = _agreed([finding.like_these for finding in findings])
    intervals = [
        _interval(side, finding.like_these, level)
        for side, finding in zip(sides[:2], findings[:2], strict=True)
    ]
    change = replace(
        change,
        undone=change.undone or (not like_these and findings[0].like_these.direction != 0),
        p_like_these=findings[0].like_these.p,
        interval=_around_zero(intervals[0]) if not like_these else intervals[0],
        floor=min(interval.low for interval in intervals),
        share=findings[0].share if change.verdict in ("better", "worse") else None,
    )
    if like_these:
        return change
    beyond: Verdict = "not worse" if change.excludes_fall(tolerance) else "cannot tell"
    if change.verdict == "cannot tell":
        return replace(change, verdict=beyond)
    return replace(change, of_these_tasks=True, like_these=beyond)


def _agreed(findings: Sequence[Finding]) -> int:
    """Give the direction that all findings have; 0 where they differ."""
    directions = {finding.direction for finding in findings}
    return directions.pop() if len(directions) == 1 else 0


def _tasks(scores: Buckets) -> list[PairedScores]:
    return [pair for of_bucket in scores.values() for pair in of_bucket]


def _interval(scores: Buckets, like_these: Finding, level: float) -> Interval:
    """Give the interval of the mean change, which leaves out 0 if and only if the change is significant."""
    differences = [difference(pair) for pair in _tasks(scores)]
    interval = difference_interval(differences, level)
    least = min(LEAST_SHOWN, abs(mean(differences)) / 2)
    if like_these.direction > 0:
        return replace(interval, low=max(interval.low, least))
    if like_these.direction < 0:
        return replace(interval, high=min(interval.high, -least))
    return _around_zero(interval)


def _around_zero(interval: Interval) -> Interval:
    return replace(interval, low=min(interval.low, 0.0), high=max(interval.high, 0.0))


def _change(name: str, tasks: Sequence[PairedScores], findings: Sequence[Finding]) -> Change:
    """Judge tasks by what was found of their scores and, where trials errored, of their bounds."""
    finding, direction = findings[0], _agreed(findings)
    verdict = WORDS[direction]
    if len(findings) == 1 and all(_is_same(old, new) for old, new in tasks):
        verdict = "identical"
    return Change(
        name=name,
        tasks=len(tasks),
        old=mean([mean(old) for old, _ in tasks]),
        new=mean([mean(new) for _, new in tasks]),
        verdict=verdict,
        p=finding.p,
        testable=finding.testable,
        undone=not direction and finding.direction != 0,
    )


def _is_same(old: Sequence[float], new: Sequence[float]) -> bool:
    if len(old) != len(new):  # alike only where the task always scores the same
        return max(*old, *new) - min(*old, *new) < SAME
    return all(abs(before - after) < SAME for before, after in zip(sorted(old), sorted(new), strict=True))

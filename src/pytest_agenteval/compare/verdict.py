"""Better, worse or cannot tell: what is said of a suite and of its buckets, errored trials considered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.compare.findings import (
    FEWEST_FOR_SIGNS,
    PLAIN,
    Finding,
    SuiteFindings,
    difference,
    suite_findings,
)
from pytest_agenteval.compare.pairing import TaskPair
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.scoring.exact_tests import PairedScores, sign_flip_interval
from pytest_agenteval.scoring.intervals import Interval
from pytest_agenteval.scoring.sensitivity import mean
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_metadata import Levels

Verdict: TypeAlias = Literal["better", "worse", "not worse", "cannot tell", "identical"]
"""What is said of a change; identical: trials scored as before; not worse: by more than the tolerance."""

Buckets: TypeAlias = Mapping[str, Sequence[PairedScores]]

NO_SPREAD = 1e-9

AT_WORST, AT_BEST = (1.0, 0.0), (0.0, 1.0)
"""What an errored trial counts as, on the old side and on the new one."""


class Change(FrozenValue, frozen=True):
    """What became of the mean over tasks of mean scores, of a suite or of a bucket.

    ``p`` is that of the test, whatever the verdict; what is not ``testable`` could not have been significant.
    ``of_these_tasks`` says that the verdict speaks of these tasks alone. ``undone`` says that the scores
    alone gave another verdict, which errored trials, taken as 0 and as 1, undo.
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

    @property
    def change(self) -> float:
        """New mean less old mean."""
        return self.new - self.old


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
    observed = suite_findings(scores, levels)
    errored = any(not entry.averaged for pair in pairs for entry in (*pair.old, *pair.new))
    bounds = [paired_scores(pairs, *fill) for fill in (AT_WORST, AT_BEST)] if errored else []
    findings = [suite_findings(bound, levels) for bound in bounds]
    suite = _suite(name, scores, observed.suite, [finding.suite for finding in findings], levels.suite)
    if suite.verdict == "cannot tell" and not suite.undone:
        # where all tasks move by the same at worst there is no interval, and nothing is sure
        intervals = [_interval(each, levels.suite) for each in (scores, *bounds[:1])]
        if all(interval is not None and interval.low > -tolerance for interval in intervals):
            suite = replace(suite, verdict="not worse")
    buckets = tuple(_bucket(bucket, scores[bucket], observed, findings) for bucket in observed.buckets)
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


def _suite(name: str, scores: Buckets, finding: Finding, bounds: Sequence[Finding], level: float) -> Change:
    interval = _interval(scores, level)
    change = _change(name, _tasks(scores), finding, bounds)
    return replace(change, interval=interval, of_these_tasks=change.tasks < FEWEST_FOR_SIGNS)


def _tasks(scores: Buckets) -> list[PairedScores]:
    return [pair for of_bucket in scores.values() for pair in of_bucket]


def _interval(scores: Buckets, level: float) -> Interval | None:
    """Give the interval that goes with the sign-flip test, None where the suite is too small for it.

    Nor is there one where all tasks moved by the same: they show no spread, which proves no certainty.
    """
    differences = [difference(pair) for pair in _tasks(scores)]
    alike = max(differences) - min(differences) < NO_SPREAD
    if len(differences) < FEWEST_FOR_SIGNS or (alike and abs(differences[0]) > NO_SPREAD):
        return None
    return sign_flip_interval(differences, level)


def _bucket(
    name: str, tasks: Sequence[PairedScores], observed: SuiteFindings, bounds: Sequence[SuiteFindings]
) -> Change:
    change = _change(name, tasks, observed.buckets[name], [bound.buckets[name] for bound in bounds])
    return replace(change, of_these_tasks=True)


def _change(name: str, tasks: Sequence[PairedScores], finding: Finding, bounds: Sequence[Finding]) -> Change:
    agree = all(bound.direction == finding.direction for bound in bounds)
    words: dict[int, Verdict] = {1: "better", -1: "worse", 0: "cannot tell"}
    verdict = words[finding.direction if agree else 0]
    if not bounds and all(sorted(old) == sorted(new) for old, new in tasks):
        verdict = "identical"
    return Change(
        name=name,
        tasks=len(tasks),
        old=mean([mean(old) for old, _ in tasks]),
        new=mean([mean(new) for _, new in tasks]),
        verdict=verdict,
        p=finding.p,
        testable=finding.testable,
        undone=not agree and finding.direction != 0,
    )

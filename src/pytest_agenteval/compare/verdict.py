"""Better, worse or cannot tell: the verdicts of a suite and of its buckets, errored trials considered.

Two questions about a suite are tested, the second only where the answer to the first is yes:

1. Did *these tasks* change? The labels old and new are exchanged within each task (``label_test``).
2. Would *tasks like these* change? The signs of the tasks' differences are flipped (``sign_flip_test``).

Where nothing changed, both answers are wrong only if the first one is. So each question has the whole 2.5 %:
a closed test (Marcus, Peritz and Gabriel 1976). The first question also keeps its level where old and new
tasks have different numbers of trials, which makes differences skewed and a sign no fair coin.

For a bucket, or a suite of fewer than 7 tasks, only the first question is tested. Buckets share 2.5 % of
their own: of comparisons in which nothing changed at most 5 % give any verdict.
``tests/extended/simulations`` measures it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean as mean
from typing import Literal, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.compare.pairing import TaskPair
from pytest_agenteval.compare.scoring.exact_tests import (
    ExactTest,
    PairedScores,
    label_test,
    sign_flip_test,
    tarone_holm,
)
from pytest_agenteval.compare.scoring.intervals import Interval, difference_interval
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import Levels

PLAIN = Levels()
LEVEL = PLAIN.suite


def at_look(levels: Levels, look: int) -> Levels:
    """Give the levels of the ``look``-th comparison of the same held-out tasks; 0: none is held out."""
    return Levels(*(1 - (1 - level) * share_of_look(look) for level in (levels.suite, levels.buckets)))


def shared_levels(levels: Levels, pairs: int) -> Levels:
    """Give the levels of one of several comparisons whose verdicts together keep these: Bonferroni's.

    With three sides, one of three comparisons may be wrong as often as a third of a single one.
    """
    if pairs == 1:
        return levels
    return Levels(*(1 - (1 - level) / pairs for level in (levels.suite, levels.buckets)))


def share_of_look(look: int) -> float:
    """Give the part of an error rate that the ``look``-th look at the same held-out tasks may use.

    6 / (π²·look²): 61 % at the first look, 15 % at the second. Over all looks, however many, this adds up to
    1, while the sum of 1 / look has no bound. It is 1 where nothing is held out, look 0.
    """
    return 6 / (math.pi * look) ** 2 if look else 1.0


# The fewest tasks for which the sign-flip test can be significant: with 6, of 2^6 cases, the smallest p is
# 3.1 %.
FEWEST_FOR_SIGNS = 7


class ChangeFinding(FrozenValue, frozen=True):
    """The result of testing a change: ``direction`` is 1 for better, -1 for worse, 0 for nothing significant.

    A change that is not ``testable`` could not have been significant whatever its trials had shown.
    """

    p: float
    direction: int = 0
    testable: bool = True


NOT_TESTED = ChangeFinding(1.0, testable=False)


class BucketShare(FrozenValue, frozen=True):
    """How far one bucket alone makes a suite's change: the one that moved most in its direction.

    ``old`` and ``new`` are the bucket's own scores. Of all that buckets moved in that direction, ``rest`` is
    the part, 0..1, that the others moved. ``p`` is that of the sign-flip test with buckets as units; None
    where they are too few, or too many and small, to be units.
    """

    bucket: str
    old: float
    new: float
    rest: float
    p: float | None = None


class SuiteFindings(FrozenValue, frozen=True):
    """The results of the tests of a suite and of its buckets; a suite of one bucket has none for the bucket.

    ``these`` is about these tasks, ``like_these`` about tasks like these, which is not testable below 7
    tasks. ``share`` says which bucket has most of a change that is significant.
    """

    these: ChangeFinding
    like_these: ChangeFinding
    buckets: Mapping[str, ChangeFinding]
    share: BucketShare | None = None

    @property
    def suite(self) -> ChangeFinding:
        """The finding that counts: on tasks like these where there are enough of them, else on these."""
        return self.like_these if self.like_these is not NOT_TESTED else self.these


def suite_findings(
    buckets: Mapping[str, Sequence[PairedScores]], levels: Levels = PLAIN, sharing: int = 1
) -> SuiteFindings:
    """Test a suite, given its tasks' scores by bucket; there is at least one task.

    ``sharing`` is the number of comparisons that together are to take no longer than one.
    """
    tasks = [pair for of_bucket in buckets.values() for pair in of_bucket]
    differences = [difference(pair) for pair in tasks]
    direction = 1 if math.fsum(differences) > 0 else -1
    labels = label_test(tasks, sharing)
    these = _finding(labels, levels.suite, direction)
    like_these = NOT_TESTED
    if len(tasks) >= FEWEST_FOR_SIGNS:
        # With one trial on each side, to exchange labels is to flip a sign: both tests are the same.
        single = all(len(old) == len(new) == 1 for old, new in tasks)
        signs = labels if single else sign_flip_test(differences, sharing)
        # A closed test: the second question counts only where the first is answered with yes, too.
        both = ExactTest(max(labels.p, signs.p), max(labels.smallest_p, signs.smallest_p))
        like_these = _finding(both, levels.suite, direction)
    # The only bucket would be the suite once more, at a level of its own.
    if len(buckets) == 1:
        return SuiteFindings(these, like_these, {})
    share = _bucket_share(buckets) if these.direction else None
    tests = {bucket: label_test(tasks, sharing) for bucket, tasks in buckets.items()}
    # Buckets share one level. Those that are too small to be significant take nothing of it.
    family = tarone_holm(list(tests.values()), 1 - levels.buckets)
    findings = {}
    for (bucket, test), member in zip(tests.items(), family, strict=True):
        direction = 0
        if member.significant:
            direction = 1 if sum(map(difference, buckets[bucket])) > 0 else -1
        findings[bucket] = ChangeFinding(test.p, direction, member.testable)
    return SuiteFindings(these, like_these, findings, share)


def _finding(test: ExactTest, level: float, direction: int) -> ChangeFinding:
    return ChangeFinding(test.p, direction if test.p <= 1 - level else 0, test.smallest_p <= 1 - level)


def _bucket_share(buckets: Mapping[str, Sequence[PairedScores]]) -> BucketShare:
    """Find the bucket that moved most in the direction of the suite, and how far the others moved."""
    sums = {bucket: math.fsum(map(difference, tasks)) for bucket, tasks in buckets.items()}
    direction = math.copysign(1, math.fsum(sums.values()))
    moved = {bucket: max(0.0, direction * moved) for bucket, moved in sums.items()}
    most = max(moved, key=lambda bucket: moved[bucket])
    tasks = sum(map(len, buckets.values()))
    # As units, buckets have to be as many as the sign-flip test needs, of four tasks and more on average.
    as_units = FEWEST_FOR_SIGNS <= len(sums) <= tasks / 4
    p = sign_flip_test(sums.values()).p if as_units else None
    old, new = (mean([mean(pair[side]) for pair in buckets[most]]) for side in (0, 1))
    return BucketShare(most, old, new, 1 - moved[most] / math.fsum(moved.values()), p)


def difference(scores: PairedScores) -> float:
    """Give the change of one task: the mean of its new scores less that of its old ones."""
    old, new = scores
    return mean(new) - mean(old)


Verdict: TypeAlias = Literal["better", "worse", "not worse", "cannot tell", "identical"]
"""The words for a change; identical: trials scored as before; not worse: by more than the tolerance."""

Buckets: TypeAlias = Mapping[str, Sequence[PairedScores]]

WORDS: Mapping[int, Verdict] = {1: "better", -1: "worse", 0: "cannot tell"}

# The interval of a significant change excludes 0 by at least this much, or by half the change if that is
# less.
LEAST_SHOWN = 1e-4

# The scores of an errored trial on the old side and on the new one.
AT_WORST, AT_BEST = (1.0, 0.0), (0.0, 1.0)


class Change(FrozenValue, frozen=True):
    """The change of the mean over tasks of mean scores, of a suite or of a bucket.

    ``p`` is that of the test on these tasks, ``p_like_these`` that of tasks like these. The latter is
    None where it is not tested: for buckets, and for suites of fewer than 7 tasks. A change that is not
    ``testable`` could not have been significant. ``of_these_tasks`` is true where the verdict is about
    these tasks alone; ``like_these`` is then the verdict about tasks like these, and None where that is
    not tested. ``undone`` is true where the scores alone gave another verdict, which does not stand when
    errored trials are taken as 0 and as 1. ``interval`` is that of the mean change of tasks like these,
    ``floor`` its lower end with errored trials at their worst. ``share`` names the bucket that has most
    of a suite's change.
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


class SuiteScoreChange(FrozenValue, frozen=True):
    """A suite's change, those of its buckets, and the scores of its tasks by bucket."""

    suite: Change
    buckets: tuple[Change, ...]
    scores: Buckets


def suite_change(
    name: str, pairs: Sequence[TaskPair], tolerance: float, levels: Levels = PLAIN, sharing: int = 1
) -> SuiteScoreChange | None:
    """Judge a suite and its buckets at these levels; None where no task has scores on both sides.

    ``sharing`` is the number of comparisons that together are to take no longer than one.

    Errored trials are in no score. If there are any, everything is tested again with them at their worst and
    at their best for the new side. A verdict holds only if all three agree.
    """
    scores = paired_scores(pairs)
    if not scores:
        return None
    errored = any(not entry.averaged for pair in pairs for entry in (*pair.old, *pair.new))
    sides = [scores, *(paired_scores(pairs, *fill) for fill in (AT_WORST, AT_BEST) if errored)]
    findings = [suite_findings(side, levels, sharing) for side in sides]
    suite = _suite(name, sides, findings, tolerance, levels.suite)
    buckets = []
    for bucket in findings[0].buckets:
        change = _change(bucket, scores[bucket], [finding.buckets[bucket] for finding in findings])
        buckets.append(replace(change, of_these_tasks=True))
    return SuiteScoreChange(suite, tuple(buckets), scores)


def paired_scores(
    pairs: Sequence[TaskPair], errored_old: float | None = None, errored_new: float | None = None
) -> dict[str, list[PairedScores]]:
    """Give tasks' scores by bucket, and with what errored trials count as; None leaves these out.

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
    """Judge a suite by its scores and, where trials errored, by their bounds: at worst, then at best."""
    tasks = [pair for of_bucket in sides[0].values() for pair in of_bucket]
    change = _change(name, tasks, [finding.these for finding in findings])
    if change.tasks < FEWEST_FOR_SIGNS:
        return replace(change, of_these_tasks=True)
    like_these = _agreed([finding.like_these for finding in findings])
    # The scores as they are and, where trials errored, those at worst, for the floor.
    both = zip(sides[:2], findings[:2], strict=True)
    intervals = [_interval(side, finding.like_these, level) for side, finding in both]
    change = replace(
        change,
        undone=change.undone or (not like_these and findings[0].like_these.direction != 0),
        p_like_these=findings[0].like_these.p,
        # Where errored trials undo a verdict, the interval may not leave out 0 either.
        interval=_around_zero(intervals[0]) if not like_these else intervals[0],
        floor=min(interval.low for interval in intervals),
        share=findings[0].share if change.verdict in ("better", "worse") else None,
    )
    if like_these:
        return change
    # Without a verdict on tasks like these, a fall beyond the tolerance may still be excluded.
    beyond: Verdict = "not worse" if change.excludes_fall(tolerance) else "cannot tell"
    if change.verdict == "cannot tell":
        return replace(change, verdict=beyond)
    return replace(change, of_these_tasks=True, like_these=beyond)


def _agreed(findings: Sequence[ChangeFinding]) -> int:
    """Give the direction that all findings have in common; 0 where they differ."""
    directions = {finding.direction for finding in findings}
    return directions.pop() if len(directions) == 1 else 0


def _interval(scores: Buckets, like_these: ChangeFinding, level: float) -> Interval:
    """Give the interval of the mean change, which leaves out 0 if and only if the change is significant."""
    differences = [difference(pair) for of_bucket in scores.values() for pair in of_bucket]
    interval = difference_interval(differences, level)
    # The interval and the tests are different methods. Where they differ about 0, the tests decide.
    least = min(LEAST_SHOWN, abs(mean(differences)) / 2)
    if like_these.direction > 0:
        return replace(interval, low=max(interval.low, least))
    if like_these.direction < 0:
        return replace(interval, high=min(interval.high, -least))
    return _around_zero(interval)


def _around_zero(interval: Interval) -> Interval:
    return replace(interval, low=min(interval.low, 0.0), high=max(interval.high, 0.0))


def _change(name: str, tasks: Sequence[PairedScores], findings: Sequence[ChangeFinding]) -> Change:
    """Judge tasks by the findings on their scores and, where trials errored, on their bounds."""
    finding, direction = findings[0], _agreed(findings)
    verdict = WORDS[direction]
    # With errored trials nobody knows what they would have scored.
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
    # Different numbers of trials are alike only where the task always scores the same.
    if len(old) != len(new):
        return max(*old, *new) - min(*old, *new) < ROUNDING
    # In any order, and give or take rounding: 0.1 + 0.2 is not quite 0.3.
    return all(abs(before - after) < ROUNDING for before, after in zip(sorted(old), sorted(new), strict=True))

"""Which changes of a suite and of its buckets are no chance, by scores alone.

A suite is asked two questions, the second only where the first one says yes:

1. Did *these tasks* change? The labels old and new are exchanged within each task (``label_test``).
2. Would *tasks like these* change? The signs of the tasks' differences are flipped (``sign_flip_test``).

Where nothing changed, both answers are wrong only if the first one is. So each question has the whole 2.5 %:
a closed test (Marcus, Peritz and Gabriel 1976). The first question also keeps its level where old and new
tasks have different numbers of trials, which makes differences skewed and a sign no fair coin.

A bucket, or a suite of fewer than 7 tasks, is asked the first question only. Buckets share 2.5 % of their
own: of comparisons in which nothing changed at most 5 % give any verdict.
``tests/extended/simulations`` measures it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pytest_agenteval.compare.scoring.exact_tests import ExactTest, PairedScores, label_test, sign_flip_test
from pytest_agenteval.compare.scoring.multiple_tests import tarone_holm
from pytest_agenteval.compare.scoring.sensitivity import mean
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.run_folder import Levels

PLAIN = Levels()
LEVEL = PLAIN.suite


def at_look(levels: Levels, look: int) -> Levels:
    """Give the levels of the ``look``-th comparison of the same held-out tasks; 0 is none of them."""
    return Levels(*(1 - (1 - level) * share_of_look(look) for level in (levels.suite, levels.buckets)))


def share_of_look(look: int) -> float:
    """Give the part of an error rate that the ``look``-th look at the same held-out tasks may use.

    6 / (π²·look²): 61 % at the first look, 15 % at the second. Over all looks, however many, that is 1, where
    1 / look has no bound. All of it where nothing is held out, look 0.
    """
    return 6 / (math.pi * look) ** 2 if look else 1.0


FEWEST_FOR_SIGNS = 7
"""Tasks from which on the sign-flip test can be significant: of 2^6 cases the least p is 3.1 %."""


class Finding(FrozenValue, frozen=True):
    """What a test says of a change: ``direction`` is 1 for better, -1 for worse, 0 for nothing significant.

    What is not ``testable`` could not have been significant whatever its trials had shown.
    """

    p: float
    direction: int = 0
    testable: bool = True


NOT_ASKED = Finding(1.0, testable=False)

TASKS_OF_LARGE_BUCKETS = 4
"""Tasks that buckets have on average, from which on they are looked at as units."""


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
    """What the tests say of a suite and of each of its buckets; a suite of one bucket has none beside it.

    ``these`` is about these tasks, ``like_these`` about tasks like these: nothing testable below 7 tasks.
    ``share`` says which bucket has most of a change that is significant.
    """

    these: Finding
    like_these: Finding
    buckets: Mapping[str, Finding]
    share: BucketShare | None = None

    @property
    def suite(self) -> Finding:
        """What the suite stands for: tasks like its own where it has enough of them, else these alone."""
        return self.like_these if self.like_these is not NOT_ASKED else self.these


def suite_findings(buckets: Mapping[str, Sequence[PairedScores]], levels: Levels = PLAIN) -> SuiteFindings:
    """Test a suite whose tasks' scores are given by bucket; there is one task or more."""
    tasks = [pair for of_bucket in buckets.values() for pair in of_bucket]
    differences = [difference(pair) for pair in tasks]
    direction = 1 if math.fsum(differences) > 0 else -1
    labels = label_test(tasks)
    these = _finding(labels, levels.suite, direction)
    like_these = NOT_ASKED
    if len(tasks) >= FEWEST_FOR_SIGNS:
        single = all(len(old) == len(new) == 1 for old, new in tasks)
        signs = labels if single else sign_flip_test(differences)
        both = ExactTest(max(labels.p, signs.p), max(labels.smallest_p, signs.smallest_p))
        like_these = _finding(both, levels.suite, direction)
    if len(buckets) == 1:
        return SuiteFindings(these, like_these, {})
    share = _bucket_share(buckets) if these.direction else None
    return SuiteFindings(these, like_these, _bucket_findings(buckets, levels.buckets), share)


def _finding(test: ExactTest, level: float, direction: int) -> Finding:
    return Finding(test.p, direction if test.p <= 1 - level else 0, test.smallest_p <= 1 - level)


def _bucket_share(buckets: Mapping[str, Sequence[PairedScores]]) -> BucketShare:
    """Say which bucket moved most the way the suite did, and what the others did."""
    sums = {bucket: math.fsum(map(difference, tasks)) for bucket, tasks in buckets.items()}
    direction = math.copysign(1, math.fsum(sums.values()))
    moved = {bucket: max(0.0, direction * moved) for bucket, moved in sums.items()}
    most = max(moved, key=lambda bucket: moved[bucket])
    tasks = sum(map(len, buckets.values()))
    as_units = FEWEST_FOR_SIGNS <= len(sums) <= tasks / TASKS_OF_LARGE_BUCKETS
    p = sign_flip_test(sums.values()).p if as_units else None
    old, new = (mean([mean(pair[side]) for pair in buckets[most]]) for side in (0, 1))
    return BucketShare(most, old, new, 1 - moved[most] / math.fsum(moved.values()), p)


def difference(scores: PairedScores) -> float:
    """Give what became of one task: the mean of its new scores less that of its old ones."""
    old, new = scores
    if len(old) == len(new) == 1:  # a hundred thousand tasks with one trial each ask for this several times
        return float(new[0]) - float(old[0])
    return mean(new) - mean(old)


def _bucket_findings(buckets: Mapping[str, Sequence[PairedScores]], level: float) -> dict[str, Finding]:
    tests = {bucket: label_test(tasks) for bucket, tasks in buckets.items()}
    family = tarone_holm(list(tests.values()), 1 - level)
    return {
        bucket: Finding(
            tests[bucket].p, _direction(buckets[bucket]) if member.significant else 0, member.testable
        )
        for bucket, member in zip(tests, family, strict=True)
    }


def _direction(tasks: Sequence[PairedScores]) -> int:
    return 1 if sum(map(difference, tasks)) > 0 else -1

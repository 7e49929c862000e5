"""Which changes of a suite and of its buckets are no chance, by scores alone.

A suite of 7 tasks or more stands for tasks like its own, and is tested by flipping the signs of its tasks'
differences. A bucket, or a smaller suite, speaks of its own tasks only, and is tested by exchanging the
labels old and new within each task. The suite has one half of the 5 % in which all of this may be wrong, its
buckets share the other; how often it is, ``tests/simulations`` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.scoring.exact_tests import PairedScores, label_test, sign_flip_test
from pytest_agenteval.scoring.multiple_tests import tarone_holm
from pytest_agenteval.scoring.sensitivity import mean
from pytest_agenteval.store.run_metadata import Levels

PLAIN = Levels()
LEVEL = PLAIN.suite


def at_look(levels: Levels, look: int) -> Levels:
    """Give the levels of the ``look``-th time that the same held-out tasks are looked at, by Bonferroni."""
    return Levels(*(1 - (1 - level) / max(1, look) for level in (levels.suite, levels.buckets)))


FEWEST_FOR_SIGNS = 7
"""Tasks from which on the sign-flip test can be significant: of 2^6 cases the least share is 3.1 %."""


class Finding(FrozenValue, frozen=True):
    """What a test says of a change: ``direction`` is 1 for better, -1 for worse, 0 for nothing significant.

    What is not ``testable`` could not have been significant whatever its trials had shown.
    """

    p: float
    direction: int = 0
    testable: bool = True


class SuiteFindings(FrozenValue, frozen=True):
    """What the tests say of a suite and of each of its buckets; a suite of one bucket has none beside it."""

    suite: Finding
    buckets: Mapping[str, Finding]


def suite_findings(buckets: Mapping[str, Sequence[PairedScores]], levels: Levels = PLAIN) -> SuiteFindings:
    """Test a suite whose tasks' scores are given by bucket; there is one task or more."""
    tasks = [pair for of_bucket in buckets.values() for pair in of_bucket]
    by_signs = len(tasks) >= FEWEST_FOR_SIGNS
    suite = sign_flip_test(map(difference, tasks)) if by_signs else label_test(tasks)
    most = 1 - levels.suite
    finding = Finding(suite.p, _direction(tasks) if suite.p <= most else 0, suite.smallest_p <= most)
    return SuiteFindings(finding, _bucket_findings(buckets, levels.buckets) if len(buckets) > 1 else {})


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

"""Many tests at once: which may speak, so that all of them together are wrong no more often than one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pytest_agenteval.compare.scoring.exact_tests import ExactTest
from pytest_agenteval.records.record import FrozenValue

ROUNDING = 1e-12


class FamilyTest(FrozenValue, frozen=True):
    """One test among others: whether it could have been significant at all, and whether it is."""

    testable: bool
    significant: bool


def tarone_holm(tests: Sequence[ExactTest], level: float) -> list[FamilyTest]:
    """Say which tests are significant so that a false one is among them with probability ``level`` at most.

    A test that could not have been significant whatever was observed costs the others nothing (Tarone 1990):
    p is significant if p times the number of tests that can reach it is at most the level. What is
    significant is set aside, and the rest is looked at anew (Holm 1979; Hommel and Krummenauer 1998).
    ``testable`` are those whose smallest p would be significant in the first round, or whose p was later.
    """
    remaining = set(range(len(tests)))
    testable = {at for at in remaining if _significant(tests[at].smallest_p, tests, remaining, level)}
    significant: set[int] = set()
    while rejected := {at for at in remaining if _significant(tests[at].p, tests, remaining, level)}:
        significant |= rejected
        remaining -= rejected
    return [FamilyTest(at in testable | significant, at in significant) for at in range(len(tests))]


def _significant(p: float, tests: Sequence[ExactTest], remaining: Collection[int], level: float) -> bool:
    """Say whether tests that can reach ``p`` may share the level with it: each would be wrong that often."""
    able = sum(tests[at].smallest_p <= p + ROUNDING for at in remaining)
    return p * able <= level + ROUNDING

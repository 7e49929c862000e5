"""Many tests at once: which may speak, so that all of them together are wrong no more often than one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.scoring.exact_tests import ExactTest

ROUNDING = 1e-12


class FamilyTest(FrozenValue, frozen=True):
    """One test among others: whether it could have been significant at all, and whether it is."""

    testable: bool
    significant: bool


def tarone_holm(tests: Sequence[ExactTest], level: float) -> list[FamilyTest]:
    """Say which tests are significant so that a false one is among them with probability ``level`` at most.

    A test that could not have been significant whatever was observed costs the others nothing (Tarone 1990):
    the level is shared by the K that can reach level / K, K being the smallest number of which that is true.
    What is significant is set aside, and the rest shares the level anew (Holm 1979; Hommel and Krummenauer
    1998). ``testable`` are those of the first round.
    """
    remaining = set(range(len(tests)))
    testable = set(_testable(tests, remaining, level))
    significant: set[int] = set()
    while candidates := _testable(tests, remaining, level):
        rejected = {at for at in candidates if tests[at].p <= level / len(candidates) + ROUNDING}
        if not rejected:
            break
        significant |= rejected
        remaining -= rejected
    return [FamilyTest(at in testable, at in significant) for at in range(len(tests))]


def _testable(tests: Sequence[ExactTest], remaining: Collection[int], level: float) -> list[int]:
    """Give the tests that share the level: those whose smallest p reaches the share of each."""
    for share in range(1, len(remaining) + 1):
        able = [at for at in remaining if tests[at].smallest_p <= level / share + ROUNDING]
        if len(able) <= share:
            return able
    return []

"""Tests that share a level: who is tested at all, and who is significant."""

from __future__ import annotations

import itertools
import math

from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.exact_tests import ExactTest, tarone_holm

LEVEL = 0.025
SHARES = st.floats(0, 1)
TESTS = st.lists(st.tuples(SHARES, SHARES).map(lambda pair: ExactTest(max(pair), min(pair))), max_size=12)


def significant(tests: list[ExactTest]) -> list[bool]:
    """Which tests are significant at the level."""
    return [test.significant for test in tarone_holm(tests, LEVEL)]


def test_what_could_never_be_significant_costs_the_others_nothing() -> None:
    """One bucket with enough trials among 24 that are too small is tested at the whole level."""
    tests = [ExactTest(0.02, 0.001)] + [ExactTest(0.2, 0.1)] * 24
    found = tarone_holm(tests, LEVEL)
    assert [test.testable for test in found] == [True] + [False] * 24
    assert found[0].significant


def test_testable_buckets_share_the_level() -> None:
    """Two that could both be significant have half of the level each."""
    tests = [ExactTest(0.02, 0.001), ExactTest(0.5, 0.001)]
    assert significant(tests) == [False, False]
    assert significant([ExactTest(0.012, 0.001), tests[1]]) == [True, False]


def test_what_is_significant_leaves_its_share_to_the_rest() -> None:
    """Holm's step: after the first is set aside the second is tested at the whole level."""
    assert significant([ExactTest(0.001, 0.0001), ExactTest(0.02, 0.0001)]) == [True, True]


def test_a_false_one_among_them_is_as_rare_as_the_level_says() -> None:
    """Three tests of nothing beside one that found something: counted over all that the three can show."""
    can_show = [[LEVEL / 8, LEVEL / 2, 1.0], [LEVEL / 3.5, LEVEL / 3, 1.0], [LEVEL / 3.5, LEVEL / 3, 1.0]]
    real = ExactTest(LEVEL / 8, LEVEL / 8)
    wrong = 0.0
    for shown in itertools.product(*can_show):
        tests = [ExactTest(p, min(own)) for p, own in zip(shown, can_show, strict=True)]
        if any(significant([*tests, real])[:3]):
            wrong += math.prod(_chance(p, own) for p, own in zip(shown, can_show, strict=True))
    assert wrong <= LEVEL


def _chance(p: float, can_show: list[float]) -> float:
    """How often a test of nothing shows exactly this p, of those that it can show."""
    return p - max((other for other in can_show if other < p), default=0.0)


@given(TESTS)
def test_it_is_never_stricter_than_bonferroni_and_never_laxer_than_no_correction(
    tests: list[ExactTest],
) -> None:
    """Significant at level / number of tests stays significant; what is above the level never is."""
    for test, found in zip(tests, tarone_holm(tests, LEVEL), strict=True):
        if test.p <= LEVEL / len(tests):
            assert found.significant
        if test.p > LEVEL + 1e-9:
            assert not found.significant
        if found.significant:
            assert test.smallest_p <= LEVEL + 1e-9


@example([ExactTest(0.0001, 0.0001), ExactTest(0.02, 0.02)])
@given(TESTS)
def test_what_is_significant_could_be(tests: list[ExactTest]) -> None:
    """No screen calls a bucket better that it counts among those without a possible verdict."""
    assert all(test.testable for test in tarone_holm(tests, LEVEL) if test.significant)


@given(TESTS)
def test_a_smaller_p_is_never_passed_over(tests: list[ExactTest]) -> None:
    """Of two tests that could reach as far, that with the smaller p is significant if the other is."""
    found = tarone_holm(tests, LEVEL)
    for first, one in zip(tests, found, strict=True):
        for second, other in zip(tests, found, strict=True):
            if first.p <= second.p and first.smallest_p <= second.smallest_p and other.significant:
                assert one.significant

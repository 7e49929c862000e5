"""Spearman's and Pearson's correlation, held to scipy."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.agreement import Pair, average_ranks, pearson, spearman
from pytest_agenteval.text.errors import UndefinedStatistic

GRADED = st.integers(0, 64).map(lambda number: number / 64)
PAIRS = st.lists(st.tuples(GRADED, GRADED), min_size=2, max_size=40)


def oracle(name: str) -> Any:
    """Import a library that only checks our figures, or skip."""
    return pytest.importorskip(name, reason=f"{name} is this test's oracle: pip install scipy")


def varied(pairs: list[Pair]) -> bool:
    """Whether neither side is the same for all."""
    return len({x for x, _ in pairs}) > 1 and len({y for _, y in pairs}) > 1


@settings(deadline=None)  # the oracle's import takes its time
@given(PAIRS.filter(varied))
def test_both_are_what_scipy_says(pairs: list[Pair]) -> None:
    """scipy.stats gives the same figures, ties and all."""
    stats = oracle("scipy.stats")
    xs, ys = zip(*pairs, strict=True)
    assert pearson(pairs) == pytest.approx(float(stats.pearsonr(xs, ys).statistic), abs=1e-9)
    assert spearman(pairs) == pytest.approx(float(stats.spearmanr(xs, ys).statistic), abs=1e-9)


@settings(deadline=None)
@given(st.lists(GRADED, max_size=40))
def test_ranks_are_what_scipy_says(values: list[float]) -> None:
    """Equal values share the average of the ranks they take together."""
    assert average_ranks(values) == pytest.approx(oracle("scipy.stats").rankdata(values).tolist())


def test_a_worked_example() -> None:
    """Without ties Spearman's is 1 - 6·Σd²/(n³-n): here Σd² = 4 and n = 5."""
    pairs = [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.0), (5.0, 5.0)]
    assert spearman(pairs) == pytest.approx(1 - 6 * 4 / 120)


@given(PAIRS.filter(varied))
def test_bounds_symmetry_and_direction(pairs: list[Pair]) -> None:
    """Both lie in -1..1, care neither for sides nor for the order of pairs, and turn with one side."""
    turned, mirrored = [(y, x) for x, y in pairs], [(x, 1 - y) for x, y in pairs]
    for correlation in (pearson, spearman):
        value = correlation(pairs)
        assert -1 <= value <= 1
        assert correlation(turned) == pytest.approx(value)
        assert correlation(pairs[::-1]) == pytest.approx(value)
        assert correlation(mirrored) == pytest.approx(-value)


@given(st.lists(GRADED, min_size=2, unique=True))
def test_the_same_order_is_one_and_the_opposite_minus_one(values: list[float]) -> None:
    """Spearman asks for the order only, Pearson for a straight line."""
    assert spearman([(value, value**3) for value in values]) == pytest.approx(1)
    assert pearson([(value, 0.25 + value / 2) for value in values]) == pytest.approx(1)
    assert pearson([(value, 1 - value) for value in values]) == pytest.approx(-1)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e150, 1e300])
def test_neither_tiny_nor_huge_numbers_break_the_arithmetic(scale: float) -> None:
    """A scale changes nothing, though squares of such numbers vanish or overflow."""
    pairs = [(1.0, 3.0), (2.0, 1.0), (4.0, 5.0), (5.0, 4.0)]
    assert pearson([(x * scale, y * scale) for x, y in pairs]) == pytest.approx(pearson(pairs))


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([], "fewer than two pairs"),
        ([(0.5, 0.5)], "fewer than two pairs"),
        ([(0.5, 0.1), (0.5, 0.9)], "every label is 0.5"),
        ([(0.1, 1.0), (0.9, 1.0)], "every score is 1"),
        ([(0.1, 1.0), (0.9, math.nextafter(1.0, 0.0))], ""),
    ],
)
def test_what_cannot_go_up_and_down_has_no_correlation(pairs: list[Pair], why: str) -> None:
    """Too few pairs, or a side that never changes, are undefined, with the reason; 0 would be a claim."""
    if not why:
        assert spearman(pairs) == pytest.approx(-1)
        return
    for correlation in (pearson, spearman):
        with pytest.raises(UndefinedStatistic, match=why):
            correlation(pairs)

"""The quantiles below every interval, against scipy and the printed tables."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.intervals import beta_quantile, normal_quantile, t_quantile

DEGREES = [1, 1.5, 2, 3, 4, 5, 7, 10, 20, 31, 56, 99, 500, 999, 2000, 5000, 9999, 10_000, 10_001, 1e5, 1e8]
CHANCES = [1e-6, 0.001, 0.025, 0.1, 0.3, 0.49, 0.5, 0.51, 0.6, 0.75, 0.9, 0.95, 0.975, 0.995, 1 - 1e-6]


@pytest.fixture(scope="module")
def stats() -> Any:
    """Import scipy.stats once, and outside of what hypothesis times, or skip."""
    return pytest.importorskip("scipy.stats", reason="scipy is this test's oracle: pip install scipy")


@pytest.mark.parametrize("df", DEGREES)
def test_the_t_quantile_is_scipys(stats: Any, df: float) -> None:
    """Ours and scipy's agree to 1e-8, from one degree of freedom to a hundred million."""
    for p in CHANCES:
        assert t_quantile(p, df) == pytest.approx(float(stats.t.ppf(p, df)), rel=1e-8, abs=1e-8), p


@given(st.floats(1e-4, 1 - 1e-4), st.floats(1, 30_000))
def test_the_t_quantile_is_scipys_in_between(stats: Any, p: float, df: float) -> None:
    """Whole and broken degrees of freedom, on both sides of the change of method, agree as well."""
    assert t_quantile(p, df) == pytest.approx(float(stats.t.ppf(p, df)), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("p", [1e-300, 1e-12, *CHANCES])
def test_the_normal_quantile_is_scipys(stats: Any, p: float) -> None:
    """Ours and scipy's agree to 1e-12."""
    assert normal_quantile(p) == pytest.approx(float(stats.norm.ppf(p)), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("p", "df", "printed"), [(0.975, 1, 12.706), (0.975, 9, 2.262), (0.95, 30, 1.697)])
def test_the_t_quantile_is_that_of_the_printed_tables(p: float, df: int, printed: float) -> None:
    """Without scipy at hand, the textbook's three digits still hold."""
    assert t_quantile(p, df) == pytest.approx(printed, abs=5e-4)
    assert t_quantile(1 - p, df) == pytest.approx(-printed, abs=5e-4)


@pytest.mark.parametrize(("p", "df"), [(0.0, 5), (1.0, 5), (math.nan, 5), (0.9, 0.5), (0.9, math.nan)])
def test_a_quantile_that_does_not_exist_is_refused(p: float, df: float) -> None:
    """Chances of 0 and 1 and less than one degree of freedom have no answer."""
    with pytest.raises(ValueError, match="not"):
        t_quantile(p, df)


SHAPES = [0.1, 0.5, 1.0, 2.5, 20.0, 1000.5, 2e5]


@pytest.mark.parametrize("a", SHAPES)
@pytest.mark.parametrize("b", SHAPES)
def test_the_beta_quantile_is_scipys(stats: Any, a: float, b: float) -> None:
    """In both tails and the middle, for shapes from nearly two points to nearly one."""
    for p in (0.0005, 0.025, 0.5, 0.9, 0.975):
        expected = float(stats.beta.ppf(p, a, b))
        assert beta_quantile(p, a, b) == pytest.approx(expected, rel=1e-8, abs=1e-12), p


@pytest.mark.parametrize(("p", "a", "b"), [(0.0, 1, 1), (1.0, 1, 1), (0.5, 0, 1), (0.5, 1, -1)])
def test_a_beta_quantile_that_is_none_is_refused(p: float, a: float, b: float) -> None:
    """Of no probability, and of shapes that no distribution has."""
    with pytest.raises(ValueError):
        beta_quantile(p, a, b)

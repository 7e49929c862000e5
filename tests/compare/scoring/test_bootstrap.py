"""The percentile bootstrap."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.agreement import Pair, pearson
from pytest_agenteval.compare.scoring.intervals import (
    BootstrapSettings,
    bootstrap_estimate,
    corner_scores,
    quantile,
)
from pytest_agenteval.text.errors import UndefinedStatistic

ENDS = [[0.0], [1.0]] * 2
"""The corners of a share."""

NUMBERS = st.lists(st.floats(-10, 10), min_size=1, max_size=30)


def mean(values: list[float]) -> float:
    """Give the mean."""
    return math.fsum(values) / len(values)


def oracle(name: str) -> Any:
    """Import a library that only checks our figures, or skip."""
    return pytest.importorskip(name, reason=f"{name} is this test's oracle: pip install scipy")


@settings(deadline=None)  # the oracle's import takes its time
@given(NUMBERS, st.floats(0, 1))
def test_quantiles_are_what_numpy_says(values: list[float], share: float) -> None:
    """Linear between neighbours, the ends included."""
    numpy = oracle("numpy")
    assert quantile(sorted(values), share) == pytest.approx(float(numpy.quantile(values, share)), abs=1e-9)


@pytest.mark.parametrize(("passed", "examples"), [(8, 8), (0, 12), (27, 30), (25, 60)])
def test_the_interval_of_a_share_is_that_of_the_binomial_with_two_examples_more(
    passed: int, examples: int
) -> None:
    """Corners add one that passes and one that does not: draws are Binomial(n, (passed + 1) / (n + 2))."""
    binomial = oracle("scipy.stats").binom(examples, (passed + 1) / (examples + 2))
    flags = [[1.0]] * passed + [[0.0]] * (examples - passed)
    found = bootstrap_estimate(flags, mean, ENDS, BootstrapSettings(draws=4_000)).interval
    assert found is not None
    # Of so many draws a quantile is off by one example at most.
    assert found.low == pytest.approx(float(binomial.ppf(0.025)) / examples, abs=1 / examples + 1e-9)
    assert found.high == pytest.approx(float(binomial.ppf(0.975)) / examples, abs=1 / examples + 1e-9)
    assert found.low < found.high


def test_a_seed_is_all_that_an_interval_hangs_on() -> None:
    """The same seed gives the same interval to the last digit, another seed another one."""
    examples = [[float(value)] for value in range(20)]
    first, again = (
        bootstrap_estimate(examples, mean, ENDS, BootstrapSettings(seed=5)),
        bootstrap_estimate(examples, mean, ENDS, BootstrapSettings(seed=5)),
    )
    assert first == again
    assert bootstrap_estimate(examples, mean, ENDS, BootstrapSettings(seed=6)).interval != first.interval


def test_examples_are_drawn_and_not_their_parts() -> None:
    """Saying the same thing ten times makes nothing surer: the interval is that of one time."""
    once = [[float(value)] for value in range(12)]
    often = [example * 10 for example in once]
    found = bootstrap_estimate(often, mean, [corner * 10 for corner in ENDS]).interval
    wanted = bootstrap_estimate(once, mean, ENDS).interval
    assert found is not None
    assert wanted is not None
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_draws_without_a_value_are_left_out() -> None:
    """A draw of one label only has no correlation: it is no zero, and the interval is of the others."""
    pairs: list[list[Pair]] = [[(0.0, 0.1)]] * 7 + [[(1.0, 0.9)]]
    found = bootstrap_estimate(pairs, pearson, [])
    assert found.interval is not None
    assert found.interval.low > 0.99


def test_examples_that_all_agree_leave_the_next_one_open() -> None:
    """Eight scores equal to their labels: the coefficient is 1, and far less is not excluded."""
    pairs: list[list[Pair]] = [[(0.0, 0.0)], [(1.0, 1.0)]] * 4
    found = bootstrap_estimate(pairs, pearson, [[corner] for corner in corner_scores(2)])
    assert found.value == pytest.approx(1)
    assert found.interval is not None
    assert found.interval.low < 0.5
    assert found.interval.high == pytest.approx(1)


def test_fewer_than_eight_examples_have_no_interval() -> None:
    """From seven it would miss the truth too often; empty ones do not count."""
    found = bootstrap_estimate([[1.0, 2.0], *[[1.0]] * 6, []], mean, ENDS)
    assert found.value == 9 / 8
    assert found.interval is None
    assert found.reason == "no interval: fewer than 8 examples"
    assert bootstrap_estimate([[1.0]] * 8, mean, ENDS).interval is not None


def test_what_is_undefined_says_why() -> None:
    """The statistic's own reason is the figure's."""

    def never(values: list[float]) -> float:
        raise UndefinedStatistic("nothing to see")

    assert bootstrap_estimate([[1.0], [2.0]], never, ENDS).reason == "nothing to see"
    assert bootstrap_estimate([[1.0], [2.0]], never, ENDS).value is None


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=3), min_size=8, max_size=15), st.integers(0, 9)
)
def test_the_interval_of_a_mean_stays_within_its_corners(examples: list[list[float]], seed: int) -> None:
    """No draw can leave the range of what there is and of the corners."""
    found = bootstrap_estimate(examples, mean, ENDS, BootstrapSettings(draws=50, seed=seed))
    assert found.interval is not None
    low, high = found.interval.low, found.interval.high
    assert -1e-12 <= low <= high <= 1 + 1e-12

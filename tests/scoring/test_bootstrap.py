"""The percentile bootstrap."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.errors import UndefinedStatistic
from pytest_agenteval.scoring.bootstrap import BootstrapSettings, bootstrap_estimate, quantile
from pytest_agenteval.scoring.inter_rater import Pair, pearson

NUMBERS = st.lists(st.floats(-10, 10), min_size=1, max_size=30)


def mean(values: list[float]) -> float:
    """Give the mean."""
    return math.fsum(values) / len(values)


def oracle(name: str) -> Any:
    """Import a library that only checks our figures, or skip."""
    return pytest.importorskip(name, reason=f"{name} is this test's oracle: pip install scipy statsmodels")


@settings(deadline=None)  # the oracle's import takes its time
@given(NUMBERS, st.floats(0, 1))
def test_quantiles_are_what_numpy_says(values: list[float], share: float) -> None:
    """Linear between neighbours, the ends included."""
    numpy = oracle("numpy")
    assert quantile(sorted(values), share) == pytest.approx(float(numpy.quantile(values, share)), abs=1e-9)


def test_the_interval_is_near_scipy_s() -> None:
    """scipy.stats.bootstrap, asked for percentiles, draws otherwise but from the same distribution."""
    stats = oracle("scipy.stats")
    random = Random(3)
    pairs = [(x := random.random(), 0.5 * x + 0.3 * random.random()) for _ in range(80)]
    found = bootstrap_estimate([[pair] for pair in pairs], pearson, BootstrapSettings(draws=4000, seed=1))
    xs, ys = zip(*pairs, strict=True)
    theirs = stats.bootstrap(
        (xs, ys),
        lambda a, b: stats.pearsonr(a, b).statistic,
        paired=True,
        vectorized=False,
        method="percentile",
        n_resamples=4000,
        random_state=2,
    ).confidence_interval
    assert found.interval is not None
    assert found.interval.low == pytest.approx(theirs.low, abs=0.02)
    assert found.interval.high == pytest.approx(theirs.high, abs=0.02)


def test_a_seed_is_all_that_an_interval_hangs_on() -> None:
    """The same seed gives the same interval to the last digit, another seed another one."""
    examples = [[float(value)] for value in range(20)]
    first, again = (
        bootstrap_estimate(examples, mean, BootstrapSettings(seed=5)),
        bootstrap_estimate(examples, mean, BootstrapSettings(seed=5)),
    )
    assert first == again
    assert bootstrap_estimate(examples, mean, BootstrapSettings(seed=6)).interval != first.interval


def test_examples_are_drawn_and_not_their_parts() -> None:
    """Saying the same thing ten times makes nothing surer: the interval is that of one time."""
    once = [[float(value)] for value in range(12)]
    often = [example * 10 for example in once]
    found, wanted = bootstrap_estimate(often, mean).interval, bootstrap_estimate(once, mean).interval
    assert found is not None
    assert wanted is not None
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_draws_without_a_value_are_counted_and_left_out() -> None:
    """A draw of one label only has no correlation: it is no zero, and how many there were is said."""
    pairs: list[list[Pair]] = [[(0.0, 0.1)], [(0.0, 0.2)], [(1.0, 0.7)], [(1.0, 0.9)]]
    found = bootstrap_estimate(pairs, pearson, BootstrapSettings(draws=400))
    assert found.interval is not None
    # Of 4 draws from 2 and 2, all are of one label with probability 2/16.
    assert 20 < found.degenerate < 90
    assert found.interval.low > 0


def test_too_many_draws_without_a_value_leave_no_interval() -> None:
    """Where half of the draws say nothing an interval of the other half would be a pretence."""
    # A draw says something if it holds both odd ones: 1 - 2·(3/4)⁴ + (2/4)⁴, which is less than half.
    pairs: list[list[Pair]] = [[(0.0, 0.0)], [(0.0, 0.0)], [(0.0, 1.0)], [(1.0, 0.0)]]
    found = bootstrap_estimate(pairs, pearson, BootstrapSettings(draws=400))
    assert found.value == pytest.approx(-1 / 3)
    assert found.interval is None
    assert found.reason == f"no interval: undefined in {found.degenerate} of 400 draws"


def test_one_example_has_no_interval() -> None:
    """How far examples differ cannot be seen from one; empty ones do not count."""
    found = bootstrap_estimate([[1.0, 2.0], []], mean)
    assert found.value == 1.5
    assert found.interval is None
    assert found.reason


def test_what_is_undefined_says_why() -> None:
    """The statistic's own reason is the figure's."""

    def never(values: list[float]) -> float:
        raise UndefinedStatistic("nothing to see")

    assert bootstrap_estimate([[1.0], [2.0]], never).reason == "nothing to see"
    assert bootstrap_estimate([[1.0], [2.0]], never).value is None


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=3), min_size=2, max_size=15), st.integers(0, 9)
)
def test_the_interval_of_a_mean_stays_among_the_values(examples: list[list[float]], seed: int) -> None:
    """No resample can leave the range of what there is."""
    found = bootstrap_estimate(examples, mean, BootstrapSettings(draws=50, seed=seed))
    values = [value for example in examples for value in example]
    assert found.interval is not None
    low, high = found.interval.low, found.interval.high
    assert min(values) - 1e-12 <= low <= high <= max(values) + 1e-12

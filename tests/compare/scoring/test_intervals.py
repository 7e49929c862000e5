"""How sure a mean or a difference is: intervals, the distributions behind them, the bootstrap."""

from __future__ import annotations

import math
from math import comb
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from pytest_agenteval.compare.scoring.agreement import Pair, pearson
from pytest_agenteval.compare.scoring.intervals import (
    BootstrapSettings,
    Estimate,
    Interval,
    beta_interval,
    beta_quantile,
    bootstrap_estimate,
    corner_scores,
    difference_interval,
    estimate_of_tasks,
    moment_interval,
    quantile,
    t_quantile,
    tasks_to_exclude,
)
from pytest_agenteval.text.errors import UndefinedStatistic

SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1)
MEANS = st.lists(SCORES, min_size=1, max_size=40)


def oracle(name: str) -> Any:
    """Import a library that only checks our figures, or skip."""
    return pytest.importorskip(name, reason=f"{name} is this test's oracle: pip install scipy")


def interval(means: list[float], level: float = 0.95) -> Interval:
    """Give the interval of at least one task's mean."""
    found = beta_interval(means, level)
    assert found is not None
    return found


def _matched(means: list[float]) -> tuple[float, float]:
    """Give the shapes of the beta distribution, as they are defined."""
    n = len(means)
    m = (sum(means) + 0.5) / (n + 1)
    squares = sum((x - m) ** 2 for x in means) + 0.5 * m**2 + 0.5 * (1 - m) ** 2
    k = m * (1 - m) / (squares / (n + 1) / (n + 2)) - 1
    return m * k, (1 - m) * k


@pytest.mark.parametrize("tasks", [1, 2, 5, 41, 300, 10_000])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_the_interval_is_that_of_scipys_matched_beta_distribution(tasks: int, level: float) -> None:
    """Within 1e-8, for all at either end, all alike in between, all but one, and scores of every kind."""
    stats = oracle("scipy.stats")
    random = Random(tasks)
    shapes = [[0.0] * tasks, [1.0] * tasks, [0.3] * tasks, [1.0] * (tasks - 1) + [0.0]]
    for means in [*shapes, [random.random() for _ in range(tasks)]]:
        low, high = stats.beta.interval(level, *_matched(means))
        found = interval(means, level)
        assert (found.low, found.high) == pytest.approx((float(low), float(high)), abs=1e-8)


@given(st.integers(1, 500), st.data())
def test_the_interval_of_passes_and_misses_is_jeffreys(n: int, data: st.DataObject) -> None:
    """Of c passes in n tasks: the quantiles of the beta distribution with the shapes c + 1/2, n - c + 1/2."""
    stats = oracle("scipy.stats")
    c = data.draw(st.integers(0, n))
    low, high = stats.beta.interval(0.95, c + 0.5, n - c + 0.5)
    found = interval([1.0] * c + [0.0] * (n - c))
    assert (found.low, found.high) == pytest.approx((float(low), float(high)), abs=1e-8)


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([[0.0, 0.0, 0.0], [1.0]], Estimate(0.5, None, 4, 2)),
        ([[1.0], [0.5, None], [None], []], Estimate(0.75, None, 2, 2)),
        ([[0.5, 1.0]] * 4, Estimate(0.75, None, 8, 4)),
        ([[0.5, 1.0]] * 5, Estimate(0.75, beta_interval([0.75] * 5), 10, 5)),
        ([[0.5, 1.0] * 9] * 5, Estimate(0.75, beta_interval([0.75] * 5), 90, 5)),
        ([[None]], None),
        ([], None),
    ],
)
def test_tasks_are_the_units_of_a_mean(tasks: list[list[float | None]], expected: Estimate | None) -> None:
    """Every task weighs the same, copies of trials make nothing surer, and 5 tasks are needed to be sure."""
    assert estimate_of_tasks(tasks) == expected


def test_weights_that_spread_more_than_any_score_can_do_no_harm() -> None:
    """The widest interval is that of Jeffreys' prior with this mean."""
    found = moment_interval(0.5, 100.0, 3)
    assert (found.low, found.high) == pytest.approx((0.00154133, 0.99845867), abs=1e-6)


def test_nearly_perfect_suites_do_not_promise_too_much() -> None:
    """Of 25 tasks that each pass 19 times of 20, the interval holds .95 at least 93 times of 100."""
    passing = [(tasks, interval([1.0] * tasks + [0.0] * (25 - tasks))) for tasks in range(26)]
    chances = [comb(25, tasks) * 0.95**tasks * 0.05 ** (25 - tasks) for tasks, _ in passing]
    held = (found.low <= 0.95 <= found.high for _, found in passing)
    assert sum(chance for chance, holds in zip(chances, held, strict=True) if holds) >= 0.93


ENDS = [[0.0], [1.0]] * 2
"""The corners of a share."""
NUMBERS = st.lists(st.floats(-10, 10), min_size=1, max_size=30)


def mean(values: list[float]) -> float:
    """Give the mean."""
    return math.fsum(values) / len(values)


@settings(deadline=None)  # the oracle's import takes its time
@given(NUMBERS, st.floats(0, 1))
def test_quantiles_are_what_numpy_says(values: list[float], share: float) -> None:
    """Linear between neighbours, the ends included."""
    numpy = oracle("numpy")
    assert quantile(sorted(values), share) == pytest.approx(float(numpy.quantile(values, share)), abs=1e-9)


@pytest.mark.parametrize(("passed", "examples", "off"), [(8, 8, 0), (0, 12, 0), (27, 30, 1), (25, 60, 1)])
def test_the_interval_of_a_share_is_that_of_the_binomial_with_two_examples_more(
    passed: int, examples: int, off: int
) -> None:
    """Corners add one that passes and one that does not: draws are Binomial(n, (passed + 1) / (n + 2))."""
    binomial = oracle("scipy.stats").binom(examples, (passed + 1) / (examples + 2))
    flags = [[1.0]] * passed + [[0.0]] * (examples - passed)
    found = bootstrap_estimate(flags, mean, ENDS, BootstrapSettings(draws=4_000)).interval
    assert found is not None
    # Of so many draws a quantile that lies between two numbers of examples is off by one at most.
    assert found.low == pytest.approx(float(binomial.ppf(0.025)) / examples, abs=off / examples + 1e-9)
    assert found.high == pytest.approx(float(binomial.ppf(0.975)) / examples, abs=off / examples + 1e-9)
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


DEGREES = [8, 9, 10, 20, 31, 56, 99, 500, 2000, 10_000, 1e5, 1e6]
CHANCES = [0.51, 0.6, 0.75, 0.9, 0.95, 0.975, 0.9875, 0.995, 0.9999, 1 - 1e-6]


@pytest.fixture(scope="module")
def stats() -> Any:
    """Import scipy.stats once, and outside of what hypothesis times, or skip."""
    return pytest.importorskip("scipy.stats", reason="scipy is this test's oracle: pip install scipy")


@pytest.mark.parametrize("df", DEGREES)
def test_the_t_quantile_is_scipys(stats: Any, df: float) -> None:
    """Ours and scipy's agree to 1e-8, from 9 tasks to a million."""
    for p in CHANCES:
        assert t_quantile(p, df) == pytest.approx(float(stats.t.ppf(p, df)), rel=1e-8), p


SHAPES = [0.1, 0.5, 1.0, 2.5, 20.0, 1000.5, 2e5]


@pytest.mark.parametrize("a", SHAPES)
@pytest.mark.parametrize("b", SHAPES)
def test_the_beta_quantile_is_scipys(stats: Any, a: float, b: float) -> None:
    """In both tails and the middle, for shapes from nearly two points to nearly one."""
    for p in (0.0005, 0.025, 0.5, 0.9, 0.975):
        expected = float(stats.beta.ppf(p, a, b))
        assert beta_quantile(p, a, b) == pytest.approx(expected, rel=1e-8, abs=1e-12), p


LEVEL = 0.975
TAIL = (1 - LEVEL) / 2


@pytest.mark.parametrize("tasks", [7, 15, 41, 91, 400])
def test_where_nothing_changed_the_ends_are_the_exact_binomial_ones(tasks: int) -> None:
    """No break in n tasks excludes the rates above 1 - tail^(1/n) (Clopper and Pearson), and no others."""
    interval = difference_interval([0.0] * tasks, LEVEL)
    expected = 1 - TAIL ** (1 / tasks)
    assert interval.high == pytest.approx(expected, rel=0.01)
    assert interval.low == pytest.approx(-expected, rel=0.01)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_of_wins_and_losses_it_leaves_out_0_with_the_sign_test(wins: int, losses: int, ties: int) -> None:
    """Differences of -1, 0 and 1: the lower end is above 0 where the one-sided sign test is significant."""
    if not wins + losses + ties:
        return
    p = float(binom.cdf(losses, wins + losses, 0.5)) if wins + losses else 1.0
    low = difference_interval([1.0] * wins + [-1.0] * losses + [0.0] * ties, LEVEL).low
    if abs(p / TAIL - 1) > 0.03:  # at the very level the approximation may say either
        assert (low > 0) == (p <= TAIL)


@pytest.mark.parametrize("tasks", [8, 15, 41])
def test_the_ends_are_quantiles_of_randomly_weighted_means(tasks: int) -> None:
    """Simulated: Dirichlet weights over the differences and one more at the bound (Gaffke 2005)."""
    rng = np.random.default_rng(tasks)
    differences = rng.uniform(-0.4, 0.6, tasks).tolist()
    weights = rng.exponential(size=(3_600_000 // (tasks + 1), tasks + 1))
    weights /= weights.sum(axis=1, keepdims=True)
    interval = difference_interval(differences, LEVEL)
    assert interval.low == pytest.approx(np.quantile(weights @ [*differences, -1.0], TAIL), abs=0.003)
    assert interval.high == pytest.approx(np.quantile(weights @ [*differences, 1.0], 1 - TAIL), abs=0.003)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_it_holds_the_mean_and_mirrors(differences: list[float]) -> None:
    """Old and new exchanged give the mirrored interval; it lies within -1..1 around the mean."""
    interval = difference_interval(differences, LEVEL)
    mirrored = difference_interval([-difference for difference in differences], LEVEL)
    mean = sum(differences) / len(differences)
    assert -1 <= interval.low <= mean + 1e-9
    assert mean - 1e-9 <= interval.high <= 1
    assert (mirrored.low, mirrored.high) == pytest.approx((-interval.high, -interval.low), abs=1e-4)


def test_ten_thousand_tasks_are_rounded_and_keep_their_ends() -> None:
    """With many tasks the ends are those of a normal mean, nearly."""
    random = Random(1)
    differences = [max(-1.0, min(1.0, random.gauss(0.1, 0.3))) for _ in range(10_000)]
    error = float(np.std(differences)) / 100
    interval = difference_interval(differences, LEVEL)
    middle = float(np.mean(differences))
    assert interval.low == pytest.approx(middle - 2.24 * error, abs=5e-4)
    assert interval.high == pytest.approx(middle + 2.24 * error, abs=5e-4)


@pytest.mark.parametrize("fall", [0.01, 0.05, 0.1, 0.3])
def test_so_many_unchanged_tasks_exclude_a_fall_and_one_less_does_not(fall: float) -> None:
    """86 tasks exclude a fall by 0.05."""
    needed = tasks_to_exclude(fall, LEVEL)
    assert difference_interval([0.0] * (needed + 1), LEVEL).low > -fall
    assert difference_interval([0.0] * (needed - 2), LEVEL).low < -fall
    assert tasks_to_exclude(0.05, LEVEL) == 86

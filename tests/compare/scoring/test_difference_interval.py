"""The interval of a change: what was not seen is not excluded, and known cases are as they are known."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from pytest_agenteval.compare.scoring.intervals import difference_interval, tasks_to_exclude

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

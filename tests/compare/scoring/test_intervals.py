"""Intervals over tasks."""

from __future__ import annotations

from math import comb
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.intervals import (
    Estimate,
    Interval,
    beta_interval,
    mean_over_tasks,
    moment_interval,
)

SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1)
TRIALS = st.lists(st.tuples(st.integers(0, 9), SCORES), min_size=1, max_size=40)
MEANS = st.lists(SCORES, min_size=1, max_size=40)


def oracle(name: str) -> Any:
    """Import a library that only checks our figures, or skip."""
    return pytest.importorskip(name, reason=f"{name} is this test's oracle: pip install scipy")


def estimate(scores: list[tuple[int, float]], level: float = 0.95) -> Estimate:
    """Give the estimate of scores of which at least one is decided."""
    found = mean_over_tasks(scores, level)
    assert found is not None
    return found


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


@given(MEANS)
def test_the_interval_lies_on_the_scale_and_has_a_width(means: list[float]) -> None:
    """It never leaves 0..1, and holds the mean that half a task at either end is added to."""
    found = interval(means)
    assert 0 < found.low < (sum(means) + 0.5) / (len(means) + 1) < found.high <= 1


@given(MEANS)
def test_the_interval_mirrors_when_scores_become_misses(means: list[float]) -> None:
    """The interval of 1 - x is 1 minus that of x."""
    found, mirrored = interval(means), interval([1 - mean for mean in means])
    assert (found.low, found.high) == pytest.approx((1 - mirrored.high, 1 - mirrored.low), abs=1e-9)


@given(MEANS, st.integers(2, 5))
def test_more_tasks_of_the_same_scores_make_it_narrower(means: list[float], times: int) -> None:
    """Two tasks for each one say more, whatever they scored."""
    once, more = interval(means), interval(means * times)
    assert more.high - more.low < once.high - once.low


def test_weights_that_spread_more_than_any_score_can_do_no_harm() -> None:
    """The widest interval is that of Jeffreys' prior with this mean."""
    found = moment_interval(0.5, 100.0, 3)
    assert (found.low, found.high) == pytest.approx((0.00154133, 0.99845867), abs=1e-6)


@given(TRIALS)
def test_below_five_tasks_there_is_no_interval(scores: list[tuple[int, float]]) -> None:
    """An interval of a few tasks is true and useless: 0.24 to 0.99, say."""
    found = estimate(scores)
    assert (found.trials, found.tasks) == (len(scores), len({task for task, _ in scores}))
    assert (found.interval is None) == (found.tasks < 5)


@given(TRIALS, st.randoms())
def test_the_order_of_the_trials_and_the_names_of_the_tasks_do_not_matter(
    scores: list[tuple[int, float]], random: Random
) -> None:
    """Shuffled trials of renamed tasks give the very same estimate."""
    shuffled = [(f"task {task}", score) for task, score in scores]
    random.shuffle(shuffled)
    assert mean_over_tasks(shuffled) == mean_over_tasks(scores)


@given(TRIALS)
def test_repeating_every_trial_makes_nothing_surer(scores: list[tuple[int, float]]) -> None:
    """Copies of a task's trials are no new tasks: the interval stays as wide."""
    once, twice = estimate(scores), estimate(scores * 2)
    assert twice.trials == 2 * once.trials
    assert twice.mean == pytest.approx(once.mean)
    assert (once.interval is None) == (twice.interval is None)
    if once.interval is not None and twice.interval is not None:
        assert (twice.interval.low, twice.interval.high) == pytest.approx(
            (once.interval.low, once.interval.high), abs=1e-9
        )


def test_every_task_weighs_the_same_however_often_it_was_repeated() -> None:
    """Three misses of one task and a pass of another are a mean of one half, not of a quarter."""
    assert estimate([(1, 0.0), (1, 0.0), (1, 0.0), (2, 1.0)]) == Estimate(0.5, None, 4, 2)


def test_undecided_trials_are_left_out() -> None:
    """A score of None adds neither a trial nor a task."""
    scores = [("a", 1.0), ("b", 0.5), ("b", None), ("c", None)]
    assert mean_over_tasks(scores) == mean_over_tasks([("a", 1.0), ("b", 0.5)])
    assert mean_over_tasks([("a", None)]) is None
    assert beta_interval([]) is None


def test_scores_and_levels_off_the_scale_are_refused() -> None:
    """A mistake of the caller is never averaged in silence."""
    with pytest.raises(ValueError, match="a score"):
        mean_over_tasks([("a", 1.5), ("b", 0.0)])
    with pytest.raises(ValueError, match="a score"):
        beta_interval([1.5])
    with pytest.raises(ValueError, match="a level"):
        mean_over_tasks([("a", 1.0), ("b", 0.0)], level=95)
    with pytest.raises(ValueError, match="a level"):
        beta_interval([], level=0)


def _coverage(tasks: int, repetitions: int, by_task: bool, runs: int = 600) -> float:
    """Give the share of simulated runs whose interval holds the true mean, 2/3, of beta(2, 1) tasks."""
    random, held = Random(20240607), 0
    for _ in range(runs):
        scores: list[tuple[int, float]] = []
        for task in range(tasks):
            ease = random.betavariate(2, 1)
            scores += [(task, float(random.random() < ease)) for _ in range(repetitions)]
        if not by_task:
            scores = [(trial, score) for trial, (_, score) in enumerate(scores)]
        found = estimate(scores).interval
        assert found is not None
        held += found.low <= 2 / 3 <= found.high
    return held / runs


@pytest.mark.parametrize(("tasks", "repetitions"), [(12, 4), (25, 4), (30, 1)])
def test_nineteen_of_twenty_intervals_hold_the_truth(tasks: int, repetitions: int) -> None:
    """Simulated with a known truth, the 95 % interval covers it about 95 times of 100."""
    assert 0.93 <= _coverage(tasks, repetitions, by_task=True) <= 0.98


def test_taking_trials_for_tasks_would_be_too_sure() -> None:
    """The same trials without tasks cover the truth far too rarely: this is what tasks as units are for."""
    assert _coverage(15, 8, by_task=False, runs=300) < 0.85


def test_nearly_perfect_suites_do_not_promise_too_much() -> None:
    """Of 25 tasks that each pass 19 times of 20, the interval holds .95 at least 93 times of 100."""
    passing = [(tasks, interval([1.0] * tasks + [0.0] * (25 - tasks))) for tasks in range(26)]
    chances = [comb(25, tasks) * 0.95**tasks * 0.05 ** (25 - tasks) for tasks, _ in passing]
    held = (found.low <= 0.95 <= found.high for _, found in passing)
    assert sum(chance for chance, holds in zip(chances, held, strict=True) if holds) >= 0.93

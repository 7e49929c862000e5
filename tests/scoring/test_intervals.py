"""Intervals clustered by task, and Wilson's interval."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.scoring.intervals import (
    Estimate,
    Interval,
    by_cluster,
    clustered_mean,
    clustered_standard_error,
    wilson,
)

SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1)
TRIALS = st.lists(st.tuples(st.integers(0, 6), SCORES), min_size=1, max_size=40)


def oracle(name: str) -> Any:
    """Import a library that only checks our figures, or skip."""
    return pytest.importorskip(name, reason=f"{name} is this test's oracle: pip install scipy statsmodels")


def estimate(scores: list[tuple[int, float]], level: float = 0.95) -> Estimate:
    """Give the estimate of scores of which at least one is decided."""
    found = clustered_mean(scores, level)
    assert found is not None
    return found


@pytest.mark.parametrize("sizes", [[3, 3], [1, 2, 3, 4], [5] * 12, [1] * 9, [40, 1, 1], [2] * 60])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_the_interval_is_that_of_a_clustered_regression_on_a_constant(sizes: list[int], level: float) -> None:
    """The OLS of statsmodels with clustered covariance and Student's t gives the same ends."""
    models = oracle("statsmodels.regression.linear_model")
    random = Random(len(sizes))
    scores = [(task, random.random()) for task, size in enumerate(sizes) for _ in range(size)]
    fitted = models.OLS([score for _, score in scores], [1.0] * len(scores)).fit(
        cov_type="cluster", cov_kwds={"groups": [task for task, _ in scores]}, use_t=True
    )
    low, high = fitted.conf_int(alpha=1 - level)[0]
    found = estimate(scores, level)
    assert clustered_standard_error(by_cluster(scores)) == pytest.approx(float(fitted.bse[0]), rel=1e-9)
    assert found.mean == pytest.approx(float(fitted.params[0]), rel=1e-12)
    assert found.interval is not None
    assert found.interval.low == pytest.approx(max(0.0, float(low)), abs=1e-9)
    assert found.interval.high == pytest.approx(min(1.0, float(high)), abs=1e-9)


@given(TRIALS)
def test_the_interval_holds_the_mean_and_stays_on_the_scale(scores: list[tuple[int, float]]) -> None:
    """0 <= low <= mean <= high <= 1, and there is an interval exactly from two tasks on."""
    found = estimate(scores)
    assert (found.trials, found.clusters) == (len(scores), len({task for task, _ in scores}))
    assert (found.interval is None) == (found.clusters < 2)
    if found.interval is not None:
        assert 0 <= found.interval.low <= found.mean + 1e-12
        assert found.mean - 1e-12 <= found.interval.high <= 1
        assert found.interval.low < found.interval.high


@given(TRIALS, st.randoms())
def test_the_order_of_the_trials_and_the_names_of_the_tasks_do_not_matter(
    scores: list[tuple[int, float]], random: Random
) -> None:
    """Shuffled trials of renamed tasks give the very same estimate."""
    shuffled = [(f"task {task}", score) for task, score in scores]
    random.shuffle(shuffled)
    assert clustered_mean(shuffled) == clustered_mean(scores)


@given(st.lists(st.tuples(st.integers(0, 6), SCORES), min_size=2, max_size=20))
def test_repeating_every_trial_makes_nothing_surer(scores: list[tuple[int, float]]) -> None:
    """Copies of a task's trials are no new tasks: the interval stays as wide."""
    once, twice = estimate(scores), estimate(scores * 2)
    assert twice.trials == 2 * once.trials
    assert (once.interval is None) == (twice.interval is None)
    if once.interval is not None and twice.interval is not None:
        assert twice.interval.low == pytest.approx(once.interval.low, abs=1e-9)
        assert twice.interval.high == pytest.approx(once.interval.high, abs=1e-9)


def test_undecided_trials_are_left_out() -> None:
    """A score of None adds neither a trial nor a task."""
    scores = [("a", 1.0), ("b", 0.5), ("b", None), ("c", None)]
    assert clustered_mean(scores) == clustered_mean([("a", 1.0), ("b", 0.5)])
    assert clustered_mean([("a", None)]) is None


def test_one_task_has_a_mean_but_no_interval() -> None:
    """However many its trials, one task cannot tell how far tasks differ."""
    assert clustered_mean([("a", 1.0), ("a", 0.0)]) == Estimate(0.5, None, 2, 1)


@pytest.mark.parametrize(("score", "tasks"), [(1.0, 2), (1.0, 30), (0.0, 30), (0.5, 12), (0.1, 7)])
def test_equal_scores_are_no_certainty(score: float, tasks: int) -> None:
    """Without any spread the Wilson interval of as many draws as there are tasks takes over."""
    found = estimate([(task, score) for task in range(tasks) for _ in range(3)])
    expected = wilson(score * tasks, tasks)
    assert found.interval is not None
    assert expected is not None
    assert found.interval.low == pytest.approx(expected.low, abs=1e-12)
    assert found.interval.high == pytest.approx(expected.high, abs=1e-12)
    assert found.interval.high - found.interval.low > 0.1


def test_tasks_that_differ_only_within_are_no_certainty_either() -> None:
    """Ten tasks, each with one pass and one miss, have no spread between them, and still an interval."""
    found = estimate([(task, score) for task in range(10) for score in (0.0, 1.0)])
    assert found.interval == wilson(5, 10)


def test_scores_and_levels_off_the_scale_are_refused() -> None:
    """A mistake of the caller is never averaged in silence."""
    with pytest.raises(ValueError, match="a score"):
        clustered_mean([("a", 1.5), ("b", 0.0)])
    with pytest.raises(ValueError, match="a level"):
        clustered_mean([("a", 1.0), ("b", 0.0)], level=95)
    with pytest.raises(ValueError, match="without values"):
        clustered_standard_error([[1.0], []])


def test_the_error_of_differences_may_be_asked_for() -> None:
    """Values below 0 are welcome where no scale is promised: two tasks at -1 and 1 have the error 1."""
    assert clustered_standard_error([[-1.0], [1.0]]) == pytest.approx(1.0)
    assert clustered_standard_error([[0.3, 0.4]]) is None


@pytest.mark.parametrize("n", [1, 2, 5, 30, 1000])
def test_wilsons_interval_is_statsmodels(n: int) -> None:
    """The proportion_confint of statsmodels, method wilson, gives the same ends."""
    proportion = oracle("statsmodels.stats.proportion")
    for successes in {0, 1, n // 3, n - 1, n}:
        low, high = proportion.proportion_confint(successes, n, alpha=0.1, method="wilson")
        found = wilson(successes, n, level=0.9)
        assert found is not None
        assert found.low == pytest.approx(float(low), abs=1e-12)
        assert found.high == pytest.approx(float(high), abs=1e-12)


def test_wilsons_interval_touches_the_end_it_must() -> None:
    """No successes leave 0 possible and all successes leave 1 possible, exactly."""
    none, every = wilson(0, 10), wilson(10, 10)
    assert none == Interval(0.0, none.high if none else 0.0, 0.95)
    assert every == Interval(every.low if every else 0.0, 1.0, 0.95)
    assert wilson(0, 0) is None
    with pytest.raises(ValueError, match="cannot be"):
        wilson(3, 2)


@given(st.integers(1, 200), st.data(), st.floats(0.5, 0.999))
def test_wilsons_interval_mirrors_when_successes_become_misses(
    n: int, data: st.DataObject, level: float
) -> None:
    """The interval of the misses is the mirror image, and it holds the share."""
    c = data.draw(st.integers(0, n))
    passed, missed = wilson(c, n, level), wilson(n - c, n, level)
    assert passed is not None
    assert missed is not None
    assert passed.low == pytest.approx(1 - missed.high, abs=1e-12)
    assert 0 <= passed.low <= c / n + 1e-12
    assert c / n - 1e-12 <= passed.high <= 1


def _coverage(tasks: int, repetitions: int, clustered: bool, runs: int = 1000) -> float:
    """Give the share of simulated runs whose interval holds the true mean, 2/3, of beta(2, 1) tasks."""
    random, held = Random(20240607), 0
    for _ in range(runs):
        scores: list[tuple[int, float]] = []
        for task in range(tasks):
            ease = random.betavariate(2, 1)
            scores += [(task, float(random.random() < ease)) for _ in range(repetitions)]
        if not clustered:
            scores = [(trial, score) for trial, (_, score) in enumerate(scores)]
        interval = estimate(scores).interval
        assert interval is not None
        held += interval.low <= 2 / 3 <= interval.high
    return held / runs


@pytest.mark.parametrize(("tasks", "repetitions"), [(12, 4), (25, 4), (30, 1)])
def test_nineteen_of_twenty_intervals_hold_the_truth(tasks: int, repetitions: int) -> None:
    """Simulated with a known truth, the 95 % interval covers it about 95 times of 100."""
    assert 0.93 <= _coverage(tasks, repetitions, clustered=True) <= 0.97


def test_taking_trials_for_tasks_would_be_too_sure() -> None:
    """The same trials without clusters cover the truth far too rarely: this is what clustering is for."""
    assert _coverage(15, 8, clustered=False, runs=300) < 0.85

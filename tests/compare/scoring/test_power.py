"""What a comparison could have seen, and how runs score in which nothing changed."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from pytest_agenteval.compare.scoring.exact_tests import PairedScores
from pytest_agenteval.compare.scoring.intervals import beta_cdf
from pytest_agenteval.compare.scoring.power import (
    MOST_UNITS,
    DifferenceNoise,
    NullMean,
    PassRates,
    difference_noise,
    null_mean,
    null_pass_hat_k,
    pass_rates,
    repetitions_needed,
    smallest_visible_change,
)

LEVEL = 0.975


def simulated_tasks(random: Random, tasks: int, repetitions: int, moved: float) -> list[PairedScores]:
    """Tasks with trial noise of variance 0.04 whose true changes have the variance ``moved``."""

    def trials(level: float) -> list[float]:
        return [random.gauss(level, 0.2) for _ in range(repetitions)]

    return [(trials(0.5), trials(0.5 + random.gauss(0, math.sqrt(moved)))) for _ in range(tasks)]


def test_the_spread_of_differences_is_split_into_trials_and_tasks() -> None:
    """With 3 repetitions trial noise adds 2 * 0.04 / 3 to a spread of 0.04 between tasks: 40 % of all."""
    noise = difference_noise(simulated_tasks(Random(4), 4000, 3, 0.04))
    assert noise.trial_variance == pytest.approx(0.04, rel=0.05)
    assert noise.variance == pytest.approx(0.04 + 2 * 0.04 / 3, rel=0.08)
    assert noise.trial_share == pytest.approx(0.4, abs=0.04)


def test_with_one_repetition_nobody_knows_whose_noise_it_is() -> None:
    """A single trial on each side shows no trial-to-trial variance: shares and repetitions are unknown."""
    noise = difference_noise([([0.0], [1.0]), ([0.5], [0.25])])
    assert noise.trial_variance is None
    assert noise.trial_share is None
    assert repetitions_needed(noise, 2, 0.05, LEVEL) is None


def test_unequal_repetitions_count_as_what_they_are() -> None:
    """Each side errs by its own trials' variance over their number; a single trial by the mean of all."""
    tasks: list[PairedScores] = [([0.0, 1.0], [0.5]), ([0.5], [0.5, 1.0, 0.0]), ([0.2], [0.9])]
    noise = difference_noise(tasks)
    within = (0.5 + 0.25) / 2
    assert noise.trial_variance == pytest.approx(within)
    share = ((0.5 / 2 + within) + (within + 0.25 / 3) + 2 * within) / 3 / noise.variance
    assert noise.trial_share == pytest.approx(min(1, share))


def test_noisy_tasks_that_were_repeated_more_do_not_count_as_noisier() -> None:
    """Half of the tasks are noisy and had 8 trials: 0.02 of the differences' 0.03 is from trial to trial."""
    random = Random(6)

    def trials(level: float, number: int, noise: float) -> list[float]:
        return [random.gauss(level, noise) for _ in range(number)]

    tasks = []
    for number, noise in [(8, 0.4), (2, 0.02)] * 1000:
        moved = random.gauss(0, 0.1)
        tasks.append((trials(0.5, number, noise), trials(0.5 + moved, number, noise)))
    assert difference_noise(tasks).trial_share == pytest.approx(0.67, abs=0.05)


def test_the_visible_change_is_the_classical_one() -> None:
    """(t + z) * error: 41 tasks of variance 0.01 at 97.5 % see 0.0496 (t = 2.329, z = 0.842)."""
    assert smallest_visible_change(0.01, 41, LEVEL) == pytest.approx(
        (2.3289 + 0.8416) * 0.1 / math.sqrt(41), rel=1e-3
    )


def test_repetitions_bring_the_visible_change_down_to_the_one_named() -> None:
    """With as many repetitions as it says, and not with one fewer, the visible change is small enough."""
    noise = DifferenceNoise(variance=0.02, trial_variance=0.024, trial_share=0.8)
    need = repetitions_needed(noise, 41, 0.05, LEVEL)
    assert need is not None
    assert need.repetitions is not None

    def visible(repetitions: int) -> float:
        return smallest_visible_change(0.02 * 0.2 + 2 * 0.024 / repetitions, 41, LEVEL)

    assert visible(need.repetitions) <= 0.05 < visible(need.repetitions - 1)


def test_where_tasks_moved_repetitions_buy_nothing() -> None:
    """All of the spread is tasks that moved: no number of repetitions helps, so many tasks would."""
    need = repetitions_needed(DifferenceNoise(0.04, 0.0, 0.0), 20, 0.05, LEVEL)
    assert need is not None
    assert need.repetitions is None
    assert need.tasks == math.ceil(20 * (smallest_visible_change(0.04, 20, LEVEL) / 0.05) ** 2)


def oracle(name: str) -> Any:
    """Import a library that only checks our figures, or skip."""
    return pytest.importorskip(name, reason=f"{name} is this test's oracle: pip install scipy")


@pytest.mark.parametrize(("passes", "misses"), [(42.5, 3.5), (700.5, 300.5), (0.5, 60.5), (9.0, 0.5)])
@pytest.mark.parametrize("units", [1, 15, 123, 900])
def test_the_chance_is_scipys_beta_binomial(units: int, passes: float, misses: float) -> None:
    """Where the mean has as many steps as there are units: floors on a step, and between two."""
    betabinom = oracle("scipy.stats").betabinom(units, passes, misses)
    null = NullMean(units, passes, misses, steps=units)
    for floor in (0.01, 0.1, 0.5, 0.77, 0.8, 0.94, 1.0):
        below = betabinom.cdf(math.ceil(floor * units - 1e-9) - 1)
        assert null.chance_below(floor) == pytest.approx(below, rel=1e-7, abs=1e-12)
    assert null.chance_below(0) == 0


def test_of_many_trials_a_beta_distribution_is_as_good() -> None:
    """On either side of the bound the chances are the same within a third of a percentage point."""
    few, many = (
        NullMean(units, 0.85 * 3 * units, 0.15 * 3 * units, units) for units in (MOST_UNITS, MOST_UNITS + 1)
    )
    for floor in (0.815, 0.83, 0.84, 0.85, 0.87):
        assert many.chance_below(floor) == pytest.approx(few.chance_below(floor), abs=0.0033)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (80.0, 12.5), (3.0, 900.0)])
def test_chances_of_a_beta_variable_are_scipys(a: float, b: float) -> None:
    """Near both ends, and in between."""
    beta = oracle("scipy.stats").beta(a, b)
    for x in (0.0, 1e-9, 0.003, 0.5, 0.86, 0.999):
        assert beta_cdf(x, a, b) == pytest.approx(beta.cdf(x), rel=1e-9, abs=1e-12)


def test_both_the_stored_and_the_new_run_scatter() -> None:
    """The variance of the predicted mean is the pooled one within tasks, over the new and the stored trials.

    By hand: 40 tasks, half of which pass 2 trials of 3, the others none: 13.33 squares, and half a miss more,
    over 81.
    """
    tasks = [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]] * 20
    within = (20 * 2 / 3 + (1 - 1 / 3) / 2) / 81
    null = null_mean(tasks, repetitions=2)
    assert null is not None
    known = null.passes + null.misses
    share = null.passes / known
    variance = share * (1 - share) * (1 / null.units + (1 - 1 / null.units) / (known + 1))
    assert share == pytest.approx(1 / 3, abs=0.005)
    assert variance == pytest.approx(within / 40 * (1 / 2 + 1 / 3), rel=0.03)
    assert null.steps == 80


@pytest.mark.parametrize(
    ("tasks", "steps"),
    [
        ([[0.5, 1.0], [0.25, 1.0]], 4),
        ([[1 / 3, 1.0], [0.5, 0.5]], 6),
        ([[0.123, 0.5], [0.877, 1.0]], 100),
    ],
)
def test_means_lie_on_the_steps_of_the_scores(tasks: list[list[float]], steps: int) -> None:
    """A floor between two steps is the same as one on the upper step; of odd scores steps are fine."""
    null = null_mean(tasks, repetitions=3)
    assert null is not None
    assert null.steps == 2 * 3 * steps
    assert null.chance_below((null.steps - 1.9) / null.steps) == null.chance_below(1 - 1 / null.steps)


def test_one_trial_of_a_task_tells_nothing() -> None:
    """Half of the tasks need two, and pass^k needs k of them."""
    assert null_mean([], 1) is None
    assert null_mean([[1.0], [0.0], [1.0, 1.0]], 3) is None
    assert pass_rates([[True], [False]]) is None
    assert null_pass_hat_k([[True, True]] * 5, 3) is None
    assert null_mean([[1.0], [1.0, 0.0]], 3) is not None


def test_the_highest_floor_is_missed_by_no_more_runs_than_it_says() -> None:
    """A hundredth more is missed by more."""
    random = Random(3)
    null = null_mean([[float(random.random() < 0.8) for _ in range(3)] for _ in range(41)], 3)
    assert null is not None
    floor = null.highest_floor()
    assert null.chance_below(floor) <= 0.01 < null.chance_below(floor + 0.01)


def test_pass_hat_k_scatters_as_the_rates_of_tasks_say() -> None:
    """Where all tasks have one rate, that all of three trials pass is a coin of its third power."""
    random = Random(5)
    outcomes = [[random.random() < 0.9 for _ in range(12)] for _ in range(60)]
    null = null_pass_hat_k(outcomes, 3)
    assert null is not None
    shares = [math.comb(sum(task), 3) / math.comb(12, 3) for task in outcomes]
    assert null.steps == 60
    assert null.passes / (null.passes + null.misses) == pytest.approx(sum(shares) / 60, abs=0.01)
    assert null.units == pytest.approx(60, rel=0.15)  # as many coins as tasks


def test_pass_hat_k_hardly_scatters_where_tasks_always_pass_or_always_miss() -> None:
    """A task whose three trials pass passes the next three, too: the mean is that of many more coins."""
    null = null_pass_hat_k([[True] * 12] * 30 + [[False] * 12] * 29 + [[True, False] * 6], 3)
    assert null is not None
    assert null.units == pytest.approx(396, rel=0.02)


def test_a_miss_is_predicted_by_the_beta_binomial() -> None:
    """Jeffreys' for 5 passes of 5: .917 each, so that one of 4 tasks misses in 29 % of runs."""
    betabinom = oracle("scipy.stats").betabinom
    jeffreys = PassRates(mean=0.5, weight=1.0)
    assert jeffreys.chance_of_a_miss([(5, 5)] * 4, 1) == pytest.approx(1 - (5.5 / 6) ** 4)
    three = 1 - betabinom(3, 5.5, 1.5).pmf(3) * betabinom(3, 6.5, 0.5).pmf(3)
    assert jeffreys.chance_of_a_miss([(5, 6), (6, 6)], 3) == pytest.approx(three)
    needed = jeffreys.passes_needed(4, 1, 0.05)
    assert needed is not None
    chances = [jeffreys.chance_of_a_miss([(passes, passes)] * 4, 1) for passes in (needed - 1, needed)]
    assert chances[0] > 0.05 >= chances[1]
    assert PassRates(mean=0.9, weight=300.0).passes_needed(4, 1, 0.05) is None


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.3), (9.0, 0.5), (95.0, 5.0)])
def test_rates_are_those_of_the_suite(a: float, b: float) -> None:
    """Of very many tasks, mean and chance of a miss are those of the distribution that the rates are from."""
    random = Random(7)
    rates = [random.betavariate(a, b) for _ in range(4000)]
    known = pass_rates([[random.random() < rate for _ in range(5)] for rate in rates])
    assert known is not None
    assert known.mean == pytest.approx(a / (a + b), abs=0.02)
    true = b / (a + b + 5)  # of a task that passed 5 of 5
    assert known.chance_of_a_miss([(5, 5)], 1) == pytest.approx(true, rel=0.25)

"""What a comparison could have seen, and whose noise hides the rest."""

from __future__ import annotations

import math
from random import Random

import pytest

from pytest_agenteval.compare.scoring.exact_tests import PairedScores
from pytest_agenteval.compare.scoring.power import (
    DifferenceNoise,
    difference_noise,
    repetitions_needed,
    sample_variance,
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


def test_one_value_has_no_variance() -> None:
    """Unbiased variance needs two values."""
    assert sample_variance([0.3]) is None
    assert sample_variance([0.0, 1.0]) == 0.5

"""What a comparison of so many tasks and repetitions could have seen, and whose noise hides the rest.

The differences of tasks vary for two reasons: an agent does not do the same twice, and a change moves tasks
by different amounts. Repetitions average out the first and never the second: ``error(r)^2 = (V + 2 W / r) /
n`` over n tasks with r repetitions on both sides, W the variance between trials of a task, V the variance of
the tasks' true changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pytest_agenteval.compare.scoring.distributions import normal_quantile, t_quantile
from pytest_agenteval.compare.scoring.exact_tests import PairedScores
from pytest_agenteval.records.record import FrozenValue

POWER = 0.80
FEWEST_FOR_POWER = 10
"""Tasks from which on the change that ``smallest_visible_change`` names is seen about that often.

Of 7 tasks all have to rise, which happens 6 times of 10; with 9 it is 7.6 times, with 12 and more 8 times.
"""

MOST_REPETITIONS = 50
"""Beyond these, tasks are the cheaper way to see more."""


class DifferenceNoise(FrozenValue, frozen=True):
    """Where the spread of task differences comes from.

    ``variance`` is that of the differences: as they are, or as exchanged labels make them, whichever is more,
    for a verdict has to pass both tests. ``trial_variance`` (W) is that of single trials of one task, over
    both sides. ``trial_share`` is how much of ``variance`` the repetitions there are leave to chance, 0..1.
    Both are None where no task has two trials on a side: then nobody knows.
    """

    variance: float
    trial_variance: float | None
    trial_share: float | None


def difference_noise(tasks: Sequence[PairedScores]) -> DifferenceNoise:
    """Split the spread of task differences, new mean less old, into trial-to-trial noise and the rest."""
    differences = [mean(new) - mean(old) for old, new in tasks]
    variance = max(sample_variance(differences) or 0.0, mean([_label_variance(*pair) for pair in tasks]))
    within = trial_variance(tasks)
    if within is None:
        return DifferenceNoise(variance, None, None)
    by_chance = mean([_squared_error(old, within) + _squared_error(new, within) for old, new in tasks])
    share = min(1.0, by_chance / variance) if variance else 1.0
    return DifferenceNoise(variance, within, share)


def _label_variance(old: Sequence[float], new: Sequence[float]) -> float:
    """Give the variance of a task's difference over all ways to hand out its labels."""
    return (sample_variance([*old, *new]) or 0.0) * (1 / len(old) + 1 / len(new))


def _squared_error(scores: Sequence[float], variance: float) -> float:
    """Give that of a side's mean: by its own trials' variance, for noisy tasks may have more trials."""
    own = sample_variance(scores)
    return (variance if own is None else own) / len(scores)


def trial_variance(tasks: Iterable[PairedScores]) -> float | None:
    """Give the mean variance between trials of one task on one side, None where no side has two trials."""
    spreads = [spread for pair in tasks for side in pair if (spread := sample_variance(side)) is not None]
    return mean(spreads) if spreads else None


def smallest_visible_change(variance: float, tasks: int, level: float) -> float:
    """Give the change of the mean that would be significant 4 times of 5, were it true (the MDE).

    ``variance`` is that of the task differences: (t + z) * sqrt(variance / tasks), t Student's two-sided
    quantile of ``level`` with tasks - 1 degrees of freedom, z the normal quantile of 0.80.
    """
    return _reach(tasks, level) * math.sqrt(variance / tasks)


class RepetitionsNeeded(FrozenValue, frozen=True):
    """How a change of a given size would be seen 4 times of 5.

    By ``repetitions`` of the same tasks; by so many ``tasks`` where no number of repetitions suffices (None).
    """

    repetitions: int | None
    tasks: int


def repetitions_needed(
    noise: DifferenceNoise, tasks: int, change: float, level: float
) -> RepetitionsNeeded | None:
    """Say how many repetitions on both sides would show a ``change``; None where noise is not known."""
    if noise.trial_variance is None or noise.trial_share is None:
        return None
    between = max(0.0, noise.variance * (1 - noise.trial_share))
    largest_error = change / _reach(tasks, level)
    # largest_error^2 * tasks = V + 2 W / r, solved for r
    left = largest_error**2 * tasks - between
    more_tasks = math.ceil(tasks * (smallest_visible_change(noise.variance, tasks, level) / change) ** 2)
    if left <= 0 or 2 * noise.trial_variance / left > MOST_REPETITIONS:
        return RepetitionsNeeded(None, more_tasks)
    return RepetitionsNeeded(max(1, math.ceil(2 * noise.trial_variance / left)), more_tasks)


def sample_variance(values: Sequence[float]) -> float | None:
    """Give the unbiased variance, None of fewer than two values."""
    if len(values) < 2:
        return None
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def mean(values: Sequence[float]) -> float:
    """Give the plain mean; raises ZeroDivisionError for none."""
    return math.fsum(values) / len(values)


def _reach(tasks: int, level: float) -> float:
    return t_quantile((1 + level) / 2, tasks - 1) + normal_quantile(POWER)

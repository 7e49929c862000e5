"""How sure a mean is: intervals that know that trials of one task resemble each other.

Two trials of a task share its difficulty, so a hundred trials of ten tasks say less than a hundred
trials of a hundred tasks. Hence tasks, not trials, are the units drawn (Miller 2024, "Adding Error
Bars to Evals").
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

from pytest_agenteval.compare.scoring.aggregates import decided_scores, mean_score
from pytest_agenteval.compare.scoring.distributions import beta_quantile
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.formatting import NOT_KNOWN, format_ends


def format_interval(interval: Interval | None) -> str:
    """Write an interval: ``0.52-0.90``, or ``-0.75..0.53`` where a dash would be taken for a minus.

    Ends round outwards to 0.00 and 1.00, for the figure of all tasks passed is 1.00 and lies in 0.95-1.00.
    """
    return NOT_KNOWN if interval is None else format_ends(interval.low, interval.high)


FEWEST_TASKS = 5
"""Below so many an interval would be true and say nothing, 0.24-0.99 perhaps: none is given."""


class Interval(FrozenValue, frozen=True):
    """Where a figure lies with the confidence ``level``: from ``low`` to ``high``, ends included."""

    low: float
    high: float
    level: float


class Estimate(FrozenValue, frozen=True):
    """The mean score of tasks, and how sure it is.

    ``mean`` is the mean of the tasks' own means, over ``tasks`` tasks with ``trials`` decided trials.
    ``interval`` is None when there are fewer than FEWEST_TASKS.
    """

    mean: float
    interval: Interval | None
    trials: int
    tasks: int


def mean_over_tasks(scores: Iterable[tuple[Hashable, float | None]], level: float = 0.95) -> Estimate | None:
    """Give the mean of the tasks' mean scores with its ``beta_interval``, None if no trial is decided.

    ``scores`` holds pairs of task and score, 0..1 or None for undecided (left out). Every task weighs the
    same: where some have more decided trials than others, this is not the mean of the trials.

    Raises ValueError for a score outside 0..1 and for a level not between 0 and 1.
    """
    by_task: dict[Hashable, list[float]] = {}
    for task, score in scores:
        if score is not None:
            by_task.setdefault(task, []).append(score)
    return estimate_of_tasks(by_task.values(), level)


def estimate_of_tasks(scores: Iterable[Sequence[float | None]], level: float = 0.95) -> Estimate | None:
    """Give the same of scores that stand task by task."""
    decided = [own for task in scores if (own := decided_scores(task))]
    means = [own[0] + 0.0 if len(own) == 1 else _mean(own) for own in decided]
    mean = mean_score(means)
    if mean is None:
        return None
    interval = beta_interval(means, level)
    return Estimate(
        mean, interval if len(means) >= FEWEST_TASKS else None, sum(map(len, decided)), len(means)
    )


def beta_interval(task_means: Sequence[float], level: float = 0.95) -> Interval | None:
    """Give the interval of the mean over tasks like these, None without any.

    ``task_means`` holds one mean score 0..1 for each task. Where every one is 0 or 1 this is Jeffreys'
    interval of a share; scores in between vary less, which narrows it. How often it holds the truth:
    ``python -m tests.extended.simulations intervals``.

    Raises ValueError for a mean outside 0..1 and for a level not between 0 and 1.
    """
    _checked_level(level)
    mean = mean_score(task_means)
    if mean is None:
        return None
    squares = math.fsum((own - mean) ** 2 for own in task_means)
    return moment_interval(mean, squares, len(task_means), level)


def moment_interval(mean: float, squares: float, tasks: float, level: float = 0.95) -> Interval:
    """Give the interval of a mean 0..1 of as many tasks, the squares of whose distances from it sum to this.

    Half a task at 0 and half a task at 1 are added, as in Jeffreys' prior. Of all these let m be the mean and
    s the variance (divided by tasks + 1): the ends are quantiles of the beta distribution with the mean m and
    the variance s / (tasks + 2). They lie within 0..1 and always apart. ``tasks`` need not be whole: where
    tasks weigh differently, it is how many that weigh the same would tell as much.

    Raises ValueError for a level not between 0 and 1.
    """
    tail = (1 - _checked_level(level)) / 2
    m = (tasks * mean + 0.5) / (tasks + 1)
    added = tasks * (mean - m) ** 2 + (m**2 + (1 - m) ** 2) / 2
    variance = (squares + added) / (tasks + 1) / (tasks + 2)
    # Unequal weights can spread more than scores of 0 and 1 with this mean do: no flatter than the prior.
    k = max(1.0, m * (1 - m) / variance - 1)
    low, missing = beta_quantile(tail, m * k, (1 - m) * k), beta_quantile(tail, (1 - m) * k, m * k)
    return Interval(low, 1 - missing, level)


def _mean(scores: Sequence[float]) -> float:
    return mean_score(scores) or 0.0


def _checked_level(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"a level is a number between 0 and 1, not {level!r}")
    return level

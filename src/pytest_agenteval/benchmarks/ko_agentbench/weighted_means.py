"""How sure a mean of metrics is that look at the same tasks, and a mean of levels that have their own.

Both are sums Σ w·x over tasks: what a task adds varies with all that it was graded by, which the delta method
carries to the sum. The interval is then that of one mean of as many tasks as tell as much.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pytest_agenteval import Interval
from pytest_agenteval.compare.scoring.intervals import FEWEST_TASKS, moment_interval

TaskScores = Mapping[Hashable, float]


class WeightedMean(NamedTuple):
    """A mean over tasks that may weigh differently.

    ``variance`` is that of the mean; ``tasks`` counts them, ``alike`` says how many that weigh the same would
    tell as much. ``bounded`` is False where a score lies below 0: its scale has no lower end.
    """

    value: float
    variance: float
    tasks: int
    alike: float
    bounded: bool

    def interval(self, level: float = 0.95) -> Interval | None:
        """Give the interval, None with fewer than five tasks or a score below 0.

        No interval keeps what it promises of a mean on a scale without a lower end, however it is made: the
        rare score far below decides the mean, and is mostly not among a dozen tasks (Bahadur and Savage
        1956). Raises ValueError unless 0 < level < 1.
        """
        if self.tasks < FEWEST_TASKS or not self.bounded:
            return None
        squares = self.variance * self.alike * (self.alike - 1)
        return moment_interval(self.value, squares, self.alike, level)


def mean_of_metrics(metrics: Sequence[TaskScores]) -> WeightedMean:
    """Give the mean of the metrics' means; each needs a task (ZeroDivisionError)."""
    weight = 1 / len(metrics)
    means = [math.fsum(scores.values()) / len(scores) for scores in metrics]
    added: dict[Hashable, list[float]] = {}
    weights: dict[Hashable, list[float]] = {}
    for scores, mean in zip(metrics, means, strict=True):
        # A metric that one task alone decided shows no spread: only its weight tells how little it knows.
        scale = weight / math.sqrt(len(scores) * max(1, len(scores) - 1))
        for task, score in scores.items():
            added.setdefault(task, []).append((score - mean) * scale)
            weights.setdefault(task, []).append(weight / len(scores))
    return WeightedMean(
        value=math.fsum(means) / len(means),
        variance=_sum_of_squares(added.values()),
        tasks=len(weights),
        alike=1 / _sum_of_squares(weights.values()),
        bounded=all(score >= 0 for scores in metrics for score in scores.values()),
    )


def weighted_sum(parts: Iterable[tuple[float, WeightedMean]]) -> WeightedMean:
    """Give the weighted mean of means whose tasks are drawn independently; the weights, above 0, sum to 1."""
    shares = list(parts)
    values = [part.value for _, part in shares]
    value = math.fsum(share * part.value for share, part in shares)
    return WeightedMean(
        # Weights sum to 1 but for rounding, which carries no mean past what it is the mean of.
        value=min(max(value, min(values)), max(values)),
        variance=math.fsum(share**2 * part.variance for share, part in shares),
        tasks=sum(part.tasks for _, part in shares),
        alike=1 / math.fsum(share**2 / part.alike for share, part in shares),
        bounded=all(part.bounded for _, part in shares),
    )


def _sum_of_squares(by_task: Iterable[Iterable[float]]) -> float:
    return math.fsum(math.fsum(values) ** 2 for values in by_task)

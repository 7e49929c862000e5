"""The Korean benchmark's levels: which metrics a level has of its own, and what a level is worth.

Repetitions of a task are averaged first, then tasks within a metric, then metrics within a level, so that
neither a task that was repeated more often nor a metric that could be decided more often weighs more.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pytest_agenteval import Interval, Metric, MetricGroup
from pytest_agenteval.benchmarks.ko_agentbench.graders import COMMON, OWN
from pytest_agenteval.scoring.distributions import t_quantile
from pytest_agenteval.scoring.intervals import NO_SPREAD, clustered_standard_error, wilson

LEVEL_METRICS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {level: tuple(label for _, label in own) for level, own in OWN.items()}
)
"""The metrics that make up a level's value, by the labels of their grades."""

PASS_SHARE = "pass@k share"
"""The share of repetitions that succeeded. The benchmark calls it pass@k, which it is not:
``scoring.aggregates.pass_at_k`` is the estimator of that name, over trials that passed."""

COMMON_METRICS = tuple(label for _, label in COMMON)
"""Metrics of every level, shown beside its value and no part of it."""

LEVELS = tuple(LEVEL_METRICS)

TaskScores = Mapping[Hashable, float]


class TrialMetric(NamedTuple):
    """What one metric came to in one trial, at most 1; None where it could not be decided.

    A metric that counts as the benchmark's code does may lie far below 0.
    """

    level: str
    metric: str
    task: Hashable
    score: float | None


def levels_of(observed: Iterable[TrialMetric], level: float = 0.95) -> tuple[MetricGroup, ...]:
    """Work out all seven levels; what is no metric of its level is passed over.

    A level's value is the mean of its own metrics. A metric that no task decided is shown without a value and
    left out of the mean; those common to all levels stand beside it.

    An interval is mean ± t·error over tasks as in ``clustered_mean``, each task counting once. For a level,
    each task is given what it contributes to the level's value: with every metric decided, the mean of its
    metrics; else the linearised value V + n·Σ_m (x_m - mean_m)/(n_m·M), whose mean is V and whose spread
    is that of V (the delta method). Raises ValueError unless 0 < level < 1.
    """
    scores = _task_means(observed)
    return tuple(_level(name, scores, level) for name in LEVELS)


def interval_over_tasks(
    values: Sequence[float], level: float = 0.95, *, endless: bool = False
) -> Interval | None:
    """Give the interval of the mean of one value for each task; None with fewer than two tasks.

    Student's t with one degree of freedom less than there are tasks, clipped to 0..1, or only to 1 where the
    scale is ``endless`` below. Where all tasks are alike, which proves no certainty, the Wilson interval of
    that many tasks takes its place; below 0 there is none.
    """
    error = clustered_standard_error([[value] for value in values])
    if error is None:
        return None
    mean = math.fsum(values) / len(values)
    if error < NO_SPREAD:
        if endless and mean < 0:
            return None
        return wilson(min(max(mean, 0.0), 1.0) * len(values), len(values), level)
    reach = t_quantile((1 + level) / 2, len(values) - 1) * error
    low = mean - reach
    return Interval(low if endless else max(0.0, low), min(1.0, mean + reach), level)


def _task_means(observed: Iterable[TrialMetric]) -> dict[tuple[str, str], dict[Hashable, float]]:
    """Give the mean of each task's repetitions, for each metric of each level."""
    scores_by_task: dict[tuple[str, str], dict[Hashable, list[float]]] = {}
    for level, metric, task, score in observed:
        if score is not None:
            scores_by_task.setdefault((level, metric), {}).setdefault(task, []).append(score)
    return {
        name: {task: math.fsum(scores) / len(scores) for task, scores in tasks.items()}
        for name, tasks in scores_by_task.items()
    }


def _level(name: str, scores: Mapping[tuple[str, str], TaskScores], level: float) -> MetricGroup:
    own = [(metric, scores.get((name, metric), {})) for metric in LEVEL_METRICS[name]]
    common = [(metric, scores.get((name, metric), {})) for metric in COMMON_METRICS]
    return MetricGroup(
        total=_level_total(name, [tasks for _, tasks in own if tasks], level),
        metrics=tuple(_metric(metric, tasks, level) for metric, tasks in own),
        beside=tuple(_metric(metric, tasks, level) for metric, tasks in common),
    )


def _metric(name: str, tasks: TaskScores, level: float) -> Metric:
    values = list(tasks.values())
    if not values:
        return Metric(name, None, None, 0)
    interval = interval_over_tasks(values, level, endless=_endless(values))
    return Metric(name, math.fsum(values) / len(values), interval, len(values))


def _endless(values: Iterable[float]) -> bool:
    """Whether values show that their scale does not end at 0."""
    return any(value < 0 for value in values)


def _level_total(name: str, decided: Sequence[TaskScores], level: float) -> Metric:
    """Give the mean of metrics with an interval that knows that one task stands behind several of them."""
    if not decided:
        return Metric(name, None, None, 0)
    means = [math.fsum(tasks.values()) / len(tasks) for tasks in decided]
    value = math.fsum(means) / len(means)
    tasks = list(dict.fromkeys(task for scores in decided for task in scores))
    shares = [
        [
            (scores[task] - mean) / (len(scores) * len(means))
            for scores, mean in zip(decided, means, strict=True)
            if task in scores
        ]
        for task in tasks
    ]
    contributed = [value + len(tasks) * math.fsum(share) for share in shares]
    endless = any(_endless(scores.values()) for scores in decided)
    return Metric(name, value, interval_over_tasks(contributed, level, endless=endless), len(tasks))

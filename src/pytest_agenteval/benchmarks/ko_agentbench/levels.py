"""The Korean benchmark's levels: which metrics a level has of its own, and what a level is worth.

Repetitions of a task are averaged first, then tasks within a metric, then metrics within a level, so that
neither a task that was repeated more often nor a metric that could be decided more often weighs more.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pytest_agenteval import Metric, MetricGroup
from pytest_agenteval.benchmarks.ko_agentbench.graders import COMMON, OWN
from pytest_agenteval.benchmarks.ko_agentbench.weighted_means import (
    TaskScores,
    WeightedMean,
    mean_of_metrics,
)

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

    An interval is the ``beta_interval`` over tasks: of a metric, of its tasks; of a level where every metric
    was decided in every task, of the tasks' mean metrics. Below five tasks there is none, nor where a score
    lies below 0. Raises ValueError unless 0 < level < 1.
    """
    scores = _task_means(observed)
    return tuple(_level(name, scores, level) for name in LEVELS)


def level_means(observed: Iterable[TrialMetric]) -> dict[str, WeightedMean]:
    """Give the values of the levels in which something is decided, with what a composite needs of them."""
    scores = _task_means(observed)
    return {name: mean_of_metrics(decided) for name in LEVELS if (decided := _decided(name, scores))}


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
        total=_mean(name, _decided(name, scores), level),
        metrics=tuple(_metric(metric, tasks, level) for metric, tasks in own),
        beside=tuple(_metric(metric, tasks, level) for metric, tasks in common),
    )


def _metric(name: str, tasks: TaskScores, level: float) -> Metric:
    return _mean(name, [tasks] if tasks else [], level)


def _mean(name: str, decided: Sequence[TaskScores], level: float) -> Metric:
    if not decided:
        return Metric(name, None, None, 0)
    mean = mean_of_metrics(decided)
    return Metric(name, mean.value, mean.interval(level), mean.tasks)


def _decided(name: str, scores: Mapping[tuple[str, str], TaskScores]) -> list[TaskScores]:
    return [tasks for metric in LEVEL_METRICS[name] if (tasks := scores.get((name, metric)))]

"""The scorecard: weighted means of metrics, levels, and their total."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from pytest_agenteval import (
    Interval,
    JournalEntry,
    Metric,
    MetricGroup,
    ReportOption,
    Scorecard,
    Total,
    TotalPart,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders import COMMON, LEVELS, OWN
from pytest_agenteval.compare.scoring.intervals import FEWEST_TASKS, moment_interval
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.reports.group_statistics import NO_JUDGE, grades_lacking_judge

TaskScores = Mapping[Hashable, float]


class WeightedMean(NamedTuple):
    """A mean over tasks that may weigh differently.

    ``variance`` is that of the mean. ``tasks`` counts the tasks; ``alike`` is how many tasks of equal weight
    would say as much. ``bounded`` is False where a score lies below 0: then its scale has no lower end.
    """

    value: float
    variance: float
    tasks: int
    alike: float
    bounded: bool

    def interval(self) -> Interval | None:
        """Give the interval, None with fewer than five tasks or a score below 0.

        On a scale without a lower end, no interval of a mean keeps what it promises, however it is made: a
        rare score far below decides the mean, and is mostly not among a dozen tasks (Bahadur and Savage
        1956).
        """
        if self.tasks < FEWEST_TASKS or not self.bounded:
            return None
        # moment_interval takes the sum of squared distances; the variance of a mean is that sum by n (n - 1).
        squares = self.variance * self.alike * (self.alike - 1)
        return moment_interval(self.value, squares, self.alike)


def mean_of_metrics(metrics: Sequence[TaskScores]) -> WeightedMean:
    """Give the mean of the metrics' means; raises ZeroDivisionError for a metric without a task."""
    weight = 1 / len(metrics)
    means = [math.fsum(scores.values()) / len(scores) for scores in metrics]
    # By task, because the metrics of one task rise and fall together: their distances from the means are
    # added up before they are squared.
    added: dict[Hashable, list[float]] = {}
    weights: dict[Hashable, list[float]] = {}
    for scores, mean in zip(metrics, means, strict=True):
        # A metric that only one task decided shows no spread: its weight alone tells how uncertain it is.
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
        # The weights sum to 1 only up to rounding. Full marks
        # in every part must still be a mean of exactly 1.
        value=min(max(value, min(values)), max(values)),
        variance=math.fsum(share**2 * part.variance for share, part in shares),
        tasks=sum(part.tasks for _, part in shares),
        alike=1 / math.fsum(share**2 / part.alike for share, part in shares),
        bounded=all(part.bounded for _, part in shares),
    )


def _sum_of_squares(by_task: Iterable[Iterable[float]]) -> float:
    return math.fsum(math.fsum(values) ** 2 for values in by_task)


LEVEL_METRICS: Mapping[str, tuple[str, ...]] = {
    level: tuple(label for _, label, _ in own) for level, own in OWN.items()
}
"""The metrics that make up a level's value, by the labels of their grades."""

PASS_SHARE = "pass@k share"
"""The share of repetitions that succeeded. The benchmark calls it pass@k, which it is not:
``scoring.aggregates.pass_at_k`` is the estimator of that name, over trials that passed."""

# Metrics that every level has. They are shown beside a level's value and are no part of it.
COMMON_METRICS = tuple(label for _, label, _ in COMMON)


class TrialMetric(NamedTuple):
    """What one metric came to in one trial, at most 1; None where it could not be decided.

    A metric that counts as the benchmark's code does may lie far below 0.
    """

    level: str
    metric: str
    task: Hashable
    score: float | None


Scores = dict[tuple[str, str], dict[Hashable, float]]
"""The mean of each task's repetitions, by level and metric."""


def levels_of(observed: Iterable[TrialMetric]) -> tuple[MetricGroup, ...]:
    """Work out all seven levels; what is no metric of its level is passed over.

    A level's value is the mean of its own metrics. A metric that no task decided is shown without a value and
    left out of the mean; those common to all levels stand beside it.

    An interval is the ``beta_interval`` over tasks: of a metric, of its tasks; of a level where every metric
    was decided in every task, of the tasks' mean metrics. Below five tasks there is none, nor where a score
    lies below 0.
    """
    scores = _task_means(observed)

    def figure(name: str, decided: Sequence[TaskScores]) -> Metric:
        if not decided:
            return Metric(name, None, None, 0)
        mean = mean_of_metrics(decided)
        return Metric(name, mean.value, mean.interval(), mean.tasks)

    def figures(name: str, metrics: Sequence[str]) -> tuple[Metric, ...]:
        tasks_by_metric = ((metric, scores.get((name, metric))) for metric in metrics)
        return tuple(figure(metric, [tasks] if tasks else []) for metric, tasks in tasks_by_metric)

    return tuple(
        MetricGroup(
            total=figure(name, _decided(name, scores)),
            metrics=figures(name, LEVEL_METRICS[name]),
            beside=figures(name, COMMON_METRICS),
        )
        for name in LEVELS
    )


def level_means(observed: Iterable[TrialMetric]) -> dict[str, WeightedMean]:
    """Give the values of the levels in which something is decided, with what a composite needs of them."""
    scores = _task_means(observed)
    return {name: mean_of_metrics(decided) for name in LEVELS if (decided := _decided(name, scores))}


def _task_means(observed: Iterable[TrialMetric]) -> Scores:
    scores_by_task: dict[tuple[str, str], dict[Hashable, list[float]]] = {}
    for level, metric, task, score in observed:
        if score is not None:
            scores_by_task.setdefault((level, metric), {}).setdefault(task, []).append(score)
    return {
        name: {task: math.fsum(scores) / len(scores) for task, scores in tasks.items()}
        for name, tasks in scores_by_task.items()
    }


def _decided(name: str, scores: Scores) -> list[TaskScores]:
    return [tasks for metric in LEVEL_METRICS[name] if (tasks := scores.get((name, metric)))]


# After a README of the benchmark of late 2025, which documents this composite and its weights. None of the
# benchmark's code works it out.
# The levels whose mean each part is. L4 is in none of them: it is shown beside the composite.
PARTS: Mapping[str, tuple[str, ...]] = {
    "basic": ("L1", "L2", "L3"),
    "robustness": ("L5",),
    "efficiency": ("L6",),
    "context": ("L7",),
}

WEIGHTS: Mapping[str, float] = {"basic": 0.40, "robustness": 0.20, "efficiency": 0.25, "context": 0.15}
NAME, BESIDE = "composite", "L4"


def composite(levels: Mapping[str, WeightedMean], weights: Mapping[str, float] = WEIGHTS) -> Total:
    """Give 0.40·mean(L1, L2, L3) + 0.20·L5 + 0.25·L6 + 0.15·L7, or the same with other weights.

    The interval is that of one mean over all tasks that count, with the tasks of each level drawn
    independently. The half task at either end of the scale, which a single level is given, is given once to
    the whole. So a level that happens to show no spread neither widens the interval by what it alone would
    not know, nor draws it towards the middle. The interval is None where a level that counts has none.

    ``levels`` has those that are decided.
    """
    shares = level_shares(weights)
    values = {name: levels[name].value if name in levels else None for name in shares}
    counted = [name for name, share in shares.items() if share > 0]
    # A missing level is named, and the others are not made to stand for it. One without weight is not missed.
    missing = tuple(name for name in counted if name not in levels)

    def mean(names: Sequence[str]) -> float | None:
        decided = [value for name in names if (value := values[name]) is not None]
        return math.fsum(decided) / len(decided) if len(decided) == len(names) else None

    parts = tuple(TotalPart(part, mean(names), weights[part], names) for part, names in PARTS.items())
    if missing:
        return Total(NAME, None, None, parts, missing, BESIDE)
    whole = weighted_sum([(shares[name], levels[name]) for name in counted])
    # A level without an interval of its own gives none to what it is a part of.
    sure = all(levels[name].interval() for name in counted)
    return Total(NAME, whole.value, whole.interval() if sure else None, parts, (), BESIDE)


def read_weights(text: str) -> Mapping[str, float]:
    """Read ``basic=0.4,robustness=0.2,efficiency=0.25,context=0.15``; raises ValueError for anything else."""
    pairs = (pair.partition("=") for pair in text.split(","))
    try:
        weights = {name.strip(): float(number) for name, _, number in pairs}
    except ValueError:
        weights = {}
    known = weights.keys() == PARTS.keys() and all(0 <= weight <= 1 for weight in weights.values())
    if not known or abs(math.fsum(weights.values()) - 1) > ROUNDING:
        parts = "=N,".join(PARTS)
        raise ValueError(f"expected {parts}=N with weights from 0 to 1 that sum to 1; found {text!r}")
    return weights


def level_shares(weights: Mapping[str, float]) -> dict[str, float]:
    return {name: weights[part] / len(names) for part, names in PARTS.items() for name in names}


OPTIONS = (
    ReportOption(
        "--weights",
        "PART=N,...",
        "weights of the parts of the Korean benchmark's composite "
        "(default: basic=0.4,robustness=0.2,efficiency=0.25,context=0.15)",
        read_weights,
    ),
)


def scorecard(entries: Sequence[JournalEntry], weights: Mapping[str, float] = WEIGHTS) -> Scorecard | None:
    """Give the levels and the composite of a suite with one model; None where it is not this benchmark's."""
    if not has_levels(entries):
        return None
    # By level and metric, the tasks that lack a grade only a judge gives.
    lacking: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    observed: list[TrialMetric] = []
    for entry in (entry for entry in entries if entry.averaged):
        task = (entry.key.task, entry.key.agent)
        metrics = {*LEVEL_METRICS.get(entry.bucket, ()), *COMMON_METRICS}
        for grade in grades_lacking_judge(entry):
            lacking[entry.bucket, grade.grader].add(task)
        graded = (grade for grade in entry.grades if grade.grader in metrics)
        observed += [TrialMetric(entry.bucket, grade.grader, task, grade.value) for grade in graded]

    def counted(level: str, metrics: Iterable[Metric]) -> tuple[Metric, ...]:
        return tuple(replace(each, unjudged=len(lacking[level, each.name])) for each in metrics)

    levels = []
    for level in levels_of(observed):
        metrics_of_level = counted(level.name, level.metrics)
        levels.append(
            MetricGroup(
                total=replace(level.total, unjudged=sum(metric.unjudged for metric in metrics_of_level)),
                metrics=metrics_of_level,
                beside=counted(level.name, level.beside),
                reason=_reason(level.name, entries) if level.value is None else "",
            )
        )
    return Scorecard(tuple(levels), composite(level_means(observed), weights))


def has_levels(entries: Iterable[JournalEntry]) -> bool:
    """Whether grades are this benchmark's: some bucket is a level, with a metric of its own."""
    return any(
        grade.grader in LEVEL_METRICS.get(entry.bucket, ()) for entry in entries for grade in entry.grades
    )


def _reason(level: str, entries: Iterable[JournalEntry]) -> str:
    """Say why nothing is decided in a level; empty where it was not tried."""
    of_level = [entry for entry in entries if entry.bucket == level]
    own = (grade for entry in of_level for grade in entry.grades if grade.grader in LEVEL_METRICS[level])
    if any(grade.undecided == NO_JUDGE for grade in own):
        return "needs --agent-judge"
    errored = "errored" if of_level else ""
    return "undecided" if any(entry.averaged for entry in of_level) else errored

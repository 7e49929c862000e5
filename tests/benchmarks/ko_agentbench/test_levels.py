"""What a level of the Korean benchmark is worth, and how sure that is."""

from __future__ import annotations

import math
from random import Random
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.ko_agentbench.levels import (
    COMMON_METRICS,
    LEVEL_METRICS,
    TrialMetric,
    interval_over_tasks,
    levels_of,
)
from pytest_agenteval.reports.scorecard import MetricGroup
from pytest_agenteval.scoring.intervals import clustered_mean


def oracle(name: str) -> Any:
    """Import a library that only checks our figures, or skip."""
    return pytest.importorskip(name, reason=f"{name} is this test's oracle: pip install scipy")


def level(observed: list[TrialMetric], name: str) -> MetricGroup:
    """Give one level of those worked out."""
    return next(group for group in levels_of(observed) if group.name == name)


def test_repetitions_then_tasks_then_metrics_are_averaged() -> None:
    """A task with three repetitions weighs as much as one with a single one, and so do metrics."""
    observed = [
        *(TrialMetric("L3", "FSM", "a", score) for score in (0.0, 0.0, 0.0)),
        TrialMetric("L3", "FSM", "b", 1.0),
        TrialMetric("L3", "PSM", "a", 0.25),
        TrialMetric("L3", "PSM", "b", 0.75),
        TrialMetric("L3", "ΔSteps_norm", "a", 1.0),
    ]

    group = level(observed, "L3")

    assert [metric.value for metric in group.metrics] == [0.5, 0.5, 1.0, None]
    assert [metric.tasks for metric in group.metrics] == [2, 2, 1, 0]
    assert group.value == pytest.approx((0.5 + 0.5 + 1.0) / 3)
    assert group.total.tasks == 2


def test_what_is_undecided_is_left_out_and_never_counted_as_nought() -> None:
    """An undecided task is no task of the metric, an undecided metric none of the level."""
    observed = [TrialMetric("L1", "ToolAcc", "a", 1.0), TrialMetric("L1", "ToolAcc", "b", None)]
    observed += [TrialMetric("L1", "ArgAcc", task, None) for task in "ab"]

    group = level(observed, "L1")

    assert (group.value, group.total.tasks) == (1.0, 1)
    assert group.total.interval is None
    assert level(observed, "L2").value is None


def test_only_a_levels_own_metrics_make_its_value() -> None:
    """Metrics of every level stand beside it; a foreign metric, bucket or grader is passed over."""
    observed = [
        TrialMetric("L2", "SelectAcc", "a", 0.5),
        *(TrialMetric("L2", name, "a", 0.0) for name in COMMON_METRICS),
        TrialMetric("L2", "ToolAcc", "a", 0.0),
        TrialMetric("L9", "SelectAcc", "a", 0.0),
        TrialMetric("L2", "answer_matches", "a", 0.0),
    ]

    group = level(observed, "L2")

    assert group.value == 0.5
    assert [(metric.name, metric.value) for metric in group.beside] == [
        (name, 0.0) for name in COMMON_METRICS
    ]


def test_no_metric_belongs_to_two_levels_or_to_all_of_them() -> None:
    """A label tells its level, so that a grade cannot be counted twice."""
    names = [name for metrics in LEVEL_METRICS.values() for name in metrics]

    assert len(names) == len(set(names))
    assert not set(names) & set(COMMON_METRICS)


@pytest.mark.parametrize("size", [2, 5, 11, 30])
def test_the_interval_is_that_of_students_t_over_tasks(size: int) -> None:
    """Scipy's interval of the mean of the tasks' own means has the same ends."""
    stats = oracle("scipy.stats")
    random = Random(size)
    scores = {metric: [random.random() for _ in range(size)] for metric in LEVEL_METRICS["L6"]}
    observed = [
        TrialMetric("L6", metric, task, score)
        for metric, total in scores.items()
        for task, score in enumerate(total)
    ]
    tasks = [fmean(task) for task in zip(*scores.values(), strict=True)]
    low, high = stats.t.interval(0.95, size - 1, loc=fmean(tasks), scale=stats.sem(tasks))

    total = level(observed, "L6").total

    assert total.value == pytest.approx(fmean(tasks))
    assert total.interval is not None
    assert total.interval.low == pytest.approx(max(0.0, float(low)), abs=1e-9)
    assert total.interval.high == pytest.approx(min(1.0, float(high)), abs=1e-9)


def test_a_metric_alone_has_the_interval_of_the_clustered_mean() -> None:
    """With one trial for each task both figures answer the same question."""
    random = Random(3)
    scores = [random.random() for _ in range(15)]
    mean = clustered_mean(enumerate(scores))

    assert mean is not None
    assert interval_over_tasks(scores) == mean.interval


def test_the_interval_knows_that_some_tasks_decide_fewer_metrics() -> None:
    """Its ends are those that drawing tasks anew finds by brute force, though one metric has fewer tasks."""
    random = Random(11)
    tasks = [(random.random(), random.random() if task % 3 else None) for task in range(60)]
    observed = [
        TrialMetric("L5", metric, task, score)
        for task, pair in enumerate(tasks)
        for metric, score in zip(LEVEL_METRICS["L5"], pair, strict=True)
    ]

    def value(drawn: list[tuple[float, float | None]]) -> float:
        second = [score for _, score in drawn if score is not None]
        return (fmean(score for score, _ in drawn) + fmean(second)) / 2

    drawn = sorted(value(random.choices(tasks, k=len(tasks))) for _ in range(4000))
    total = level(observed, "L5").total

    assert total.value == pytest.approx(value(tasks))
    assert total.interval is not None
    assert total.interval.low == pytest.approx(drawn[100], abs=0.01)
    assert total.interval.high == pytest.approx(drawn[3899], abs=0.01)


def test_tasks_that_are_all_alike_prove_no_certainty() -> None:
    """Ten full scores leave room below 1; one task alone has no interval at all."""
    interval = interval_over_tasks([1.0] * 10)

    assert interval is not None
    assert interval.high == 1.0
    assert 0.6 < interval.low < 0.8
    assert interval_over_tasks([1.0]) is None
    assert interval_over_tasks([]) is None


def test_an_interval_stays_on_the_scale() -> None:
    """A metric of the benchmark's own way may lie below 0: the interval still ends at 0 and 1."""
    interval = interval_over_tasks([-8.0, 1.0, 1.0])

    assert interval is not None
    assert (interval.low, interval.high) == (0.0, 1.0)
    assert not math.isnan(interval.low)


def test_a_metric_below_nothing_is_averaged_as_it_is() -> None:
    """One task at -8 pulls the mean of fifteen to 0.30, and the interval reaches below 0."""
    scores = [1.0] * 12 + [-8.0, 0.5, 0.0]
    observed = [TrialMetric("L6", "RedundantCallRate", task, score) for task, score in enumerate(scores)]
    observed += [TrialMetric("L6", "EffScore", task, 0.5) for task in range(15)]

    group = level(observed, "L6")
    rate = group.metrics[1]

    assert rate.value == pytest.approx(0.30)
    assert rate.interval is not None
    assert rate.interval.low == pytest.approx(0.30 - 2.144787 * stdev(scores) / math.sqrt(15), abs=1e-6)
    assert rate.interval.high == 1.0
    assert group.value == pytest.approx(0.40)
    assert group.total.interval is not None
    assert group.total.interval.low < 0 < group.value < group.total.interval.high


@given(scores=st.lists(st.floats(-50, 1), min_size=2, max_size=12))
def test_an_interval_holds_its_mean_however_far_below_nothing(scores: list[float]) -> None:
    """Clipping moves an end of the interval, never past the figure that it is about."""
    observed = [TrialMetric("L6", "RedundantCallRate", task, score) for task, score in enumerate(scores)]
    metric = level(observed, "L6").metrics[1]

    assert metric.value == pytest.approx(fmean(scores))
    if metric.interval is not None:
        assert metric.interval.low - 1e-9 <= metric.value <= metric.interval.high + 1e-9


def test_an_interval_ends_where_its_scale_does() -> None:
    """Where no value lies below 0 there is nothing below 0 to be expected: of a metric, and of its level."""
    metrics = ("RedundantCallRate", "EffScore")
    observed = [TrialMetric("L6", name, task, float(task == 3)) for name in metrics for task in range(4)]
    group = level(observed, "L6")

    measured = [metric for metric in (*group.metrics, group.total) if metric.value is not None]
    assert [metric.value for metric in measured] == [0.25] * 3
    assert [metric.interval and (metric.interval.low, metric.interval.high) for metric in measured] == [
        (0.0, 1.0)
    ] * 3


def test_tasks_that_are_all_alike_below_nothing_have_no_interval() -> None:
    """The Wilson interval that stands for no spread ends at 0: it would not hold the figure."""
    alike = [TrialMetric("L6", "RedundantCallRate", task, -2.0) for task in "abc"]

    assert (level(alike, "L6").value, level(alike, "L6").total.interval) == (-2.0, None)


def test_nothing_but_zeros_have_an_interval_where_values_may_lie_below_too() -> None:
    """0 is on the scale: only where all tasks are alike below it is nothing known of the spread."""
    zeros = [0.0] * 5

    assert interval_over_tasks(zeros, endless=True) == interval_over_tasks(zeros) is not None
    assert interval_over_tasks([-1.0] * 5, endless=True) is None

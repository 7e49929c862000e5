"""What a level of the Korean benchmark is worth, and how sure that is."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.ko_agentbench.scorecard import (
    COMMON_METRICS,
    LEVEL_METRICS,
    TrialMetric,
    levels_of,
)
from pytest_agenteval.compare.scoring.intervals import Interval, beta_interval
from pytest_agenteval.reports.scorecard import Metric, MetricGroup


def ends_of(interval: Interval | None) -> tuple[float, float]:
    """Give the ends of an interval that there is."""
    assert interval is not None
    return interval.low, interval.high


def ends(metric: Metric) -> tuple[float, float]:
    """Give the ends of a metric's interval."""
    return ends_of(metric.interval)


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


@pytest.mark.parametrize("size", [5, 11, 30])
def test_the_interval_of_a_level_is_that_of_its_tasks_means(size: int) -> None:
    """Where every task decided every metric, a level is the mean of one figure for each task."""
    random = Random(size)
    scores = {metric: [random.random() for _ in range(size)] for metric in LEVEL_METRICS["L6"]}
    observed = [
        TrialMetric("L6", metric, task, score)
        for metric, total in scores.items()
        for task, score in enumerate(total)
    ]
    tasks = [fmean(task) for task in zip(*scores.values(), strict=True)]

    total = level(observed, "L6").total

    assert total.value == pytest.approx(fmean(tasks))
    assert ends(total) == pytest.approx(ends_of(beta_interval(tasks)))


def test_a_metric_alone_has_the_interval_of_any_mean_over_tasks() -> None:
    """With one trial for each task both figures answer the same question."""
    scores = [Random(3).random() for _ in range(15)]
    observed = [TrialMetric("L6", "EffScore", task, score) for task, score in enumerate(scores)]

    assert ends(level(observed, "L6").total) == pytest.approx(ends_of(beta_interval(scores)))


def test_the_fewer_tasks_decide_a_metric_the_less_sure_is_its_level() -> None:
    """A metric that two of ten tasks decided leaves its level as unsure as two or three tasks would."""

    def width(decided: int) -> float:
        observed = [TrialMetric("L5", LEVEL_METRICS["L5"][0], task, 0.5) for task in range(10)]
        observed += [TrialMetric("L5", LEVEL_METRICS["L5"][1], task, 0.5) for task in range(decided)]
        low, high = ends(level(observed, "L5").total)
        return high - low

    widths = [width(decided) for decided in (1, 2, 5, 10)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 2 * widths[-1]


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
    """Ten full scores leave room below 1; four have no interval at all."""
    low, high = ends(level([TrialMetric("L6", "EffScore", task, 1.0) for task in range(10)], "L6").total)

    assert 0.75 < low < 0.85
    assert 0.9999 < high < 1
    four = level([TrialMetric("L6", "EffScore", task, 1.0) for task in range(4)], "L6")
    assert four.total.interval is None


def test_a_metric_below_nothing_is_averaged_as_it_is_and_has_no_interval() -> None:
    """One task at -8 pulls the mean of fifteen to 0.30; how often one comes, fifteen tasks cannot tell."""
    scores = [1.0] * 12 + [-8.0, 0.5, 0.0]
    observed = [TrialMetric("L6", "RedundantCallRate", task, score) for task, score in enumerate(scores)]
    observed += [TrialMetric("L6", "EffScore", task, 0.5) for task in range(15)]

    group = level(observed, "L6")
    values = {metric.name: metric for metric in group.metrics}

    assert values["RedundantCallRate"].value == pytest.approx(0.30)
    assert values["RedundantCallRate"].interval is None
    assert values["EffScore"].interval is not None
    assert (group.value, group.total.interval) == (pytest.approx(0.40), None)


@given(scores=st.lists(st.floats(-1, 1), min_size=5, max_size=12))
def test_an_interval_ends_where_its_scale_does(scores: list[float]) -> None:
    """Where no value lies below 0 the interval lies within 0..1, and else there is none."""
    observed = [TrialMetric("L6", "RedundantCallRate", task, score) for task, score in enumerate(scores)]
    metric = level(observed, "L6").total

    assert metric.value == pytest.approx(fmean(scores))
    assert (metric.interval is None) == (min(scores) < 0)
    if metric.interval is not None:
        assert 0 < metric.interval.low < metric.interval.high <= 1

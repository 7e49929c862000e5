"""The Korean benchmark's scorecard: a suite's trials with one model as seven levels and a composite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from pytest_agenteval import JournalEntry, Metric, MetricGroup, ReportOption, Scorecard
from pytest_agenteval.benchmarks.ko_agentbench.composite import WEIGHTS, composite, read_weights
from pytest_agenteval.benchmarks.ko_agentbench.levels import (
    COMMON_METRICS,
    LEVEL_METRICS,
    TrialMetric,
    levels_of,
)
from pytest_agenteval.reports.statistics import NO_JUDGE, grades_lacking_judge

OPTIONS = (
    ReportOption(
        "--weights",
        "PART=N,...",
        "what parts weigh in the Korean benchmark's composite "
        "(default: basic=0.4,robustness=0.2,efficiency=0.25,context=0.15)",
        read_weights,
    ),
)

Lacking = Mapping[tuple[str, str], int]
"""By level and metric, the tasks that lack a grade only a judge gives."""


def scorecard(entries: Sequence[JournalEntry], weights: Mapping[str, float] = WEIGHTS) -> Scorecard | None:
    """Give the levels and the composite of a suite with one model, None where it is not this benchmark's.

    ``weights`` say what the composite's parts weigh.
    """
    if not has_levels(entries):
        return None
    lacking = _lacking(entries)
    levels = tuple(_completed(level, lacking, entries) for level in levels_of(_observed(entries)))
    return Scorecard(levels, composite(levels, weights))


def has_levels(entries: Iterable[JournalEntry]) -> bool:
    """Whether grades are this benchmark's: some bucket is a level, with a metric of its own."""
    return any(
        grade.grader in LEVEL_METRICS[entry.bucket]
        for entry in entries
        if entry.bucket in LEVEL_METRICS
        for grade in entry.grades
    )


def _observed(entries: Iterable[JournalEntry]) -> Iterator[TrialMetric]:
    for entry in entries:
        known = {*LEVEL_METRICS.get(entry.bucket, ()), *COMMON_METRICS}
        if entry.averaged:
            task = (entry.key.task, entry.key.agent)
            yield from (
                TrialMetric(entry.bucket, grade.grader, task, grade.value)
                for grade in entry.grades
                if grade.grader in known
            )


def _lacking(entries: Iterable[JournalEntry]) -> Lacking:
    tasks: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for entry in entries:
        for grade in grades_lacking_judge(entry) if entry.averaged else ():
            tasks.setdefault((entry.bucket, grade.grader), set()).add((entry.key.task, entry.key.agent))
    return {name: len(lacking) for name, lacking in tasks.items()}


def _completed(level: MetricGroup, lacking: Lacking, entries: Iterable[JournalEntry]) -> MetricGroup:
    """Add what the figures of a level lack: judges' grades, or, where there is no figure, the reason."""

    def counted(metric: Metric) -> Metric:
        return replace(metric, unjudged=lacking.get((level.name, metric.name), 0))

    metrics = tuple(map(counted, level.metrics))
    tried = [entry for entry in entries if entry.bucket == level.name]
    return MetricGroup(
        total=replace(level.total, unjudged=sum(metric.unjudged for metric in metrics)),
        metrics=metrics,
        beside=tuple(map(counted, level.beside)),
        reason=_reason(level.name, tried) if level.value is None and tried else "",
    )


def _reason(level: str, tried: Sequence[JournalEntry]) -> str:
    """Say why nothing is decided in a level that was tried."""
    own = (grade for entry in tried for grade in entry.grades if grade.grader in LEVEL_METRICS[level])
    if any(grade.undecided == NO_JUDGE for grade in own):
        return "needs --agent-judge"
    return "undecided" if any(entry.averaged for entry in tried) else "errored"

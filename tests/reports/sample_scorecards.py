"""A small benchmark's scorecard, whose figures can be worked out by hand: two groups and an index."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from pytest_agenteval.compare.scoring.intervals import Interval
from pytest_agenteval.reports.scorecard import (
    Metric,
    MetricGroup,
    RegisteredScorecard,
    ReportOption,
    Scorecard,
    Total,
    TotalPart,
)
from pytest_agenteval.store.journal_entry import JournalEntry


def scorecard(entries: Sequence[JournalEntry], half: float = 0.5) -> Scorecard | None:
    """Give the areas ``pace``, of the grade ``fast``, and ``care``, of the grades ``tidy`` and ``kind``."""
    pace = MetricGroup(_mean("pace", entries, "fast"), (_mean("fast", entries, "fast"),), (_sure(entries),))
    metrics = tuple(_mean(name, entries, name) for name in ("tidy", "kind"))
    known = [metric.value for metric in metrics if metric.value is not None]
    total = Metric("care", fmean(known) if known else None, tasks=len(known), unjudged=metrics[1].unjudged)
    care = MetricGroup(total, metrics, (_sure(entries),), reason="" if known else "nobody looked")
    return Scorecard((pace, care), _index(pace, care, half), ("a made-up benchmark",), group_word="category")


def _index(pace: MetricGroup, care: MetricGroup, half: float) -> Total:
    parts = (
        TotalPart("speed", pace.value, half, ("pace",)),
        TotalPart("quality", care.value, 1 - half, ("care",)),
    )
    missing = tuple(group.name for group in (pace, care) if group.value is None)
    value = None if missing else half * (pace.value or 0.0) + (1 - half) * (care.value or 0.0)
    return Total("index", value, None, parts, missing)


def _mean(name: str, entries: Sequence[JournalEntry], label: str) -> Metric:
    grades = [grade for entry in entries for grade in entry.grades if grade.grader == label]
    known = [grade.score for grade in grades if grade.score is not None]
    unjudged = sum(grade.score is None for grade in grades)
    return Metric(name, fmean(known) if known else None, None, len(known), unjudged)


def _sure(entries: Sequence[JournalEntry]) -> Metric:
    return Metric("sure", 0.25, Interval(0.0, 0.5, 0.95), len(entries))


SAMPLE = RegisteredScorecard(
    "sample",
    frozenset({"fast", "tidy"}),
    lambda: scorecard,
    lambda: (ReportOption("--half", "N", "what speed weighs", float),),
)

"""What this benchmark says of runs: a scorecard of two groups, and a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_agenteval import JournalEntry, Metric, MetricGroup, ReportOption, Run, Scorecard, Total, TotalPart

GREETS_WEIGHT = 0.75
OPTIONS = (
    ReportOption("--greets", "N", f"what the greeting weighs in the total (default: {GREETS_WEIGHT})", float),
)


def scorecard(entries: Sequence[JournalEntry], greets: float = GREETS_WEIGHT) -> Scorecard | None:
    """Give manners and brevity, and their weighted sum."""
    groups = (_group("manners", "greets", entries), _group("brevity", "short", entries))
    weights = (greets, 1 - greets)
    parts = tuple(
        TotalPart(group.name, group.value, weight, (group.name,))
        for group, weight in zip(groups, weights, strict=True)
    )
    values = [part.value * part.weight for part in parts if part.value is not None]
    total = Total("politeness", sum(values) if len(values) == len(parts) else None, None, parts)
    return Scorecard(groups, total, notes=("one question is no benchmark",), group_word="virtue")


def _group(name: str, label: str, entries: Sequence[JournalEntry]) -> MetricGroup:
    found = [
        grade.score
        for entry in entries
        for grade in entry.grades
        if grade.grader == label and grade.score is not None
    ]
    mean = sum(found) / len(found) if found else None
    return MetricGroup(Metric(name, mean, tasks=len(found)), (Metric(label, mean, tasks=len(found)),))


def write_lines(runs: Sequence[Run], folder: Path) -> Sequence[Path]:
    """Write a line for each trial of all runs."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tiny.txt"
    lines = [f"{entry.key.task} {entry.ending} {entry.score}" for run in runs for entry in run.entries]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [file]

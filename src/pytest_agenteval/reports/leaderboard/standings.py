"""What one run says of one suite with one model, and which of several stand on one board."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_agenteval.benchmarks.ko_agentbench.composite import WEIGHTS, Composite, composite
from pytest_agenteval.benchmarks.ko_agentbench.levels import (
    COMMON_METRICS,
    LEVEL_METRICS,
    Level,
    Observed,
    levels_of,
)
from pytest_agenteval.reports.statistics import grades_lacking_judge
from pytest_agenteval.reports.view import SuiteView, view_of
from pytest_agenteval.store.journal_entry import Entry
from pytest_agenteval.store.run_reader import Run

Rulers = Mapping[str, frozenset[str]]
Lacking = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Standing:
    """A suite with one model and variant in one run.

    ``levels`` and ``composite`` are there where the grades are the Korean benchmark's. ``rulers`` names
    what each task was graded by. ``lacking`` counts by level and metric the tasks that lack a judge's grade.
    """

    run: str
    path: str
    view: SuiteView
    levels: tuple[Level, ...]
    composite: Composite | None
    rulers: Rulers
    lacking: Lacking = field(default_factory=dict)

    def lacks(self, level: str, metric: str = "") -> int:
        """Count the tasks whose grade of this metric, or of all the level's own, only a judge gives."""
        metrics = (metric,) if metric else LEVEL_METRICS[level]
        return sum(self.lacking.get((level, each), 0) for each in metrics)

    @property
    def value(self) -> float | None:
        """The figure that the board is ordered by: the composite, else the mean score."""
        if self.composite is not None:
            return self.composite.value
        return self.view.total.mean.mean if self.view.total.mean else None


@dataclass(frozen=True, slots=True)
class Board:
    """All standings of one suite, best first, those without a figure last."""

    suite: str
    standings: tuple[Standing, ...]

    @property
    def has_levels(self) -> bool:
        """Whether the suite's grades are those of the Korean benchmark."""
        return any(standing.levels for standing in self.standings)


def boards_of(runs: Iterable[Run], weights: Mapping[str, float] = WEIGHTS) -> list[Board]:
    """Work out a board for each suite, in order of appearance; no transcript is read."""
    found: dict[str, list[Standing]] = {}
    for run in runs:
        for standing in standings_of(run, weights):
            found.setdefault(standing.view.suite, []).append(standing)
    return [Board(suite, tuple(sorted(rows, key=_best_first))) for suite, rows in found.items()]


def standings_of(run: Run, weights: Mapping[str, float] = WEIGHTS) -> Iterator[Standing]:
    """Give what a run says of each of its suites with each model and variant."""
    view = view_of(run)
    for suite in view.suites:
        entries = suite_entries(run, suite)
        levels = levels_of(_observed(entries)) if has_levels(entries) else ()
        yield Standing(
            run=view.name or run.folder.name,
            path=view.path,
            view=suite,
            levels=levels,
            composite=composite(levels, weights) if levels else None,
            rulers=_rulers(entries),
            lacking=_lacking(entries) if levels else {},
        )


def suite_entries(run: Run, suite: SuiteView) -> list[Entry]:
    """Give the entries of a suite with one model and variant."""
    group = (suite.suite, suite.model, suite.variant)
    return [entry for entry in run.entries if (entry.key.suite, entry.key.model, entry.key.variant) == group]


def has_levels(entries: Iterable[Entry]) -> bool:
    """Say whether the grades are the Korean benchmark's: some bucket is a level, with a metric of its own."""
    return any(
        grade.grader in LEVEL_METRICS[entry.bucket]
        for entry in entries
        if entry.bucket in LEVEL_METRICS
        for grade in entry.grades
    )


def count_graded_differently(standings: Sequence[Standing]) -> int:
    """Count the tasks that several standings have and that were not graded by the same ruler in all."""
    seen: dict[str, set[str]] = {}
    for standing in standings:
        for task, rulers in standing.rulers.items():
            seen.setdefault(task, set()).update(rulers)
    return sum(len(rulers) > 1 for rulers in seen.values())


def _observed(entries: Iterable[Entry]) -> Iterator[Observed]:
    for entry in entries:
        known = {*LEVEL_METRICS.get(entry.bucket, ()), *COMMON_METRICS}
        if entry.averaged:
            task = (entry.key.task, entry.key.agent)
            yield from (
                Observed(entry.bucket, grade.grader, task, grade.value)
                for grade in entry.grades
                if grade.grader in known
            )


def _lacking(entries: Iterable[Entry]) -> Lacking:
    tasks: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for entry in entries:
        for grade in grades_lacking_judge(entry) if entry.averaged else ():
            tasks.setdefault((entry.bucket, grade.grader), set()).add((entry.key.task, entry.key.agent))
    return {name: len(lacking) for name, lacking in tasks.items()}


def _rulers(entries: Iterable[Entry]) -> Rulers:
    found: dict[str, set[str]] = {}
    for entry in entries:
        if entry.digests.ruler:
            found.setdefault(entry.key.task, set()).add(entry.digests.ruler)
    return {task: frozenset(rulers) for task, rulers in found.items()}


def _best_first(standing: Standing) -> tuple[bool, float, str, str]:
    value = standing.value
    return value is None, -(value or 0.0), standing.view.who, standing.run

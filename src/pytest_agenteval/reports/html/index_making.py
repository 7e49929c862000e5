"""The index of a run's page, worked out from runs and what they are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count

from pytest_agenteval.compare.comparison import Comparison, SuiteComparison, TaskChange
from pytest_agenteval.compare.scoring.aggregates import decided_scores
from pytest_agenteval.compare.scoring.sensitivity import mean
from pytest_agenteval.compare.sides import Side, group_of
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.comparison.headline import headline
from pytest_agenteval.reports.comparison.phrases import verdict_text
from pytest_agenteval.reports.doubts import doubts
from pytest_agenteval.reports.explanations import ending_reason
from pytest_agenteval.reports.html.index import (
    Figures,
    OldFigures,
    ReportIndex,
    RunHead,
    SuiteFigures,
    TaskRow,
    TrialRow,
)
from pytest_agenteval.reports.leaderboard.standings import suite_entries
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.statistics import GroupStatistics, TaskName, group_by_task
from pytest_agenteval.reports.suite_table import MARK
from pytest_agenteval.reports.view import RunView, SuiteView, view_of
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run


class TrialSource(FrozenValue, frozen=True):
    """Where the trial of a row can be read: its run and entry; no run where there are only its figures."""

    run: Run | None
    entry: JournalEntry


def report_index(source: ReportSource) -> tuple[ReportIndex, list[TrialSource]]:
    """Give the page's index and, for each of its trials, where the rest of it can be read."""
    views = [view_of(run) for run in source.runs]
    compared = source.comparison is not None
    heads = [*_old_heads(source), *map(_run_head, views)]
    trials = _Trials()
    labels = _labels(views)
    suites: list[SuiteFigures] = []
    tasks: list[TaskRow] = []
    for at, (run, view) in enumerate(zip(source.runs, views, strict=True), start=int(compared)):
        for suite in view.suites:
            comparison = _suite_comparison(source.comparison, suite)
            label = _unlike(labels[len(suites)], {other.label for other in suites})
            suites.append(_suite_figures(suite, label, at, comparison))
            tasks += _task_rows(source, run, suite, (len(suites) - 1, at), comparison, trials)
    return (
        ReportIndex(
            title=" · ".join(dict.fromkeys(suite.suite for suite in suites)) or "no trials",
            headline=headline(source.comparison) if source.comparison else "",
            compared=compared,
            runs=tuple(heads),
            suites=tuple(suites),
            tasks=tuple(tasks),
            trials=trials.rows,
        ),
        trials.sources,
    )


def _old_heads(source: ReportSource) -> Iterator[RunHead]:
    if source.old_run is not None:
        yield _run_head(view_of(source.old_run))
    elif source.comparison is not None:
        note = "a baseline's file, which has figures and no transcripts"
        yield RunHead(source.comparison.old, "", "", None, "", (note,), ())


def _run_head(view: RunView) -> RunHead:
    return RunHead(
        name=view.name,
        started_at=view.started_at,
        ended_at=view.ended_at,
        exit_status=view.exit_status,
        place=view.path,
        notes=view.notes,
        warnings=tuple(note.text for note in doubts(view)),
    )


def _suite_comparison(comparison: Comparison | None, suite: SuiteView) -> SuiteComparison | None:
    if comparison is None:
        return None
    of_suite = (suite.suite, (suite.model, suite.variant))
    return next((part for part in comparison.suites if (part.name, part.new_who) == of_suite), None)


def _labels(views: Sequence[RunView]) -> list[str]:
    """Name each suite of each run like no other: by itself, with its model, or with its run too."""
    names = [
        (suite.suite, f"{suite.suite}[{suite.who}]", f"{suite.suite}[{suite.who}] ({view.name})")
        for view in views
        for suite in view.suites
    ]
    times = Counter(name for each in names for name in each[:2])
    return [next((name for name in each[:2] if times[name] == 1), each[2]) for each in names]


def _unlike(label: str, others: Container[str]) -> str:
    """Number a label that there is already, as of a run and its copy: filters go by labels."""
    numbered = (label if number == 1 else f"{label} {number}" for number in count(1))
    return next(each for each in numbered if each not in others)


def _suite_figures(
    suite: SuiteView, label: str, run: int, comparison: SuiteComparison | None
) -> SuiteFigures:
    changes = {change.name: change for change in comparison.buckets} if comparison else {}
    whole = comparison.suite if comparison else None
    return SuiteFigures(
        suite=suite.suite,
        label=label,
        kind=suite.kinds,
        who=suite.who,
        note=suite.note,
        run=run,
        all=_figures(suite.total, whole),
        buckets=tuple(
            _figures(row, changes.get(row.name) or (whole if len(suite.rows) == 1 else None))
            for row in suite.rows
        ),
    )


def _figures(row: GroupStatistics, change: Change | None) -> Figures:
    interval = row.mean.interval if row.mean else None
    return Figures(
        name=row.name,
        tasks=row.tasks,
        trials=row.averaged,
        planned=row.planned,
        errored=sum(row.errored.values()),
        mark=MARK if row.unscored and row.mean else "",
        score=row.mean.mean if row.mean else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        passed=row.pass_1.value if row.pass_1 else None,
        tokens=row.spent.tokens.value,
        usd=row.spent.cost.value,
        seconds=row.spent.seconds.value,
        old=OldFigures(change.old, change.tasks) if change else None,
        change=change.change if change else None,
        change_low=change.interval.low if change and change.interval else None,
        change_high=change.interval.high if change and change.interval else None,
        verdict=change.verdict if change else "",
        says=verdict_text(change) if change and change.testable else "",
        p=change.p_of_verdict if change else None,
    )


class _Trials:
    """The rows of all trials, in order of appearance, and where each can be read."""

    def __init__(self) -> None:
        self.rows: list[TrialRow] = []
        self.sources: list[TrialSource] = []

    def add(self, number: int, run: Run | None, entries: Iterable[JournalEntry]) -> tuple[int, ...]:
        """Take the trials of a task, and give their places."""
        first = len(self.rows)
        for entry in entries:
            self.rows.append(_trial_row(number, entry))
            self.sources.append(TrialSource(run, entry))
        return tuple(range(first, len(self.rows)))


def _trial_row(run: int, entry: JournalEntry) -> TrialRow:
    key = entry.key
    return TrialRow(
        run=run,
        name=key.label,
        repetition=key.repetition,
        ending=entry.ending,
        score=entry.score if entry.averaged else None,
        limit=entry.limit,
        cause=entry.cause,
        reason=ending_reason(entry),
        undecided=any(grade.score is None for grade in entry.grades),
        tokens=entry.all_tokens,
        usd=entry.all_cost_usd,
        seconds=entry.all_seconds,
        attempts=entry.attempts,
    )


def _task_rows(
    source: ReportSource,
    run: Run,
    suite: SuiteView,
    places: tuple[int, int],
    comparison: SuiteComparison | None,
    trials: _Trials,
) -> Iterator[TaskRow]:
    """Give a row for each task of a suite, in the order of buckets; ``places`` are the suite's and run's."""
    changes = {change.task: change for change in comparison.tasks} if comparison else {}
    old = _old_tasks(source.old, suite.suite, comparison)
    order = {row.name: at for at, row in enumerate(suite.rows)}
    new = group_by_task(suite_entries(run, suite))
    for name, entries in sorted(new.items(), key=lambda each: (order[each[1][0].bucket], each[0])):
        yield _task_row(
            places[0],
            entries,
            trials.add(places[1], run, entries),
            trials.add(0, source.old_run, old.get(name, ())),
            changes.get(name[0]),
        )


def _old_tasks(
    old: Side | None, suite: str, comparison: SuiteComparison | None
) -> dict[TaskName, list[JournalEntry]]:
    """Give the old side's trials that a suite's are compared with, by task."""
    if old is None or comparison is None:
        return {}
    group = (suite, *comparison.old_who)
    return group_by_task(entry for entry in old.entries if group_of(entry) == group)


def _task_row(
    suite: int,
    new: Sequence[JournalEntry],
    trials: tuple[int, ...],
    old: tuple[int, ...],
    change: TaskChange | None,
) -> TaskRow:
    scores = decided_scores([entry.score if entry.averaged else None for entry in new])
    old_scores = decided_scores(change.old) if change else []
    first = new[0]
    return TaskRow(
        suite=suite,
        bucket=first.bucket,
        task=first.key.task,
        file=first.file,
        trials=trials,
        old=old,
        score=mean(scores) if scores else None,
        old_score=mean(old_scores) if old_scores else None,
        change=change.change if change else None,
        flag="broken" if change and change.broken else "mended" if change and change.mended else "",
        reason=_worst_reason(new),
    )


def _worst_reason(entries: Sequence[JournalEntry]) -> str:
    """Give the reason of the trial that says most of what is wrong: the lowest score, else what errored."""
    scored = [entry for entry in entries if entry.averaged and entry.ending != "passed"]
    if scored:
        return ending_reason(min(scored, key=lambda entry: entry.score or 0.0))
    errored = [entry for entry in entries if not entry.averaged]
    return ending_reason(errored[0]) if errored else ""

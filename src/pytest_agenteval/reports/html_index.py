"""What the page of a run shows at once: every figure and one row for each task, without transcripts.

It is plain data, which the page's scripts and its template read. Scores and ends of intervals run from 0
to 1; what is unknown is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean as mean
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.compare.comparison import SuiteComparison, TaskChange
from pytest_agenteval.compare.pairing import group_of
from pytest_agenteval.compare.scoring.aggregates import decided_scores
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.explanation import ending_reason
from pytest_agenteval.reports.comparison_text import headline, suite_comparison, verdict_text
from pytest_agenteval.reports.group_statistics import GroupStatistics, TaskName, group_by_task
from pytest_agenteval.reports.leaderboard import suite_entries
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.run_view import RunView, SuiteView, view_of, worst_first
from pytest_agenteval.reports.run_warnings import run_warnings
from pytest_agenteval.reports.suite_tables import MARK
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run

FORMAT = 1
Fields: TypeAlias = dict[str, Any]


class PageTrial(NamedTuple):
    """A trial by the number of its run on the page; ``run`` is None where there are only its figures."""

    number: int
    run: Run | None
    entry: JournalEntry


class PageTask(NamedTuple):
    """One task with one model and variant: its row, and its trials in the new and in the old run."""

    row: Fields
    new: Sequence[PageTrial]
    old: Sequence[PageTrial]


def report_index(source: ReportSource) -> tuple[Fields, list[PageTrial]]:
    """Give the page's index and its trials, in the order of their rows.

    Compared, the first run is the old one. ``left_out`` is to say in a sentence whose transcripts the file
    lacks.
    """
    views = [view_of(run) for run in source.runs]
    heads = [_run_head(view) for view in views]
    if source.old_run is not None:
        heads.insert(0, _run_head(view_of(source.old_run)))
    elif source.comparison is not None:
        note = "a baseline's file, which has figures and no transcripts"
        heads.insert(0, _run_head(RunView(source.comparison.old, "", "", "", None, (note,), (), ())))
    suites: list[Fields] = []
    tasks: list[PageTask] = []
    labels = iter(_suite_labels(views))
    compared = source.comparison is not None
    for at, (run, view) in enumerate(zip(source.runs, views, strict=True), start=int(compared)):
        for suite in view.suites:
            comparison = suite_comparison(source.comparison, suite)
            tasks += _tasks_of(source, run, suite, (len(suites), at), comparison)
            suites.append(_suite_figures(suite, next(labels), at, comparison))
    trials: list[PageTrial] = []
    for task in tasks:
        for name, of_side in (("trials", task.new), ("old", task.old)):
            task.row[name] = list(range(len(trials), len(trials) + len(of_side)))
            trials += of_side
    index = {
        "title": " · ".join(dict.fromkeys(suite["suite"] for suite in suites)) or "no trials",
        "headline": headline(source.comparison) if source.comparison else "",
        "compared": compared,
        "runs": heads,
        "suites": suites,
        "tasks": [task.row for task in tasks],
        "trials": list(map(_trial_row, trials)),
        "left_out": "",
        "format": FORMAT,
    }
    return index, trials


def row_filters(index: Fields) -> dict[str, int]:
    """Count the tasks that each filter of the page shows, by its name."""
    of_trials: dict[str, Callable[[Fields], bool]] = {
        "missed": lambda trial: trial["ending"] in ("missed", "failed"),
        "errored": lambda trial: trial["ending"] == "errored",
        "disagree": lambda trial: trial["disagree"],
        "undecided": lambda trial: trial["undecided"],
    }
    counts = {}
    if index["compared"]:
        changes = [task["change"] or 0 for task in index["tasks"]]
        counts["better"] = sum(change > ROUNDING for change in changes)
        counts["worse"] = sum(change < -ROUNDING for change in changes)
    for name, fits in of_trials.items():
        fitting = [fits(trial) for trial in index["trials"]]
        counts[name] = sum(any(fitting[at] for at in task["trials"]) for task in index["tasks"])
    return counts


def _suite_labels(views: Sequence[RunView]) -> Iterator[str]:
    """Name each suite by itself where that is unique on the page, else with its model, else also its run."""
    names = [
        (suite.suite, f"{suite.suite}[{suite.who}]", f"{suite.suite}[{suite.who}] ({view.name})")
        for view in views
        for suite in view.suites
    ]
    times = Counter(name for each in names for name in each[:2])
    yield from (next((name for name in each[:2] if times[name] == 1), each[2]) for each in names)


def _run_head(view: RunView) -> Fields:
    return {
        "name": view.name,
        "started_at": view.started_at,
        "ended_at": view.ended_at,
        "exit_status": view.exit_status,
        "place": view.path,
        "notes": list(view.notes),
        "warnings": [note.text for note in run_warnings(view)],
    }


def _suite_figures(suite: SuiteView, label: str, run: int, comparison: SuiteComparison | None) -> Fields:
    changes = {change.name: change for change in comparison.buckets} if comparison else {}
    whole = comparison.suite if comparison else None
    # A comparison does not test the only bucket of a suite: its change is that of the suite.
    only = whole if len(suite.rows) == 1 else None
    return {
        "suite": suite.suite,
        "label": label,
        "kind": suite.kinds,
        "who": suite.who,
        "note": suite.note,
        "run": run,
        "all": _figures(suite.total, whole),
        "buckets": [_figures(row, changes.get(row.name) or only) for row in suite.rows],
    }


def _figures(row: GroupStatistics, change: Change | None) -> Fields:
    """Give the figures of a suite or of a bucket, and of its change, which is over the compared tasks alone.

    ``passed`` is the mean of tasks' shares of trials that passed. ``mark`` is ``*`` where trials lack a grade
    that only a judge gives, as in every table. ``says`` is the verdict in words.
    """
    interval, between = row.interval, change.interval if change else None
    return {
        "name": row.name,
        "tasks": row.tasks,
        "trials": row.averaged,
        "planned": row.planned,
        "errored": row.errors,
        "mark": MARK if row.unscored and row.mean else "",
        "score": row.score,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "passed": row.pass_1.value if row.pass_1 else None,
        "tokens": row.spent.tokens.value,
        "usd": row.spent.cost.value,
        "seconds": row.spent.seconds.value,
        "old": {"score": change.old, "tasks": change.tasks} if change else None,
        "change": change.change if change else None,
        "change_low": between.low if between else None,
        "change_high": between.high if between else None,
        "verdict": change.verdict if change else "",
        "says": verdict_text(change) if change and change.testable else "",
        "p": change.p_of_verdict if change else None,
    }


def _tasks_of(
    source: ReportSource,
    run: Run,
    suite: SuiteView,
    places: tuple[int, int],
    comparison: SuiteComparison | None,
) -> Iterator[PageTask]:
    """Give the tasks of a suite, in the order of buckets, then of names.

    ``places`` are the numbers of the suite and of the run in the index.
    """
    changes = {change.task: change for change in comparison.tasks} if comparison else {}
    old: dict[TaskName, list[JournalEntry]] = {}
    if source.old is not None and comparison is not None:
        group = (suite.suite, *comparison.old_who)
        old = group_by_task(entry for entry in source.old.entries if group_of(entry) == group)
    order = {row.name: at for at, row in enumerate(suite.rows)}
    new = group_by_task(suite_entries(run, suite))
    for name, entries in sorted(new.items(), key=lambda each: (order[each[1][0].bucket], each[0])):
        yield PageTask(
            _task_row(places[0], entries, changes.get(name[0])),
            [PageTrial(places[1], run, entry) for entry in entries],
            [PageTrial(0, source.old_run, entry) for entry in old.get(name, ())],
        )


def _task_row(suite: int, entries: Sequence[JournalEntry], change: TaskChange | None) -> Fields:
    """Give a task's row; ``trials`` and ``old`` are to be places in the list of all trials.

    ``flag`` names a task whose trials all passed before and none does now, or the other way round.
    """
    worst = worst_first(entries)
    scores = decided_scores(entry.score if entry.averaged else None for entry in entries)
    old_scores = decided_scores(change.old) if change else []
    return {
        "suite": suite,
        "bucket": entries[0].bucket,
        "task": entries[0].key.task,
        "file": entries[0].file,
        "trials": [],
        "old": [],
        "score": mean(scores) if scores else None,
        "old_score": mean(old_scores) if old_scores else None,
        "change": change.change if change else None,
        "flag": "broken" if change and change.broken else "mended" if change and change.mended else "",
        "reason": ending_reason(worst[0]) if worst else "",
    }


def _trial_row(trial: PageTrial) -> Fields:
    """Give a trial's row; its transcript will be ``at`` a place in ``chunk``, None where the file lacks it.

    ``tokens``, ``usd`` and ``seconds`` are what all its ``attempts`` took.
    """
    entry = trial.entry
    return {
        "run": trial.number,
        "name": entry.key.label,
        "repetition": entry.key.repetition,
        "ending": entry.ending,
        "score": entry.score if entry.averaged else None,
        "limit": entry.limit,
        "cause": entry.cause,
        "reason": ending_reason(entry),
        "undecided": any(grade.score is None for grade in entry.grades),
        "tokens": entry.all_tokens,
        "usd": entry.all_cost_usd,
        "seconds": entry.all_seconds,
        "attempts": entry.attempts,
        "disagree": False,
        "chunk": None,
        "at": 0,
    }

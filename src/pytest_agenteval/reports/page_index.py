"""What the HTML page shows of its sides, as plain data: the file holds it, and a server sends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean as mean
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.compare.comparison import SuiteComparison
from pytest_agenteval.compare.resource_figures import ResourceFigures
from pytest_agenteval.compare.scoring.aggregates import decided_scores
from pytest_agenteval.compare.scoring.intervals import interval_ends
from pytest_agenteval.compare.verdict import Change, Verdict
from pytest_agenteval.records.explanation import ending_reason
from pytest_agenteval.reports.causes import cause_json, causes_of
from pytest_agenteval.reports.comparison_report import basis_lines
from pytest_agenteval.reports.comparison_text import headline, verdict_text
from pytest_agenteval.reports.group_statistics import GroupStatistics
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.run_view import RunView, SuiteView, view_of, worst_first
from pytest_agenteval.reports.run_warnings import run_warnings
from pytest_agenteval.reports.sides import Lane, Side, Sides
from pytest_agenteval.reports.suite_tables import MARK
from pytest_agenteval.store.journal_entry import JournalEntry, group_of
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import model_label

FORMAT = 2
"""Of the index, which the page's scripts and its template read."""

Fields: TypeAlias = dict[str, Any]

TaskKey: TypeAlias = tuple[int, str, str]
"""A row of the page: the number of its suite, the task and its agent."""


class IndexedTrial(NamedTuple):
    """A trial by the number of its side; ``run`` is None where there are only its figures."""

    side: int
    run: Run | None
    entry: JournalEntry
    task: TaskKey


def page_index(source: ReportSource) -> tuple[Fields, list[IndexedTrial]]:
    """Give the index of a report, and its trials in the order in which the index has them.

    ``left_out``, and the places of transcripts, are to be filled in by whoever writes these.
    """
    sides, lanes = source.sides, source.sides.lanes()
    trials = _ordered_trials(sides, lanes)
    tasks = _task_rows(trials, sides, lanes)
    places = {key: at for at, key in enumerate(tasks)}
    runs = [_run_head(side) for side in _sides_of_runs(sides)]
    index: Fields = {
        "format": FORMAT,
        "title": " · ".join(dict.fromkeys(lane.suite for lane in lanes)) or "no trials",
        "headline": headline(source.comparison) if source.comparison else "",
        "legend": list(sides.legend),
        "old": 0 if len(sides) > 1 else None,
        "left_out": "",
        "runs": runs,
        "sides": [_side_row(side, sides) for side in sides.sides],
        "suites": [_suite_row(lane, sides, _lane_who(lane, lanes)) for lane in lanes],
        "comparisons": list(_comparisons(sides, lanes, places)),
        "tasks": list(tasks.values()),
        "live": None,
    }
    index |= _trial_tables(trials, places)
    _add_causes(index, sides, trials)
    return index, trials


def _sides_of_runs(sides: Sides) -> list[Side]:
    """Give a side for each run: several models of one run are in one run."""
    by_run: dict[object, Side] = {}
    for side in sides.sides:
        by_run.setdefault(_run_key(side), side)
    return list(by_run.values())


def _run_key(side: Side) -> object:
    return side.name if side.run is None else side.run.folder


def _run_head(side: Side) -> Fields:
    note = "a baseline's file, which has figures and no transcripts"
    view = view_of(side.run) if side.run else RunView(side.name, "", "", "", None, (note,), (), ())
    return {
        "name": view.name,
        "started_at": view.started_at,
        "ended_at": view.ended_at,
        "exit_status": view.exit_status,
        "place": view.path,
        "notes": list(view.notes),
        "warnings": [note.text for note in run_warnings(view)],
        "figures": _resources(view.resources) if view.resources else None,
    }


def _side_row(side: Side, sides: Sides) -> Fields:
    run_keys = [_run_key(each) for each in _sides_of_runs(sides)]
    return {
        "label": side.label,
        "name": side.name,
        "run": run_keys.index(_run_key(side)),
        "model": ", ".join(dict.fromkeys(suite.model for suite in side.suites)),
        "variant": ", ".join(dict.fromkeys(filter(None, (suite.variant for suite in side.suites)))),
        "note": ", ".join(dict.fromkeys(filter(None, (suite.note for suite in side.suites)))),
        "figures": side_figures(side),
    }


def _lane_who(lane: Lane, lanes: Sequence[Lane]) -> str:
    """Name the model of a lane where its suite has several; the newest side's where they differ."""
    if [other.suite for other in lanes].count(lane.suite) == 1:
        return ""
    return next((model_label(*who) for who in reversed(lane.whos) if who), "")


def _suite_row(lane: Lane, sides: Sides, who: str) -> Fields:
    views = [sides.suite_view(at, lane) for at in range(len(sides))]
    names = dict.fromkeys(row.name for view in reversed(views) if view for row in view.rows)
    newest = next(view for view in reversed(views) if view)
    return {
        "suite": lane.suite,
        "label": f"{lane.suite}[{who}]" if who else lane.suite,
        "who": who,
        "kind": newest.kinds,
        "note": newest.note,
        "sides": [view and figures_row(view.total) for view in views],
        "buckets": [
            {"name": name, "sides": [view and _bucket_figures(view, name) for view in views]}
            for name in names
        ],
    }


def _bucket_figures(view: SuiteView, name: str) -> Fields | None:
    return next((figures_row(row) for row in view.rows if row.name == name), None)


def figures_row(row: GroupStatistics) -> Fields:
    """Give the figures of a suite or of a bucket with one side.

    ``passed`` is the mean of tasks' shares of trials that passed. ``mark`` is ``*`` where trials lack a grade
    that only a judge gives, as in every table.
    """
    return {
        "name": row.name,
        "tasks": row.tasks,
        "trials": row.averaged,
        "planned": row.planned,
        "errored": row.errors,
        "not_run": row.not_run,
        "mark": MARK if row.unscored and row.mean else "",
        "score": row.score,
        **interval_ends(row.interval),
        "passed": row.pass_1.value if row.pass_1 else None,
        "tasks_passed": row.tasks_passed,
        "tasks_decided": row.tasks_decided,
        **_resources(row.resources),
    }


def _resources(figures: ResourceFigures) -> Fields:
    """Give what was taken; beside each sum stands the number of its unknown parts."""
    return {
        "tokens": figures.tokens.known_part,
        "tokens_unknown": figures.tokens.unknown,
        "usd": figures.cost.known_part,
        "usd_unknown": figures.cost.unknown,
        "seconds": figures.seconds.known_part,
        "seconds_unknown": figures.seconds.unknown,
        "wall": figures.wall.known_part,
        "wall_unknown": figures.wall.unknown,
        "turns": figures.turns.count,
        "turns_unknown": figures.turns.unknown,
        "p50": figures.turns.p50,
        "p95": figures.turns.p95,
    }


def side_figures(side: Side) -> Fields:
    """Give the figures of a side over all its suites; a score only of the one suite that it has."""
    rows = [figures_row(suite.total) for suite in side.suites]
    counts = ("tasks", "trials", "planned", "errored", "not_run", "tasks_passed", "tasks_decided")
    sums: Fields = {name: sum(row[name] for row in rows) for name in counts}
    sums |= _resources(side.resources)
    # Scores of different suites are on scales of their own, and have no mean.
    alone = rows[0] if len(rows) == 1 else dict.fromkeys(("score", "low", "high", "passed"))
    scores = {name: alone[name] for name in ("score", "low", "high", "passed")}
    return {"name": side.label, "mark": rows[0]["mark"] if len(rows) == 1 else "", **sums, **scores}


# ---- how sides compare


def _comparisons(sides: Sides, lanes: Sequence[Lane], places: dict[TaskKey, int]) -> Iterator[Fields]:
    """Give each pair of sides in both directions, as the page lets a reader take any side as the old one."""
    for old, new in sides.pairs:
        comparison = sides.comparison(old, new)
        parts = [sides.suite_comparison(old, new, lane) for lane in lanes]
        shared: Fields = {
            "headline": headline(comparison),
            "basis": "\n".join(basis_lines(comparison)),
            "left_out": sorted(_left_out(parts, places)),
        }
        for backwards in (False, True):
            ends = (new, old) if backwards else (old, new)
            flags = [_flags(part, at, places, backwards) for at, part in enumerate(parts)]
            yield {
                "old": ends[0],
                "new": ends[1],
                **(shared | {"headline": "", "basis": ""} if backwards else shared),
                "suites": [_change_row(part.suite, backwards) if part else None for part in parts],
                "buckets": [dict(_bucket_changes(part, backwards)) for part in parts],
                "broken": [place for broken, _ in flags for place in broken],
                "mended": [place for _, mended in flags for place in mended],
            }


def _bucket_changes(part: SuiteComparison | None, backwards: bool) -> Iterator[tuple[str, Fields | None]]:
    if part is None:
        return
    yield from ((change.name, _change_row(change, backwards)) for change in part.buckets)
    # A comparison does not test the only bucket of a suite: its change is that of the suite.
    names = {task.bucket for task in part.tasks}
    if not part.buckets and len(names) == 1:
        yield names.pop(), _change_row(part.suite, backwards)


def _change_row(change: Change | None, backwards: bool) -> Fields | None:
    """Give a change over the compared tasks alone; ``says`` is the verdict in words."""
    if change is None:
        return None
    if backwards:
        change = reversed_change(change)
    return {
        "old": change.old,
        "new": change.new,
        "tasks": change.tasks,
        "change": change.change,
        **interval_ends(change.interval),
        "verdict": change.verdict,
        "says": verdict_text(change) if change.testable else "",
        "p": change.p_of_verdict,
        "testable": change.testable,
    }


_REVERSED: dict[Verdict, Verdict] = {"better": "worse", "worse": "better", "not worse": "cannot tell"}


def reversed_change(change: Change) -> Change:
    """Give a change with old and new exchanged: the tests are the same, seen from the other side.

    That new is not worse than old says nothing of the other direction, which stays open.
    """
    interval = change.interval
    return replace(
        change,
        old=change.new,
        new=change.old,
        verdict=_REVERSED.get(change.verdict, change.verdict),
        like_these=change.like_these and _REVERSED.get(change.like_these, change.like_these),
        interval=interval and replace(interval, low=-interval.high, high=-interval.low),
    )


def _left_out(parts: Iterable[SuiteComparison | None], places: dict[TaskKey, int]) -> Iterator[int]:
    """Give the rows of tasks that are on both sides and cannot be compared."""
    names = [{obstacle.task for obstacle in part.obstacles} if part else set() for part in parts]
    yield from (place for (suite, task, _), place in places.items() if task in names[suite])


def _flags(
    part: SuiteComparison | None, suite: int, places: dict[TaskKey, int], backwards: bool
) -> tuple[list[int], list[int]]:
    """Give the rows of tasks of which all old trials passed and no new one did, and of the reverse."""
    rows = {task: place for (at, task, _), place in places.items() if at == suite}
    tasks = part.tasks if part else ()
    broken = [rows[task.task] for task in tasks if task.broken and task.task in rows]
    mended = [rows[task.task] for task in tasks if task.mended and task.task in rows]
    return (mended, broken) if backwards else (broken, mended)


# ---- tasks and trials


def _ordered_trials(sides: Sides, lanes: Sequence[Lane]) -> list[IndexedTrial]:
    """Give all trials: by suite, bucket and task, then by side, then in the order of repetitions."""
    suites = {
        (at, (lane.suite, *who)): number
        for number, lane in enumerate(lanes)
        for at, who in enumerate(lane.whos)
        if who
    }
    trials = [
        IndexedTrial(at, side.run, entry, (suites[at, group_of(entry)], entry.key.task, entry.key.agent))
        for at, side in enumerate(sides.sides)
        for entry in side.entries
    ]
    buckets = [_bucket_order(lane, sides) for lane in lanes]
    # The newest side says in which bucket a task is.
    bucket_of = {trial.task: trial.entry.bucket for trial in trials}

    def order(trial: IndexedTrial) -> tuple[int, int, str, str, int, int]:
        suite, task, agent = trial.task
        at = buckets[suite].get(bucket_of[trial.task], len(buckets[suite]))
        return suite, at, task, agent, trial.side, trial.entry.key.repetition

    return sorted(trials, key=order)


def _bucket_order(lane: Lane, sides: Sides) -> dict[str, int]:
    views = [sides.suite_view(at, lane) for at in reversed(range(len(sides)))]
    names = dict.fromkeys(row.name for view in views if view for row in view.rows)
    return {name: at for at, name in enumerate(names)}


def _task_rows(trials: Sequence[IndexedTrial], sides: Sides, lanes: Sequence[Lane]) -> dict[TaskKey, Fields]:
    rows: dict[TaskKey, Fields] = {}
    cells: dict[tuple[TaskKey, int], list[int]] = {}
    for place, trial in enumerate(trials):
        cells.setdefault((trial.task, trial.side), []).append(place)
        entry = trial.entry
        # The newest side's words stand last, and stay.
        rows[trial.task] = {
            "suite": trial.task[0],
            "bucket": entry.bucket,
            "task": entry.key.task,
            "file": entry.file,
            "tags": list(entry.tags),
            "split": entry.split,
            "sides": [None] * len(sides),
        }
    for (task, side), places in cells.items():
        rows[task]["sides"][side] = _task_cell([trials[place].entry for place in places], places)
    return rows


def _task_cell(entries: Sequence[JournalEntry], places: list[int]) -> Fields:
    scores = decided_scores(entry.score if entry.averaged else None for entry in entries)
    worst = worst_first(entries)
    return {
        "trials": places,
        "score": mean(scores) if scores else None,
        "reason": ending_reason(worst[0]) if worst else "",
    }


def _add_causes(index: Fields, sides: Sides, trials: Sequence[IndexedTrial]) -> None:
    """Add why trials did not pass, and to each trial the numbers of its causes."""
    # By their sides too: a run may stand beside one of its models.
    places = {(trial.side, id(trial.entry)): at for at, trial in enumerate(trials)}
    index["causes"] = []
    for number, cause in enumerate(causes_of([side.entries for side in sides.sides])):
        for side, entries in enumerate(cause.sides):
            for entry in entries:
                index["trials"][places[side, id(entry)]]["causes"].append(number)
        row = cause_json(cause)
        index["causes"].append({**row, "worst": places[row["worst"]["side"], id(cause.worst)]})


class _Numbers:
    """Gives each name a number, in the order in which names come."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def of(self, names: Iterable[str]) -> list[int]:
        return [self.names.setdefault(name, len(self.names)) for name in names]


def _trial_tables(trials: Sequence[IndexedTrial], places: dict[TaskKey, int]) -> Fields:
    """Give the trials' rows, and the names of the tools and graders that they have as numbers."""
    tools, graders = _Numbers(), _Numbers()
    rows = [_trial_row(trial, places[trial.task], tools, graders) for trial in trials]
    return {"trials": rows, "tools": list(tools.names), "graders": list(graders.names)}


def _trial_row(trial: IndexedTrial, task: int, tools: _Numbers, graders: _Numbers) -> Fields:
    """Give a trial's row; its transcript will be ``at`` a place in ``chunk``, None where there is none.

    ``tokens``, ``usd`` and ``seconds`` are what all its ``attempts`` took. ``graders`` did not pass it.
    Whether its judges ``disagree`` stands in its transcript.
    """
    entry, note = trial.entry, trial.entry.note
    return {
        "side": trial.side,
        "task": task,
        "name": entry.key.label,
        "repetition": entry.key.repetition,
        "ending": entry.ending,
        "score": entry.score if entry.averaged else None,
        "limit": entry.limit,
        "cause": entry.cause,
        "reason": ending_reason(entry),
        "undecided": any(grade.score is None for grade in entry.grades),
        "disagree": False,
        "tokens": entry.all_tokens,
        "usd": entry.all_cost_usd,
        "seconds": entry.all_seconds,
        "attempts": entry.attempts,
        "tools": tools.of(entry.called_tools),
        "graders": graders.of(grade.grader for grade in entry.grades if grade.passed is False),
        "causes": [],
        "note": {"looked_at": note.looked_at, "comment": note.comment} if note else None,
        "chunk": None,
        "at": 0,
    }


# ---- how the index travels


def packed_index(index: Fields) -> Fields:
    """Give the index as it travels: the rows of tasks and trials as columns, which are a third as long.

    A task's row has the score of each side alone: its trials, and the reason of the worst, are in theirs.
    """
    tasks = [
        {name: value for name, value in row.items() if name != "sides"}
        | {"scores": [cell and cell["score"] for cell in row["sides"]]}
        for row in index["tasks"]
    ]
    return {**index, "tasks": _columns(tasks), "trials": _columns(index["trials"])}


def _columns(rows: Sequence[Fields]) -> Fields:
    names = rows[0] if rows else ()
    return {"rows": len(rows), "columns": {name: _column([row[name] for row in rows]) for name in names}}


def _column(values: list[Any]) -> Any:
    """Give values as they are, or the one of all rows, or the different ones with a number for each row."""
    if all(value == values[0] for value in values):
        return {"same": values[0]}
    if all(value is None or type(value) in (int, float) for value in values):
        return values
    numbers: dict[object, int] = {}
    different: list[Any] = []
    places = []
    for value in values:
        key = value if isinstance(value, str) else (repr(value),)
        if key not in numbers:
            numbers[key] = len(numbers)
            different.append(value)
        places.append(numbers[key])
    return {"of": different, "at": places} if len(different) <= len(values) / 2 else values

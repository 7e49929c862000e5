"""What the page of a run shows at once: every figure and one row for each task, without transcripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count
from typing import Any

import msgspec
from msgspec.structs import replace

from pytest_agenteval.compare.comparison import SuiteComparison, TaskChange
from pytest_agenteval.compare.pairing import group_of
from pytest_agenteval.compare.scoring.aggregates import decided_scores
from pytest_agenteval.compare.scoring.power import mean
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.explanation import ending_reason
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.trial import Ending
from pytest_agenteval.reports.comparison_text import headline, suite_comparison, verdict_text
from pytest_agenteval.reports.group_statistics import GroupStatistics, TaskName, group_by_task
from pytest_agenteval.reports.leaderboard import suite_entries
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.run_view import RunView, SuiteView, view_of
from pytest_agenteval.reports.run_warnings import run_warnings
from pytest_agenteval.reports.suite_tables import MARK
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run

FORMAT = 1


class RunHead(FrozenValue, frozen=True):
    """What the page shows of a run as a whole; ``warnings`` say what makes its figures doubtful."""

    name: str
    started_at: str
    ended_at: str
    exit_status: int | None
    place: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


class OldFigures(FrozenValue, frozen=True):
    """The old side's mean over the compared tasks."""

    score: float
    tasks: int


class IndexFigures(FrozenValue, frozen=True):
    """The figures of a suite or of a bucket, and of its change, which is over the compared tasks alone.

    Scores and ends of intervals run from 0 to 1; ``passed`` is the mean of tasks' shares of trials that
    passed. ``mark`` is ``*`` where trials lack a grade that only a judge gives, as in every table. ``says``
    is the verdict in words, which may be about these tasks alone.
    """

    name: str
    tasks: int
    trials: int
    planned: int
    errored: int
    mark: str
    score: float | None
    low: float | None
    high: float | None
    passed: float | None
    tokens: float | None
    usd: float | None
    seconds: float | None
    old: OldFigures | None = None
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    verdict: str = ""
    says: str = ""
    p: float | None = None


class IndexSuite(FrozenValue, frozen=True):
    """A suite with one model and variant in one run; ``label`` is unique in the page."""

    suite: str
    label: str
    kind: str
    who: str
    note: str
    run: int
    all: IndexFigures
    buckets: tuple[IndexFigures, ...]


class TrialRow(FrozenValue, frozen=True):
    """One trial: ``at`` is its place in ``chunk``, which is None where its transcript is not in the file.

    ``tokens``, ``usd`` and ``seconds`` are what all its ``attempts`` took, None where it is unknown.
    """

    run: int
    name: str
    repetition: int
    ending: Ending
    score: float | None
    limit: str
    cause: str
    reason: str
    undecided: bool
    tokens: float | None
    usd: float | None
    seconds: float | None
    attempts: int = 1
    disagree: bool = False
    chunk: int | None = None
    at: int = 0


class TaskRow(FrozenValue, frozen=True):
    """One task with one model and variant; ``trials`` and ``old`` are places in the list of all trials.

    ``reason`` is that of its worst trial. ``flag`` names a task whose trials all passed before and none does
    now, or the other way round.
    """

    suite: int
    bucket: str
    task: str
    file: str
    trials: tuple[int, ...]
    old: tuple[int, ...]
    score: float | None
    old_score: float | None
    change: float | None
    flag: str
    reason: str


class ReportIndex(FrozenValue, frozen=True):
    """Everything that the page knows before a trial is opened; compared, the first run is the old one."""

    title: str
    headline: str
    compared: bool
    runs: tuple[RunHead, ...]
    suites: tuple[IndexSuite, ...]
    tasks: tuple[TaskRow, ...]
    trials: list[TrialRow]
    left_out: str = ""
    format: int = FORMAT


def index_json(data: object) -> str:
    """Write the index as JSON in which no text can end the element that it stands in."""
    # HTML looks for `</script` and `<!--` in a script whatever its type; JSON has an escape for `<`.
    return page_json(data).decode().replace("<", "\\u003c")


def page_json(data: object) -> bytes:
    """Write plain data as JSON; half a surrogate pair becomes an escape, as in every other table of a run."""
    # Models send such halves, which UTF-8 cannot hold. They are rare: texts are walked only after a failure.
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(data))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    return [_encodable(inner) for inner in value] if isinstance(value, list | tuple) else value


def row_filters(index: ReportIndex) -> dict[str, int]:
    """Count the tasks that each filter of the page shows, by its name."""
    trials = index.trials

    def count(matches: Callable[[TrialRow], bool]) -> int:
        return sum(any(matches(trials[at]) for at in task.trials) for task in index.tasks)

    counts: dict[str, int] = {}
    if index.compared:
        counts["better"] = sum((task.change or 0) > ROUNDING for task in index.tasks)
        counts["worse"] = sum((task.change or 0) < -ROUNDING for task in index.tasks)
    counts["missed"] = count(lambda trial: trial.ending in ("missed", "failed"))
    counts["errored"] = count(lambda trial: trial.ending == "errored")
    counts["disagree"] = count(lambda trial: trial.disagree)
    counts["undecided"] = count(lambda trial: trial.undecided)
    return counts


class TrialReference(FrozenValue, frozen=True):
    """Where the trial of a row can be read: its run and entry; no run where there are only its figures."""

    run: Run | None
    entry: JournalEntry


def report_index(source: ReportSource) -> tuple[ReportIndex, list[TrialReference]]:
    """Give the page's index and, for each of its trials, where its transcript can be read."""
    views = [view_of(run) for run in source.runs]
    compared = source.comparison is not None
    heads = [_run_head(view) for view in views]
    if source.old_run is not None:
        heads.insert(0, _run_head(view_of(source.old_run)))
    elif source.comparison is not None:
        note = "a baseline's file, which has figures and no transcripts"
        heads.insert(0, RunHead(source.comparison.old, "", "", None, "", (note,), ()))
    trials = _Trials()
    # A suite is named by itself where that is unique on the page, else with its model, else with its run too.
    names = [
        (suite.suite, f"{suite.suite}[{suite.who}]", f"{suite.suite}[{suite.who}] ({view.name})")
        for view in views
        for suite in view.suites
    ]
    times = Counter(name for each in names for name in each[:2])
    labels = [next((name for name in each[:2] if times[name] == 1), each[2]) for each in names]
    suites: list[IndexSuite] = []
    tasks: list[TaskRow] = []
    for at, (run, view) in enumerate(zip(source.runs, views, strict=True), start=int(compared)):
        for suite in view.suites:
            comparison = suite_comparison(source.comparison, suite)
            # A run and its copy share labels, and filters go by labels: the later one is numbered.
            numbers = (f" {number}" if number > 1 else "" for number in count(1))
            others, label = {other.label for other in suites}, labels[len(suites)]
            label += next(number for number in numbers if f"{label}{number}" not in others)
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


def _suite_figures(suite: SuiteView, label: str, run: int, comparison: SuiteComparison | None) -> IndexSuite:
    changes = {change.name: change for change in comparison.buckets} if comparison else {}
    whole = comparison.suite if comparison else None
    return IndexSuite(
        suite=suite.suite,
        label=label,
        kind=suite.kinds,
        who=suite.who,
        note=suite.note,
        run=run,
        all=_figures(suite.total, whole),
        # A comparison does not test the only bucket of a suite: its change is that of the suite.
        buckets=tuple(
            _figures(row, changes.get(row.name) or (whole if len(suite.rows) == 1 else None))
            for row in suite.rows
        ),
    )


def _run_head(view: RunView) -> RunHead:
    return RunHead(
        name=view.name,
        started_at=view.started_at,
        ended_at=view.ended_at,
        exit_status=view.exit_status,
        place=view.path,
        notes=view.notes,
        warnings=tuple(note.text for note in run_warnings(view)),
    )


def _figures(row: GroupStatistics, change: Change | None) -> IndexFigures:
    interval = row.interval
    return IndexFigures(
        name=row.name,
        tasks=row.tasks,
        trials=row.averaged,
        planned=row.planned,
        errored=row.errors,
        mark=MARK if row.unscored and row.mean else "",
        score=row.score,
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
        self.sources: list[TrialReference] = []

    def add(self, number: int, run: Run | None, entries: Iterable[JournalEntry]) -> tuple[int, ...]:
        first = len(self.rows)
        for entry in entries:
            key = entry.key
            self.rows.append(
                TrialRow(
                    run=number,
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
            )
            self.sources.append(TrialReference(run, entry))
        return tuple(range(first, len(self.rows)))


def _task_rows(
    source: ReportSource,
    run: Run,
    suite: SuiteView,
    places: tuple[int, int],
    comparison: SuiteComparison | None,
    trials: _Trials,
) -> Iterator[TaskRow]:
    """Give a row for each task of a suite, in the order of buckets, then of names.

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
        yield _task_row(
            places[0],
            entries,
            trials.add(places[1], run, entries),
            trials.add(0, source.old_run, old.get(name, ())),
            changes.get(name[0]),
        )


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
    """Give the reason of the trial with the lowest score, else of the first that errored, else no text."""
    scored = [entry for entry in entries if entry.averaged and entry.ending != "passed"]
    if scored:
        return ending_reason(min(scored, key=lambda entry: entry.score or 0.0))
    errored = [entry for entry in entries if not entry.averaged]
    return ending_reason(errored[0]) if errored else ""


MOST_ROWS = 10_000
"""Trials from which on a page holds the worst alone: a browser searches no more rows at every letter."""


def select_worst_tasks(
    index: ReportIndex, sources: Sequence[TrialReference]
) -> tuple[ReportIndex, Sequence[TrialReference], str]:
    """Give the part of the index that a browser can search, and a sentence where that is not all of it.

    Figures of suites and buckets stay those of all trials.
    """
    if len(index.trials) <= MOST_ROWS:
        return index, sources, ""
    tasks = [index.tasks[at] for at in _chosen(index)]
    # Tasks name their trials by place in one list, so the places move when trials are left out.
    chosen = sorted(chain.from_iterable((*task.trials, *task.old) for task in tasks))
    places = {old: new for new, old in enumerate(chosen)}
    moved = tuple(
        replace(
            task, trials=tuple(places[at] for at in task.trials), old=tuple(places[at] for at in task.old)
        )
        for task in tasks
    )
    trials = [index.trials[at] for at in chosen]
    listed, of_all = len(tasks), len(index.tasks)
    sentence = (
        f"The list and its filters hold the {listed:,} worst of {of_all:,} tasks; all figures of suites and "
        f"buckets are of all. The other {of_all - listed:,}: agenteval show NAME opens one, "
        "agenteval report RUN -o trials.csv (--rows trials) lists all."
    )
    return replace(index, tasks=moved, trials=trials), [sources[at] for at in chosen], sentence


def _chosen(index: ReportIndex) -> list[int]:
    """Give the places of tasks that fit, in the page's order; suites share the room as equally as can be."""
    # Of tasks that are equally bad the first of each bucket come first. Otherwise all of them could be of one
    # bucket, and a click on another bucket would show no row.
    equals: Counter[tuple[object, ...]] = Counter()
    keys: list[tuple[tuple[int, float], int]] = []
    for task in index.tasks:
        rank = _rank(task, index.trials)
        equals[task.suite, task.bucket, rank] += 1
        keys.append((rank, equals[task.suite, task.bucket, rank]))
    ranked = sorted(range(len(keys)), key=keys.__getitem__)
    taken = [0] * len(index.suites)
    turns: list[tuple[int, int, int]] = []
    for place, at in enumerate(ranked):
        task = index.tasks[at]
        taken[task.suite] += len(task.trials) + len(task.old)
        turns.append((taken[task.suite], place, at))
    room = MOST_ROWS
    chosen: list[int] = []
    # Sorted by how much room each task's suite has used by then: the worst task of every suite comes before
    # the second of any. The very first task always stays, however many trials it has.
    for _, _, at in sorted(turns):
        room -= len(index.tasks[at].trials) + len(index.tasks[at].old)
        if room < 0 and chosen:
            break
        chosen.append(at)
    return sorted(chosen)


def _rank(task: TaskRow, trials: Sequence[TrialRow]) -> tuple[int, float]:
    """Rank a task, low ranks first: errored, then worse, then better than before, then by lowest score."""
    change = task.change or 0.0
    if any(trials[at].ending == "errored" for at in task.trials):
        return 0, 0.0
    if abs(change) > ROUNDING:
        return (1, change) if change < 0 else (2, -change)
    return 3, 2.0 if task.score is None else task.score

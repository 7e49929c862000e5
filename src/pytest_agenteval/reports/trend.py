"""A suite over its last runs: one series for each model and variant, what changed, and suspect tasks.

Whether the newest run is better or worse than the one before it is decided as ``agenteval compare`` does.
A run is let go as soon as it was looked at: a hundred of them would not fit into memory side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from pytest_agenteval.compare.comparison import compare_runs
from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.compare.scoring.aggregates import pass_hat_k
from pytest_agenteval.compare.scoring.intervals import interval_ends
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.records.record import Document, Record, same_fields
from pytest_agenteval.reports.comparison_text import verdict_text
from pytest_agenteval.reports.group_statistics import GroupStatistics
from pytest_agenteval.reports.run_view import (
    SuiteView,
    chose_by_itself,
    entries_by_group,
    model_note,
    suite_views,
)
from pytest_agenteval.reports.suspect_tasks import Suspects, TaskTrials, suspects_among, task_trials
from pytest_agenteval.store.journal_entry import JournalEntry, group_of
from pytest_agenteval.store.run_folder import RunFolder, RunModel
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.json_values import json_digest

CHANGES = {
    "graders": ("ruler",),
    "tasks": ("input", "fixture"),
    "prompt": ("prompt",),
    "agent code": ("code",),
    "model": ("model",),
    "settings": ("settings",),
    "tools": ("tools",),
}
"""What may change between two runs, and the digests of a trial that tell it."""

INCOMPARABLE = frozenset({"graders", "tasks"})
"""Where these changed, scores before and after do not measure the same."""

DIGITS = 4
LEAST_SHARE = 0.5
"""The share of the tasks, and of the planned trials, that a run must have tried to be part of a series."""


class RunChange(Record, frozen=True):
    """What changed since the run before: in how many of the tasks that both tried, and from what to what.

    ``before`` and ``after`` are the first digits of the digests of these tasks, all of them together.
    """

    what: str
    tasks: int
    before: str
    after: str

    @property
    def comparable(self) -> bool:
        """Whether scores before and after measure the same."""
        return self.what not in INCOMPARABLE


class Figures(Record, frozen=True):
    """The mean score and pass^k of a bucket or of all tasks, 0 to 1; None where it is unknown.

    ``low`` and ``high`` are the ends of the score's 95 % interval, None where there are too few tasks.
    """

    score: float | None
    pass_hat_k: float | None
    low: float | None = None
    high: float | None = None


class Point(Record, frozen=True):
    """One run in a series. ``incomplete`` says in words what of the suite it did not try."""

    run: str
    started_at: str
    total: Figures
    buckets: Mapping[str, Figures]
    changes: tuple[RunChange, ...] = ()
    incomplete: str = ""

    @property
    def breaks_line(self) -> bool:
        """Whether scores before this run do not measure the same as its own."""
        return not all(change.comparable for change in self.changes)


class Absence(Record, frozen=True):
    """A run that is left out of a series, and why."""

    run: str
    why: str


class ComparedChange(Record, frozen=True):
    """How all tasks, or those of a bucket, changed between two runs: over the tasks that both have alike.

    ``says`` is the ``verdict`` in words, empty where none is possible; ``low`` and ``high`` are the ends of
    the interval of the ``change``.
    """

    name: str
    tasks: int
    old: float
    new: float
    change: float
    low: float | None
    high: float | None
    verdict: str
    says: str
    p: float
    testable: bool


class SeriesComparison(Record, frozen=True):
    """The newest run of a series compared with the one before it, as ``agenteval compare`` does.

    ``left_out`` counts the tasks that cannot be compared. A suite's only bucket has no change of its own.
    """

    old: str
    new: str
    total: ComparedChange
    buckets: tuple[ComparedChange, ...]
    left_out: int


class Series(Record, frozen=True):
    """A suite with one model and variant, from the oldest run to the newest; ``k`` is that of pass^k.

    ``comparison`` is None where there is nothing to compare: one run, or graders or tasks that changed.
    """

    model: str
    variant: str
    note: str
    k: int
    points: tuple[Point, ...]
    left_out: tuple[Absence, ...] = ()
    comparison: SeriesComparison | None = None

    @property
    def first_comparable(self) -> int:
        """The place of the first point from which on all scores measure the same."""
        breaks = [at for at, point in enumerate(self.points) if point.breaks_line]
        return breaks[-1] if breaks else 0


class Trend(Record, frozen=True):
    """A suite over so many runs, oldest first, and the tasks that they make suspect.

    ``regraded`` are runs in between that graded trials of others again: no agent was tried, and none of
    their trials is counted a second time. ``odd`` says what of the runs could not be read.
    """

    suite: str
    runs: tuple[str, ...]
    series: tuple[Series, ...]
    suspects: Suspects
    regraded: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()


class TrendDocument(Document, frozen=True, kw_only=True):
    """Suites over their last runs, in the order in which they were first run."""

    suites: tuple[Trend, ...]


def suite_names(folders: Iterable[RunFolder]) -> list[str]:
    """Give the suites of these runs, in order of appearance."""
    return list(dict.fromkeys(suite.name for folder in folders for suite in folder.header.suites))


def trends_of(
    folders: Sequence[RunFolder],
    suites: Sequence[str],
    last: int,
    models: Sequence[str] = (),
    variants: Sequence[str] = (),
) -> Iterator[Trend]:
    """Give each suite over its last runs of ``folders``, which come newest first.

    ``models`` and ``variants`` name the wanted ones; empty means all. A run is read once for all suites.
    """
    chosen = {suite: _last_runs(folders, suite, last, models) for suite in suites}
    paths = {suite: {folder.path for folder in own} for suite, own in chosen.items()}
    # Of a hundred runs there are two in memory: the newest ones are compared when all have been looked at.
    read = lru_cache(2)(load_run)
    samples: dict[str, list[Sample]] = defaultdict(list)
    unreadable: dict[str, list[str]] = defaultdict(list)
    for folder in reversed(folders):
        of_run = {suite for suite in suites if folder.path in paths[suite]}
        # A regraded run has the trials of another run again, which would count twice.
        if not of_run or folder.header.regraded:
            continue
        run = read(folder.path)
        groups = entries_by_group(run)
        for view in suite_views(run):
            is_wanted = not models or view.model in models
            if view.suite in of_run and is_wanted and (not variants or view.variant in variants):
                samples[view.suite].append(_sample(run, view, groups[view.group]))
        for suite in of_run:
            unreadable[suite] += [f"{run.folder.name}: {line}" for line in run.odd]
    by_name = {folder.path.name: folder.path for folder in folders}
    for suite, own in chosen.items():
        trend = _trend(suite, samples[suite], own, unreadable[suite])
        series = (_with_comparison(each, suite, lambda name: read(by_name[name])) for each in trend.series)
        yield replace(trend, series=tuple(series))


def _last_runs(folders: Iterable[RunFolder], suite: str, last: int, models: Sequence[str]) -> list[RunFolder]:
    """Give the ``last`` runs of a suite that tried agents, and those in between that graded trials again."""
    chosen: list[RunFolder] = []
    tried = 0
    for folder in folders:
        if tried == last:
            break
        header = folder.header
        of_model = not models or any(model.name in models for model in header.models)
        if of_model and any(of_run.name == suite for of_run in header.suites):
            chosen.append(folder)
            tried += not header.regraded
    return chosen


def _trend(
    suite: str, samples: Sequence[Sample], folders: Iterable[RunFolder], unreadable: Sequence[str]
) -> Trend:
    # `agenteval improve` leaves runs of held-out tasks alone behind: they may be the newest, and have other
    # tasks than a series.
    to_work_with = [sample for sample in samples if not sample.held_out] or samples
    return Trend(
        suite=suite,
        runs=tuple(dict.fromkeys(sample.run for sample in samples)),
        series=tuple(_all_series(samples, to_work_with)),
        suspects=suspects_among([trials for sample in to_work_with for trials in sample.tasks.values()]),
        regraded=tuple(folder.path.name for folder in folders if folder.header.regraded)[::-1],
        odd=tuple(unreadable),
    )


def _with_comparison(series: Series, suite: str, run_of: Callable[[str], Run]) -> Series:
    """Compare the newest run with the one before; the series is as it was where no task is alike in both."""
    if len(series.points) < 2 or series.points[-1].breaks_line:
        return series
    runs = [run_of(point.run) for point in series.points[-2:]]
    who = suite, series.model, series.variant
    old, new = (
        # What models were sent is looked at by `agenteval compare` alone, and moves no verdict.
        replace(
            compared_run(run),
            entries=tuple(entry for entry in run.entries if group_of(entry) == who),
            transcript_of=None,
        )
        for run in runs
    )
    for part in compare_runs(old, new).suites:
        if part.suite is not None:
            comparison = SeriesComparison(
                old=runs[0].folder.name,
                new=runs[1].folder.name,
                total=_compared_change(part.suite),
                buckets=tuple(map(_compared_change, part.buckets)),
                left_out=len({obstacle.task for obstacle in part.obstacles}),
            )
            return replace(series, comparison=comparison)
    return series


def _compared_change(change: Change) -> ComparedChange:
    untested = change.verdict if change.verdict == "identical" else ""
    return ComparedChange(
        **same_fields(change, ("name", "tasks", "old", "new", "change", "verdict", "testable")),
        **interval_ends(change.interval),
        says=verdict_text(change) if change.testable else untested,
        p=change.p_of_verdict,
    )


class Sample(NamedTuple):
    """A suite with one model and variant in one run: its figures, and its tasks with their digests.

    ``digests`` are by name, then by task; an unknown one is left out. ``held_out`` says that all of its tasks
    are held out.
    """

    run: str
    started_at: str
    model: RunModel
    view: SuiteView
    tasks: Mapping[str, TaskTrials]
    digests: Mapping[str, Mapping[str, str]]
    held_out: bool


def _sample(run: Run, view: SuiteView, entries: Sequence[JournalEntry]) -> Sample:
    by_task: dict[str, list[JournalEntry]] = defaultdict(list)
    digests: dict[str, dict[str, str]] = {name: {} for names in CHANGES.values() for name in names}
    for entry in entries:
        by_task[entry.key.task].append(entry)
        for name, of_tasks in digests.items():
            if digest := getattr(entry.digests, name):
                of_tasks[entry.key.task] = digest
    known = {model.name: model for model in run.header.models}
    model = known.get(view.model, RunModel(view.model, view.model))
    is_offline = model.offline and not view.own_models
    return Sample(
        run=run.folder.name,
        started_at=run.header.started_at,
        model=model,
        view=view,
        tasks={task: task_trials(run, model, is_offline, trials) for task, trials in by_task.items()},
        digests=digests,
        held_out={entry.split for entry in entries} == {"held_out"},
    )


def _all_series(samples: Sequence[Sample], to_work_with: Sequence[Sample]) -> Iterator[Series]:
    # The largest set of tasks that a run tried stands for the suite; of equally large ones the newest.
    tasks = max((set(sample.tasks) for sample in reversed(to_work_with)), key=len, default=set())
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.model.name, sample.view.variant), []).append(sample)
    for (model, variant), group in groups.items():
        absences = {sample.run: why for sample in group if (why := _too_little(sample, tasks))}
        present = [sample for sample in group if sample.run not in absences]
        k = min((sample.view.total.k for sample in present), default=1)
        own = list(dict.fromkeys(name for sample in group for name in sample.view.own_models))
        yield Series(
            model=model,
            variant=variant,
            note=", ".join(own) if chose_by_itself(model, own) else model_note(group[-1].model),
            k=k,
            points=tuple(_points(present, tasks, k)),
            left_out=tuple(Absence(run, why) for run, why in absences.items()),
        )


def _too_little(sample: Sample, tasks: set[str]) -> str:
    """Say why a sample covers too little of a suite to be part of its series; empty where it is enough."""
    # Both of tasks, as after -k, and of planned trials: one trial of three that is left of each is no score.
    tried = sum(trials.graded > 0 for task, trials in sample.tasks.items() if task in tasks)
    averaged, planned = sample.view.total.averaged, sample.view.total.planned
    if sample.held_out and not tasks & set(sample.tasks):
        return "held-out tasks only"
    if tried < LEAST_SHARE * len(tasks):
        return f"{tried} of {pluralize(len(tasks), 'task')} graded"
    return "" if averaged >= LEAST_SHARE * planned else f"{averaged} of {pluralize(planned, 'trial')} graded"


def _points(samples: Sequence[Sample], tasks: set[str], k: int) -> Iterator[Point]:
    changes = [(), *(tuple(_changes_between(before, after)) for before, after in pairwise(samples))]
    for sample, of_sample in zip(samples, changes, strict=bool(samples)):
        # What a sample lacks of the suite: tasks that others tried, and trials without a grade.
        total = sample.view.total
        tried, of_planned = len(tasks & set(sample.tasks)), f"of {pluralize(total.planned, 'trial')}"
        parts = [
            f"{tried} of {pluralize(len(tasks), 'task')}" if tried < len(tasks) else "",
            f"{total.errors} {of_planned} errored" if total.errors else "",
            f"{total.not_run} {of_planned} not run" if total.not_run else "",
        ]
        yield Point(
            run=sample.run,
            started_at=sample.started_at,
            total=_figures(total, _pass_hat_k(sample, k)),
            buckets={row.name: _figures(row, _pass_hat_k(sample, k, row.name)) for row in sample.view.rows},
            changes=of_sample,
            incomplete=", ".join(filter(None, parts)),
        )


def _figures(row: GroupStatistics, pass_rate: float | None) -> Figures:
    return Figures(row.score, pass_rate, **interval_ends(row.interval))


def _pass_hat_k(sample: Sample, k: int, bucket: str | None = None) -> float | None:
    """Give the mean over the tasks that have ``k`` averaged trials; None without such a task."""
    # The view has it for the run's own k, which may be larger than that of the series.
    rates = [
        pass_hat_k(trials.graded, trials.passed, k)
        for trials in sample.tasks.values()
        if trials.graded >= k and bucket in (None, trials.bucket)
    ]
    return sum(rates) / len(rates) if rates else None


def _changes_between(before: Sample, after: Sample) -> Iterator[RunChange]:
    """Give what changed in the tasks that both samples tried, first what makes them incomparable."""
    for what, names in CHANGES.items():
        old, new = _together(before, names), _together(after, names)
        # Another number of tasks alone is no other prompt.
        both = sorted(old.keys() & new.keys())
        if changed := sum(old[task] != new[task] for task in both):
            before_digest, after_digest = (_of_all(each, both)[:DIGITS] for each in (old, new))
            yield RunChange(what, changed, before_digest, after_digest)


def _together(sample: Sample, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Give these digests of each task; a task of which none is known is left out."""
    digests = {task: tuple(sample.digests[name].get(task, "") for name in names) for task in sample.tasks}
    return {task: each for task, each in digests.items() if any(each)}


def _of_all(digests: Mapping[str, tuple[str, ...]], tasks: Sequence[str]) -> str:
    """Give the digest that all tasks share, else one digest over all of theirs."""
    distinct = {digests[task] for task in tasks}
    if len(distinct) == 1 and len(only := distinct.pop()) == 1:
        return only[0]
    return json_digest([[task, *digests[task]] for task in tasks])

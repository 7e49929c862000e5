"""A suite over its last runs: one series for each model and variant, what changed, and suspect tasks.

Whether the newest run is better or worse than the one before it is decided as ``agenteval compare`` does.
A run is let go as soon as it was looked at: a hundred of them would not fit into memory side by side.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from pytest_agenteval.compare.scoring.aggregates import pass_hat_k
from pytest_agenteval.graders.judge.verdicts import mean_of_known
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.record import Document, Record
from pytest_agenteval.reports.group_statistics import GroupStatistics
from pytest_agenteval.reports.last_step import LastStep, LastSteps
from pytest_agenteval.reports.run_view import (
    SuiteView,
    chose_by_itself,
    entries_by_group,
    model_note,
    suite_views,
)
from pytest_agenteval.reports.trial_view import StoredVote, stored_votes
from pytest_agenteval.store.journal_entry import JournalEntry
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

BY_CHANCE = 0.05
"""The chance that any task is named as missed by all, or as passed by all, if each passes half the time."""

ORACLE = "oracle"


class Change(Record, frozen=True):
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
    changes: tuple[Change, ...] = ()
    incomplete: str = ""

    @property
    def breaks_line(self) -> bool:
        """Whether scores before this run do not measure the same as its own."""
        return not all(change.comparable for change in self.changes)


class Absence(Record, frozen=True):
    """A run that is left out of a series, and why."""

    run: str
    why: str


class Series(Record, frozen=True):
    """A suite with one model and variant, from the oldest run to the newest; ``k`` is that of pass^k.

    ``last_step`` is None where there is nothing to compare: one run, or graders or tasks that changed.
    """

    model: str
    variant: str
    note: str
    k: int
    points: tuple[Point, ...]
    left_out: tuple[Absence, ...] = ()
    last_step: LastStep | None = None

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


class Suspect(Record, frozen=True):
    """A task, and the counts that make it suspect: ``part`` of ``whole``, in so many runs, with these models.

    ``remark`` says in words what else is known.
    """

    task: str
    part: int
    whole: int
    runs: int
    models: tuple[str, ...]
    remark: str = ""


class Suspects(Record, frozen=True):
    """Tasks that runs make suspect, the most suspect first.

    ``missed``: no trial of a real model passed, nor one of ``oracle``; passes of ``whole`` trials.
    ``only_oracle``: no trial of a real model passed, but ``oracle`` did.
    ``judges_split``: several judges voted, and by some the trial passes and by others not.
    ``unsteady``: in one run, with one model, some repetitions passed and some did not.
    ``saturated``: every trial of every real model passed.

    ``real`` and ``offline`` name the models, ``trials`` counts graded trials of real ones. ``enough`` are the
    trials that a task takes to be missed or saturated; ``too_few`` tasks have fewer.
    """

    missed: tuple[Suspect, ...]
    only_oracle: tuple[Suspect, ...]
    judges_split: tuple[Suspect, ...]
    unsteady: tuple[Suspect, ...]
    saturated: tuple[Suspect, ...]
    real: tuple[str, ...]
    offline: tuple[str, ...]
    trials: int
    too_few: int
    enough: int


def suite_names(folders: Iterable[RunFolder]) -> list[str]:
    """Give the suites of these runs, in order of appearance."""
    return list(dict.fromkeys(suite.name for folder in folders for suite in folder.header.suites))


def last_runs(
    folders: Sequence[RunFolder], suite: str, last: int, models: Sequence[str] = ()
) -> list[RunFolder]:
    """Give the last runs of a suite, oldest first, with those in between that graded trials of others again.

    ``folders`` come newest first. Of ``last`` runs only those count that tried agents.
    """
    # Counted while going back from the newest: regraded runs in between are named, but are none of the N.
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
    return chosen[::-1]


def trend_of(
    folders: Sequence[RunFolder], suite: str, models: Sequence[str] = (), variants: Sequence[str] = ()
) -> Trend:
    """Read these runs of a suite, oldest first, and put them into series; no two are in memory at once.

    ``models`` and ``variants`` name the wanted ones; empty means all.
    """
    samples: list[Sample] = []
    unreadable: list[str] = []
    for folder in folders:
        # A regraded run has the trials of another run again, which would count twice.
        if not folder.header.regraded:
            run = load_run(folder.path)
            groups = entries_by_group(run)
            samples += [
                _sample(run, view, groups[view.group])
                for view in suite_views(run)
                if view.suite == suite
                and (not models or view.model in models)
                and (not variants or view.variant in variants)
            ]
            unreadable += [f"{run.folder.name}: {line}" for line in run.odd]
    # `agenteval improve` leaves runs of held-out tasks alone behind: they may be the newest, and have other
    # tasks than a series.
    to_work_with = [sample for sample in samples if not sample.held_out] or samples
    steps = LastSteps(suite, folders)
    return Trend(
        suite=suite,
        runs=tuple(dict.fromkeys(sample.run for sample in samples)),
        series=tuple(_with_last_step(series, steps) for series in _all_series(samples, to_work_with)),
        suspects=_suspects_among(to_work_with),
        regraded=tuple(folder.path.name for folder in folders if folder.header.regraded),
        odd=tuple(unreadable),
    )


def _with_last_step(series: Series, steps: LastSteps) -> Series:
    if len(series.points) < 2 or series.points[-1].breaks_line:
        return series
    old, new = (point.run for point in series.points[-2:])
    return replace(series, last_step=steps.compare(old, new, series.model, series.variant))


class TaskTally(NamedTuple):
    """How a task's trials in one run ended: ``averaged`` of ``trials`` were graded, and ``passed`` passed.

    Several judges voted on ``judged`` trials; on ``split`` of them they disagreed whether the trial passes.
    """

    bucket: str
    trials: int
    averaged: int
    passed: int
    judged: int
    split: int


class Sample(NamedTuple):
    """A suite with one model and variant in one run: its figures, and its tasks with their digests.

    ``digests`` are by name, then by task; an unknown one is left out. ``held_out`` says that all of its tasks
    are held out.
    """

    run: str
    started_at: str
    model: RunModel
    view: SuiteView
    tasks: Mapping[str, TaskTally]
    digests: Mapping[str, Mapping[str, str]]
    held_out: bool

    @property
    def offline(self) -> bool:
        """Whether no LLM was called: what such a model misses says nothing about a task."""
        return self.model.offline and not self.view.own_models


def _sample(run: Run, view: SuiteView, entries: Sequence[JournalEntry]) -> Sample:
    by_task: dict[str, list[JournalEntry]] = defaultdict(list)
    digests: dict[str, dict[str, str]] = {name: {} for names in CHANGES.values() for name in names}
    for entry in entries:
        by_task[entry.key.task].append(entry)
        for name, of_tasks in digests.items():
            if digest := getattr(entry.digests, name):
                of_tasks[entry.key.task] = digest
    known = {model.name: model for model in run.header.models}
    return Sample(
        run=run.folder.name,
        started_at=run.header.started_at,
        model=known.get(view.model, RunModel(view.model, view.model)),
        view=view,
        tasks={task: _tally(run, trials) for task, trials in by_task.items()},
        digests=digests,
        held_out={entry.split for entry in entries} == {"held_out"},
    )


def _tally(run: Run, trials: Sequence[JournalEntry]) -> TaskTally:
    averaged = [entry for entry in trials if entry.averaged]
    # Only several judges can disagree, and only for their votes a transcript is read.
    judged = [entry for entry in averaged if len(run.header.judges) > 1 and entry.judging.asks]
    splits = [split for entry in judged if (split := _is_split(run, entry)) is not None]
    passed = sum(entry.ending == "passed" for entry in averaged)
    return TaskTally(trials[0].bucket, len(trials), len(averaged), passed, len(splits), sum(splits))


def _is_split(run: Run, entry: JournalEntry) -> bool | None:
    """Whether judges disagreed if a trial passes; None where fewer than two could tell."""
    trial = run.trial_if_readable(entry)
    grades = trial.grades if trial else ()
    verdicts = [_judges_verdicts(stored_votes(grade), grade.threshold) for grade in grades]
    of_several = [set(passes) for passes in verdicts if len(passes) > 1]
    return any(len(passes) > 1 for passes in of_several) if of_several else None


def _judges_verdicts(votes: Iterable[StoredVote], threshold: float) -> list[bool]:
    """Give for each judge that could tell whether the grade would pass with this judge alone."""
    # Scores of several candidates that were compared are no verdict on one of them.
    scores = [[each for each in vote.scores.values() if not isinstance(each, Mapping)] for vote in votes]
    means = [mean_of_known(each) for each in scores]
    return [mean >= threshold - ROUNDING for mean in means if mean is not None]


class _TriedTask(NamedTuple):
    """A task in each sample in which some trial of it is averaged."""

    task: str
    pairs: Sequence[tuple[Sample, TaskTally]]

    def where(self, fits: Callable[[Sample, TaskTally], bool]) -> _TriedTask:
        return _TriedTask(self.task, [pair for pair in self.pairs if fits(*pair)])

    @property
    def trials(self) -> int:
        return sum(tally.averaged for _, tally in self.pairs)

    @property
    def passed(self) -> int:
        return sum(tally.passed for _, tally in self.pairs)

    def suspect(self, part: int, whole: int, remark: str = "") -> Suspect:
        runs = len({sample.run for sample, _ in self.pairs})
        return Suspect(self.task, part, whole, runs, _models(sample for sample, _ in self.pairs), remark)


def _suspects_among(samples: Sequence[Sample]) -> Suspects:
    """Look at every task of these samples, which may be of whole runs or of parts."""
    by_task: dict[str, list[tuple[Sample, TaskTally]]] = {}
    for sample in samples:
        for task, tally in sample.tasks.items():
            if tally.averaged:
                by_task.setdefault(task, []).append((sample, tally))
    tried = [_TriedTask(task, pairs) for task, pairs in by_task.items()]
    # Rule-based models that miss every task prove nothing against one, but may speak for it.
    real = [task.where(lambda sample, _: not sample.offline) for task in tried]
    enough = trials_that_exclude_chance(sum(bool(task.pairs) for task in real))
    counted = [(task, own) for task, own in zip(tried, real, strict=True) if own.trials >= enough]
    missed = [
        (task, own.suspect(0, own.trials, _offline_remark(task))) for task, own in counted if not own.passed
    ]
    solved = {
        task.task
        for task in tried
        if task.where(lambda sample, tally: sample.model.id == ORACLE and tally.passed > 0).pairs
    }
    always = [own.suspect(own.passed, own.trials) for _, own in counted if own.passed == own.trials]
    return Suspects(
        missed=_most_first(suspect for task, suspect in missed if task.task not in solved),
        only_oracle=_most_first(suspect for task, suspect in missed if task.task in solved),
        judges_split=_most_first(filter(None, map(_split, tried)), by=lambda each: each.part / each.whole),
        unsteady=_most_first(filter(None, map(_unsteady, tried)), by=lambda each: each.part),
        saturated=_most_first(always),
        real=_models(sample for sample in samples if not sample.offline),
        offline=_models(sample for sample in samples if sample.offline),
        trials=sum(task.trials for task in real),
        too_few=sum(0 < task.trials < enough for task in real),
        enough=enough,
    )


def trials_that_exclude_chance(tasks: int) -> int:
    """Give how many trials of a task must all miss to exclude chance, where this many tasks are looked at.

    That is 7 trials of 4 tasks, 10 of 41, 11 of 91.
    """
    # A task that passes in half of its trials misses n of n with the chance 1 / 2^n. The chance that any of
    # the tasks does so is at most the sum over all of them (Bonferroni), which must not exceed BY_CHANCE.
    return math.ceil(math.log2(max(tasks, 1) / BY_CHANCE))


def _offline_remark(task: _TriedTask) -> str:
    """Say how offline models did."""

    def count(name: str) -> str:
        of_model = task.where(lambda sample, _: sample.model.name == name)
        return f"{name} passed {of_model.passed} of {of_model.trials}"

    return ", ".join(map(count, _models(sample for sample, _ in task.pairs if sample.offline)))


def _split(task: _TriedTask) -> Suspect | None:
    judged = task.where(lambda _, tally: tally.judged > 0)
    split = sum(tally.split for _, tally in judged.pairs)
    return judged.suspect(split, sum(tally.judged for _, tally in judged.pairs)) if split else None


def _unsteady(task: _TriedTask) -> Suspect | None:
    """Count the runs in which repetitions of a task with one model end differently, of all with the model."""
    unlike = task.where(lambda _, tally: 0 < tally.passed < tally.averaged)
    models = _models(sample for sample, _ in unlike.pairs)
    repeated = task.where(lambda sample, tally: tally.averaged > 1 and sample.model.name in models)
    remark = f"{repeated.passed} of {repeated.trials} trials passed"
    return unlike.suspect(len(unlike.pairs), len(repeated.pairs), remark) if unlike.pairs else None


def _most_first(
    suspects: Iterable[Suspect], by: Callable[[Suspect], float] = lambda each: each.whole
) -> tuple[Suspect, ...]:
    return tuple(sorted(suspects, key=lambda each: (-by(each), -each.whole, each.task)))


def _models(samples: Iterable[Sample]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sample.model.name for sample in samples))


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
    tried = sum(tally.averaged > 0 for task, tally in sample.tasks.items() if task in tasks)
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
    interval = row.interval
    return Figures(row.score, pass_rate, *((interval.low, interval.high) if interval else (None, None)))


def _pass_hat_k(sample: Sample, k: int, bucket: str | None = None) -> float | None:
    """Give the mean over the tasks that have ``k`` averaged trials; None without such a task."""
    # The view has it for the run's own k, which may be larger than that of the series.
    rates = [
        pass_hat_k(tally.averaged, tally.passed, k)
        for tally in sample.tasks.values()
        if tally.averaged >= k and bucket in (None, tally.bucket)
    ]
    return sum(rates) / len(rates) if rates else None


def _changes_between(before: Sample, after: Sample) -> Iterator[Change]:
    """Give what changed in the tasks that both samples tried, first what makes them incomparable."""
    for what, names in CHANGES.items():
        old, new = _together(before, names), _together(after, names)
        # Another number of tasks alone is no other prompt.
        both = sorted(old.keys() & new.keys())
        if changed := sum(old[task] != new[task] for task in both):
            before_digest, after_digest = (_of_all(each, both)[:DIGITS] for each in (old, new))
            yield Change(what, changed, before_digest, after_digest)


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

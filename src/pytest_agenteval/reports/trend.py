"""A suite over its last runs: one series for each model and variant, what changed, and suspect tasks.

A series is for looking, not for verdicts: whether one run is better than another says ``agenteval compare``.
A run is let go as soon as it was looked at: a hundred of them would not fit into memory side by side.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.compare.scoring.aggregates import pass_hat_k
from pytest_agenteval.compare.scoring.intervals import mean_over_tasks
from pytest_agenteval.graders.judge.verdicts import mean_of_known
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.record import Document, FrozenValue, Record
from pytest_agenteval.reports.run_view import chose_by_itself, model_note
from pytest_agenteval.store.journal_entry import JournalEntry, own_models_of
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

DigestsByTask = Mapping[str, Mapping[str, str]]
"""By the name of a digest, ``prompt`` say, that of each task."""


class TaskTally(FrozenValue, frozen=True):
    """How a task's trials in one run ended: ``averaged`` of ``trials`` were graded, and ``passed`` passed.

    Several judges voted on ``judged`` trials; on ``split`` of them they disagreed whether the trial passes.
    """

    bucket: str
    trials: int
    averaged: int
    passed: int
    judged: int = 0
    split: int = 0


class Sample(FrozenValue, frozen=True):
    """A suite with one model and variant in one run.

    ``planned`` counts trials, ``k`` is the number of repetitions of the task that has fewest. ``score`` and
    ``buckets`` are mean scores, 0 to 1, as every report of the run has them; None where no trial is averaged.
    ``held_out`` says that all of its tasks are held out; ``own_models`` are those that an agent called by
    itself.
    """

    run: str
    started_at: str
    model: RunModel
    variant: str
    planned: int
    k: int
    tasks: Mapping[str, TaskTally]
    score: float | None
    buckets: Mapping[str, float | None]
    digests: DigestsByTask
    held_out: bool = False
    own_models: tuple[str, ...] = ()

    @property
    def offline(self) -> bool:
        """Whether no LLM was called: what such a model misses says nothing about a task."""
        return self.model.offline and not self.own_models

    @property
    def note(self) -> str:
        return model_note(self.model)

    @property
    def tried(self) -> set[str]:
        """The tasks of which at least one trial is averaged."""
        return {task for task, tally in self.tasks.items() if tally.averaged}


def _samples_of(run: Run, suite: str, models: Sequence[str], variants: Sequence[str]) -> Iterator[Sample]:
    """Give a sample for each model and variant with which the run tried the suite.

    ``models`` and ``variants`` name the wanted ones; empty means all. Transcripts are read only of trials
    that several judges voted on.
    """
    groups: dict[tuple[str, str], list[JournalEntry]] = {
        (group.model, group.variant): [] for group in run.planned if group.suite == suite
    }
    for entry in run.entries:
        if entry.key.suite == suite:
            groups.setdefault((entry.key.model, entry.key.variant), []).append(entry)
    for (model, variant), entries in groups.items():
        if (not models or model in models) and (not variants or variant in variants):
            yield _sample(run, suite, model, variant, entries)


def _sample(run: Run, suite: str, model: str, variant: str, entries: Sequence[JournalEntry]) -> Sample:
    planned = [
        group for group in run.planned if (group.suite, group.model, group.variant) == (suite, model, variant)
    ]
    by_task: dict[str, list[JournalEntry]] = defaultdict(list)
    for entry in entries:
        by_task[entry.key.task].append(entry)
    tasks = {task: _tally(run, trials) for task, trials in by_task.items()}
    repetitions = [group.repetitions for group in planned] or [tally.trials for tally in tasks.values()]
    buckets: dict[str, list[JournalEntry]] = {group.bucket: [] for group in planned}
    for entry in entries:
        buckets.setdefault(entry.bucket, []).append(entry)
    return Sample(
        run=run.folder.name,
        started_at=run.header.started_at,
        model=next((each for each in run.header.models if each.name == model), RunModel(model, model)),
        variant=variant,
        planned=max(sum(group.trials for group in planned), len(entries)),
        k=min(repetitions, default=1),
        tasks=tasks,
        score=_mean(entries),
        buckets={bucket: _mean(of_bucket) for bucket, of_bucket in buckets.items()},
        digests=_digests(entries),
        held_out={entry.split for entry in entries} == {"held_out"},
        own_models=own_models_of(entries),
    )


def _mean(entries: Iterable[JournalEntry]) -> float | None:
    estimate = mean_over_tasks(
        ((entry.key.task, entry.key.agent), entry.score) for entry in entries if entry.averaged
    )
    return estimate.mean if estimate else None


def _digests(entries: Iterable[JournalEntry]) -> DigestsByTask:
    """Give the digests of each task by the digest's name; an unknown one is left out."""
    by_name: dict[str, dict[str, str]] = {name: {} for names in CHANGES.values() for name in names}
    for entry in entries:
        for name, by_task in by_name.items():
            digest = getattr(entry.digests, name)
            # Most digests are the same in every run: of equal texts one stays in memory.
            if digest:
                by_task[entry.key.task] = intern(digest)
    return by_name


def _tally(run: Run, trials: Sequence[JournalEntry]) -> TaskTally:
    averaged = [entry for entry in trials if entry.averaged]
    # Only several judges can disagree, and only for their votes a transcript is read.
    judged = [entry for entry in averaged if len(run.header.judges) > 1 and entry.judging.asks]
    splits = Counter(filter(None, (_vote(run, entry) for entry in judged)))
    return TaskTally(
        bucket=intern(trials[0].bucket),
        trials=len(trials),
        averaged=len(averaged),
        passed=sum(entry.ending == "passed" for entry in averaged),
        judged=splits.total(),
        split=splits["split"],
    )


def _vote(run: Run, entry: JournalEntry) -> str:
    """Say whether judges ``agreed`` on a trial or ``split``; empty where fewer than two could tell."""
    trial = run.trial_if_readable(entry)
    verdicts = [
        _judges_verdicts(grade.details["judgement"], grade.threshold)
        for grade in (trial.grades if trial else ())
        if "judgement" in grade.details
    ]
    of_several = [passes for passes in verdicts if len(passes) > 1]
    if not of_several:
        return ""
    return "split" if any(len(set(passes)) > 1 for passes in of_several) else "agreed"


def _judges_verdicts(judgement: Mapping[str, Any], threshold: float) -> list[bool]:
    """Give for each judge that could tell whether the grade would pass with this judge alone.

    ``judgement`` is what ``Judgement.as_details`` gives.
    """
    votes = [vote["scores"].values() for vote in judgement["votes"]]
    # Scores of several candidates that were compared are no verdict on one of them.
    of_one = [vote for vote in votes if not any(isinstance(score, Mapping) for score in vote)]
    means = [mean_of_known(vote) for vote in of_one]
    return [mean >= threshold - ROUNDING for mean in means if mean is not None]


BY_CHANCE = 0.05
"""The chance that any task is named as missed by all, or as passed by all, if each passes half the time."""

ORACLE = "oracle"


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


Tried = Sequence[tuple[Sample, TaskTally]]
"""A task in each sample that tried it."""


def _suspects_among(samples: Sequence[Sample]) -> Suspects:
    """Look at every task of these samples, which may be of whole runs or of parts."""
    by_task: dict[str, list[tuple[Sample, TaskTally]]] = {}
    for sample in samples:
        for task, tally in sample.tasks.items():
            if tally.averaged:
                by_task.setdefault(task, []).append((sample, tally))
    # Rule-based models that miss every task prove nothing against one.
    real = {task: [pair for pair in tried if not pair[0].offline] for task, tried in by_task.items()}
    enough = trials_that_exclude_chance(sum(map(bool, real.values())))
    counted = {task: tried for task, tried in real.items() if _trials(tried) >= enough}
    missed = [_suspect(task, tried) for task, tried in counted.items() if not _passed(tried)]
    solved = {
        task
        for task, tried in by_task.items()
        if any(tally.passed for sample, tally in tried if sample.model.id == ORACLE)
    }
    remarked = [_with_remark(each, by_task[each.task]) for each in missed]
    split = filter(None, map(_split, by_task, by_task.values()))
    unsteady = filter(None, map(_unsteady, by_task, by_task.values()))
    return Suspects(
        missed=_most_first(each for each in remarked if each.task not in solved),
        only_oracle=_most_first(each for each in remarked if each.task in solved),
        judges_split=_most_first(split, by=lambda each: each.part / each.whole),
        unsteady=_most_first(unsteady, by=lambda each: each.part),
        saturated=_most_first(
            _suspect(task, tried) for task, tried in counted.items() if _passed(tried) == _trials(tried)
        ),
        real=_models(sample for sample in samples if not sample.offline),
        offline=_models(sample for sample in samples if sample.offline),
        trials=sum(map(_trials, real.values())),
        too_few=sum(0 < _trials(tried) < enough for tried in real.values()),
        enough=enough,
    )


def trials_that_exclude_chance(tasks: int) -> int:
    """Give how many trials of a task must all miss to exclude chance, where this many tasks are looked at.

    That is 7 trials of 4 tasks, 10 of 41, 11 of 91.
    """
    # A task that passes in half of its trials misses n of n with the chance 1 / 2^n. The chance that any of
    # the tasks does so is at most the sum over all of them (Bonferroni), which must not exceed BY_CHANCE.
    return math.ceil(math.log2(max(tasks, 1) / BY_CHANCE))


def _suspect(task: str, tried: Tried) -> Suspect:
    return Suspect(task, _passed(tried), _trials(tried), _runs(tried), _models(pair[0] for pair in tried))


def _split(task: str, tried: Tried) -> Suspect | None:
    judged = [(sample, tally) for sample, tally in tried if tally.judged]
    split = sum(tally.split for _, tally in judged)
    if not split:
        return None
    whole = sum(tally.judged for _, tally in judged)
    return Suspect(task, split, whole, _runs(judged), _models(pair[0] for pair in judged))


def _unsteady(task: str, tried: Tried) -> Suspect | None:
    """Count the runs in which repetitions of a task with one model end differently, of all with the model."""
    unlike = [(sample, tally) for sample, tally in tried if 0 < tally.passed < tally.averaged]
    models = _models(pair[0] for pair in unlike)
    repeated = [pair for pair in tried if pair[1].averaged > 1 and pair[0].model.name in models]
    if not unlike:
        return None
    remark = f"{_passed(repeated)} of {_trials(repeated)} trials passed"
    return Suspect(task, len(unlike), len(repeated), _runs(unlike), models, remark)


def _with_remark(suspect: Suspect, tried: Tried) -> Suspect:
    """Add how offline models did: they prove nothing against a task, but may speak for it."""
    offline: dict[str, list[tuple[Sample, TaskTally]]] = defaultdict(list)
    for sample, tally in tried:
        if sample.offline:
            offline[sample.model.name].append((sample, tally))
    counts = (f"{name} passed {_passed(pairs)} of {_trials(pairs)}" for name, pairs in offline.items())
    return replace(suspect, remark=", ".join(counts))


def _most_first(
    suspects: Iterable[Suspect], by: Callable[[Suspect], float] = lambda each: each.whole
) -> tuple[Suspect, ...]:
    return tuple(sorted(suspects, key=lambda each: (-by(each), -each.whole, each.task)))


def _trials(tried: Tried) -> int:
    return sum(tally.averaged for _, tally in tried)


def _passed(tried: Tried) -> int:
    return sum(tally.passed for _, tally in tried)


def _runs(tried: Tried) -> int:
    return len({sample.run for sample, _ in tried})


def _models(samples: Iterable[Sample]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sample.model.name for sample in samples))


INCOMPARABLE = frozenset({"graders", "tasks"})
"""Where these changed, scores before and after do not measure the same."""

DIGITS = 4
LEAST_SHARE = 0.5
"""The share of the tasks, and of the planned trials, that a run must have tried to be part of a series."""


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
    """The mean score and pass^k of a bucket or of all tasks, 0 to 1; None where it is unknown."""

    score: float | None
    pass_hat_k: float | None


class Point(Record, frozen=True):
    """One run in a series. ``incomplete`` says in words what of the suite it did not try."""

    run: str
    started_at: str
    total: Figures
    buckets: Mapping[str, Figures]
    changes: tuple[Change, ...] = ()
    incomplete: str = ""


class Absence(Record, frozen=True):
    """A run that is left out of a series, and why."""

    run: str
    why: str


class Series(Record, frozen=True):
    """A suite with one model and variant, from the oldest run to the newest; ``k`` is that of pass^k."""

    model: str
    variant: str
    note: str
    k: int
    points: tuple[Point, ...]
    left_out: tuple[Absence, ...] = ()


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
    """Read these runs of a suite, oldest first, and put them into series; no two are in memory at once."""
    samples: list[Sample] = []
    unreadable: list[str] = []
    for folder in folders:
        # A regraded run has the trials of another run again, which would count twice.
        if not folder.header.regraded:
            run = load_run(folder.path)
            samples += _samples_of(run, suite, models, variants)
            unreadable += [f"{run.folder.name}: {line}" for line in run.odd]
    return Trend(
        suite=suite,
        runs=tuple(dict.fromkeys(sample.run for sample in samples)),
        series=tuple(_all_series(samples)),
        suspects=_suspects_among(_to_work_with(samples)),
        regraded=tuple(folder.path.name for folder in folders if folder.header.regraded),
        odd=tuple(unreadable),
    )


def _all_series(samples: Sequence[Sample]) -> Iterator[Series]:
    # The largest set of tasks that a run tried stands for the suite; of equally large ones the newest.
    tasks = max((set(sample.tasks) for sample in reversed(_to_work_with(samples))), key=len, default=set())
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.model.name, sample.variant), []).append(sample)
    for (model, variant), group in groups.items():
        absences = [(sample, why) for sample in group if (why := _too_little(sample, tasks))]
        absent = {sample.run for sample, _ in absences}
        present = [sample for sample in group if sample.run not in absent]
        k = min((sample.k for sample in present), default=1)
        own = list(dict.fromkeys(name for sample in group for name in sample.own_models))
        yield Series(
            model=model,
            variant=variant,
            note=", ".join(own) if chose_by_itself(model, own) else group[-1].note,
            k=k,
            points=tuple(_points(present, tasks, k)),
            left_out=tuple(Absence(sample.run, why) for sample, why in absences),
        )


def _to_work_with(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Leave out the samples of held-out tasks, unless there are no others."""
    # `agenteval improve` leaves such runs behind: they may be the newest, and have other tasks than a series.
    return [sample for sample in samples if not sample.held_out] or samples


def _too_little(sample: Sample, tasks: set[str]) -> str:
    """Say why a sample covers too little of a suite to be part of its series; empty where it is enough."""
    # Both of tasks, as after -k, and of planned trials: one trial of three that is left of each is no score.
    tried, averaged = len(sample.tried & tasks), sum(tally.averaged for tally in sample.tasks.values())
    if sample.held_out and not tasks & set(sample.tasks):
        return "held-out tasks only"
    if tried < LEAST_SHARE * len(tasks):
        return f"{tried} of {pluralize(len(tasks), 'task')} graded"
    if averaged < LEAST_SHARE * sample.planned:
        return f"{averaged} of {pluralize(sample.planned, 'trial')} graded"
    return ""


def _points(samples: Sequence[Sample], tasks: set[str], k: int) -> Iterator[Point]:
    for number, sample in enumerate(samples):
        # What a sample lacks of the suite: tasks that others tried, and trials without a grade.
        finished = sum(tally.trials for tally in sample.tasks.values())
        errored = finished - sum(tally.averaged for tally in sample.tasks.values())
        tried, not_run = len(tasks & set(sample.tasks)), sample.planned - finished
        parts = [
            f"{tried} of {pluralize(len(tasks), 'task')}" if tried < len(tasks) else "",
            f"{errored} of {pluralize(sample.planned, 'trial')} errored" if errored else "",
            f"{not_run} of {pluralize(sample.planned, 'trial')} not run" if not_run else "",
        ]
        yield Point(
            run=sample.run,
            started_at=sample.started_at,
            total=Figures(sample.score, _pass_hat_k(sample, k)),
            buckets={
                bucket: Figures(score, _pass_hat_k(sample, k, bucket))
                for bucket, score in sample.buckets.items()
            },
            changes=tuple(_changes_between(samples[number - 1], sample)) if number else (),
            incomplete=", ".join(filter(None, parts)),
        )


def _pass_hat_k(sample: Sample, k: int, bucket: str | None = None) -> float | None:
    """Give the mean over the tasks that have ``k`` averaged trials; None without such a task."""
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
        changed = sum(old[task] != new[task] for task in both)
        if changed:
            old_digest, new_digest = _of_all(old, both), _of_all(new, both)
            # The first digits, as many as tell the two apart.
            digits = DIGITS
            while old_digest[:digits] == new_digest[:digits] and digits < max(
                map(len, (old_digest, new_digest))
            ):
                digits += 1
            yield Change(what, changed, old_digest[:digits], new_digest[:digits])


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

"""What one stored run says of a suite with one model and variant, as little of it as a trend needs.

A run is let go as soon as it was looked at: a hundred of them would not fit into memory side by side.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import Any

from pytest_agenteval.compare.scoring.intervals import mean_over_tasks
from pytest_agenteval.graders.judge.aggregation import mean_of_known
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.view import model_note
from pytest_agenteval.store.journal_entry import JournalEntry, own_models_of
from pytest_agenteval.store.run_metadata import RunHeader, RunModel
from pytest_agenteval.store.run_reader import Run

ROUNDING = 1e-9
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
    """How a task's trials in one run ended: ``averaged`` of ``trials`` were graded, so many of them passed.

    Of ``judged`` trials, which several judges voted on, ``split`` had judges who disagree whether it passes.
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
    ``held_out`` says that it is of held-out tasks alone; ``own_models`` are those that an
    agent asked by itself.
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
        """Whether no LLM was asked: what such a model misses says nothing of a task."""
        return self.model.offline and not self.own_models

    @property
    def note(self) -> str:
        """What an offline model does; empty for a real one."""
        return model_note(self.model)

    @property
    def tried(self) -> set[str]:
        """The tasks of which at least one trial is averaged."""
        return {task for task, tally in self.tasks.items() if tally.averaged}


def samples_of(run: Run, suite: str, models: Sequence[str], variants: Sequence[str]) -> Iterator[Sample]:
    """Give a sample for each model and variant with which the run tried the suite.

    ``models`` and ``variants`` name those that are wanted; none means all. Transcripts are read only of
    trials that several judges voted on.
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
    tasks = _tallies(run, entries)
    repetitions = [group.repetitions for group in planned] or [tally.trials for tally in tasks.values()]
    buckets: dict[str, list[JournalEntry]] = {group.bucket: [] for group in planned}
    for entry in entries:
        buckets.setdefault(entry.bucket, []).append(entry)
    return Sample(
        run=run.folder.name,
        started_at=run.header.started_at,
        model=_run_model(run.header, model),
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


def _run_model(header: RunHeader, name: str) -> RunModel:
    return next((model for model in header.models if model.name == name), RunModel(name, name))


def _mean(entries: Iterable[JournalEntry]) -> float | None:
    """Give the mean score as the tables of a run have it."""
    estimate = mean_over_tasks(
        ((entry.key.task, entry.key.agent), entry.score) for entry in entries if entry.averaged
    )
    return estimate.mean if estimate else None


def _digests(entries: Iterable[JournalEntry]) -> DigestsByTask:
    """Give what the trials of each task were made of; what is not known of any is left out."""
    by_name: dict[str, dict[str, str]] = {name: {} for names in CHANGES.values() for name in names}
    for entry in entries:
        for name, by_task in by_name.items():
            digest = getattr(entry.digests, name)
            if digest:
                by_task[entry.key.task] = intern(digest)  # most are the same in every run
    return by_name


def _tallies(run: Run, entries: Iterable[JournalEntry]) -> dict[str, TaskTally]:
    by_task: dict[str, list[JournalEntry]] = defaultdict(list)
    for entry in entries:
        by_task[entry.key.task].append(entry)
    several_judges = len(run.header.judges) > 1
    return {task: _tally(run, trials, several_judges) for task, trials in by_task.items()}


def _tally(run: Run, trials: Sequence[JournalEntry], several_judges: bool) -> TaskTally:
    averaged = [entry for entry in trials if entry.averaged]
    judged = [entry for entry in averaged if several_judges and entry.judging.asks]
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
    """Say whether judges ``agreed`` on a trial or ``split``; nothing where fewer than two could tell."""
    trial = run.trial_if_readable(entry)
    verdicts = [
        judges_verdicts(grade.details["judgement"], grade.threshold)
        for grade in (trial.grades if trial else ())
        if "judgement" in grade.details
    ]
    of_several = [passes for passes in verdicts if len(passes) > 1]
    if not of_several:
        return ""
    return "split" if any(len(set(passes)) > 1 for passes in of_several) else "agreed"


def judges_verdicts(judgement: Mapping[str, Any], threshold: float) -> list[bool]:
    """Say of each judge who could tell whether the grade would have passed, had nobody else been asked.

    ``judgement`` is what ``Judgement.as_details`` gives. What judges think of candidates that are compared is
    no verdict on one of them: none is given.
    """
    votes = [vote["scores"].values() for vote in judgement["votes"]]
    of_one = [vote for vote in votes if not any(isinstance(score, Mapping) for score in vote)]
    means = [mean_of_known(vote) for vote in of_one]
    return [mean >= threshold - ROUNDING for mean in means if mean is not None]

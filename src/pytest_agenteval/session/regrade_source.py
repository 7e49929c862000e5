"""Runs whose trials are graded again: which trials there are, and how each is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.records.plan import Model, PlannedTask, TrialKey, Variant
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.planning.parametrization import UNNAMED, Case
from pytest_agenteval.store.file_writing import replace_json
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_metadata import RunModel
from pytest_agenteval.store.run_reader import Run, first_unreadable, load_run
from pytest_agenteval.store.runs import HEADER, read_header
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import pluralize


def record_original_judges(folder: Path, stored: Sequence[Path]) -> None:
    """Write into a regraded run's header whose verdicts of then were read again, where no judge was asked."""
    run = load_run(folder)
    if run.header.judges:
        return
    headers = [read_header(stored_folder) for stored_folder in stored]
    judges_by_name = {judge.name: judge for header in headers for judge in header.judges}
    judge_names: dict[str, None] = {}
    for entry in run.entries:
        if judges_by_name and judges_by_name.keys() <= judge_names.keys():  # nobody else can have been asked
            break
        trial = run.trial_if_readable(entry) if entry.grades else None
        judge_names |= dict.fromkeys(_judge_names(trial) if trial else ())
    if judge_names:
        judges = tuple(judges_by_name.get(name) or RunModel(name, name) for name in judge_names)
        self_judge = run.header.self_judge or all(header.self_judge for header in headers)
        header = replace(run.header, judges=judges, self_judge=self_judge)
        replace_json(folder / HEADER, header.to_json())


def _judge_names(trial: Trial) -> Iterator[str]:
    asks = (event for event in trial.transcript.events if event.kind == "judge_ask")
    return (event.details["role"].partition(" for ")[0] for event in asks)


class StoredTrials:
    """The last attempts of every trial of some runs; a trial that two of them hold is refused."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.runs = tuple(load_run(folder) for folder in dict.fromkeys(map(Path.resolve, folders)))
        models = (model for run in self.runs for model in run.header.models)
        self._models = {model.name: Model(model.name, model.id, model.offline) for model in models}
        self._by_key: dict[TrialKey, tuple[Run, JournalEntry]] = {}
        self._of_task: dict[tuple[str, str, str], list[TrialKey]] = {}
        self._tasks_met: set[tuple[str, str, str]] = set()
        self._cases: dict[tuple[tuple[str, str, int], ...], tuple[Case, ...]] = {}
        self._variants: dict[str, Variant] = {"": UNNAMED}
        for run in self.runs:
            for entry in run.entries:
                self._add(run, entry)

    def cases(self, task: PlannedTask) -> tuple[Case, ...]:
        """Give the cases in which the task was tried; equal ones of two tasks are the same object."""
        name = task.suite, task.id, task.agent
        self._tasks_met.add(name)
        keys = self._of_task.get(name, ())
        case_keys = tuple((key.model, key.variant, key.repetition) for key in keys)
        if case_keys not in self._cases:
            self._cases[case_keys] = tuple(map(self._case, keys))
        return self._cases[case_keys]

    def reader(self, key: TrialKey) -> Callable[[], Trial]:
        """Give what reads a trial's whole record."""
        run, entry = self._by_key[key]
        return partial(run.trial, entry)

    @property
    def names(self) -> tuple[str, ...]:
        """The runs' names."""
        return tuple(run.folder.name for run in self.runs)

    def remarks(self) -> Iterator[str]:
        """Say of each run what is not graded again, once all tasks have been asked for."""
        for run in self.runs:
            name = run.folder.name
            keys = [entry.key for entry in run.entries]
            strays = sum((key.suite, key.task, key.agent) not in self._tasks_met for key in keys)
            if strays:
                stored = pluralize(len(keys), "stored trial")
                yield f"{name}: no task here for {strays} of {stored}: not graded again"
            if run.never_ended:
                yield f"{name}: {run.never_ended}: there is nothing to grade again"
            yield from (f"{name}: {problem}" for problem in first_unreadable(run.odd))

    def _add(self, run: Run, entry: JournalEntry) -> None:
        key = entry.key
        first = self._by_key.setdefault(key, (run, entry))[0]
        if first is not run:
            trial = f"{key.task}[{key.model}-{key.repetition}]"
            raise UsageMistake(f"--agent-regrade: {trial} is in {first.folder.name} and in {run.folder.name}")
        self._of_task.setdefault((key.suite, key.task, key.agent), []).append(key)

    def _case(self, key: TrialKey) -> Case:
        model = self._models.setdefault(key.model, Model(key.model, key.model))
        variant = self._variants.setdefault(key.variant, Variant(key.variant))
        return Case(model, variant, key.repetition)

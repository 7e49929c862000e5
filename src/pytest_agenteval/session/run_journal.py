"""The run as this process writes it down and reads it back, with what dead workers have written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pytest_agenteval import __version__
from pytest_agenteval.chat.local.loading import loading_note
from pytest_agenteval.engine.jobs import NotRun
from pytest_agenteval.records.plan import Model, Plan, TrialKey
from pytest_agenteval.records.record import FrozenMap
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.inner_pytest import BESIDE
from pytest_agenteval.session.planning.parametrization import PLAYERS, PlannedItem, trial_key
from pytest_agenteval.session.run_signals import DEAD_WORKERS
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_documents import (
    ExtraRepetitions,
    ExtraTrials,
    Group,
    SuiteGate,
    read_gates,
    write_extra,
    write_gates,
    write_planned_trials,
)
from pytest_agenteval.store.run_folder import (
    PLANNED,
    PlannedGroup,
    RepetitionRule,
    Resumption,
    RunHeader,
    RunModel,
    RunPrices,
    RunShards,
    RunSuite,
    change_header,
    list_runs,
    open_run,
    planned_groups,
    write_planned,
)
from pytest_agenteval.store.run_reader import Run, load_run

if TYPE_CHECKING:
    from pytest_agenteval.session.planning.suites import Suites
    from pytest_agenteval.session.run_info import RunInfo


def note_dead_worker(folder: Path, worker: str) -> None:
    """Note, for the other workers, that one has died."""
    with suppress(OSError), (folder / DEAD_WORKERS).open("a", encoding="utf-8", newline="\n") as names:
        names.write(f"{worker}\n")


def dead_processes(info: RunInfo) -> Iterator[str]:
    """Give the workers that died in this pytest, by their names in journals: ``gw0-PID``."""
    names, since = info.folder / DEAD_WORKERS, datetime.fromisoformat(info.resumed_at or info.started_at)
    for worker in names.read_text(encoding="utf-8").split() if names.exists() else ():
        for journal in info.folder.glob(f"journal-{worker}-*.jsonl"):
            # An older journal belongs to a worker of the same name, before the run was resumed.
            if journal.stat().st_mtime >= since.timestamp():
                yield journal.stem.removeprefix("journal-")


def begin_run(
    info: RunInfo,
    settings: Settings,
    judges: Sequence[Model],
    trials: Sequence[PlannedItem],
    suites: Suites,
    regraded: tuple[str, ...],
    gates: Sequence[SuiteGate],
    extra: Sequence[PlannedItem] = (),
    all_trials: Sequence[PlannedItem] | None = None,
    user: Model | None = None,
) -> None:
    """Write the plan of the run down, before the first trial; every worker writes the same."""
    # A resumed run keeps its plan. ``regraded`` names the runs whose trials are graded again; ``gates`` are
    # what suites have to reach. ``extra`` are the trials that run only where the first repetitions decide
    # nothing. ``all_trials`` are, in a shard, the trials of all shards. ``user`` is the model that plays
    # users.
    if info.resumed_at and (info.folder / PLANNED).exists():
        _go_on_with_run(info, gates, _run_suites(trials, suites))
        return
    whole = trials if all_trials is None else all_trials
    models = {item.case.model.name: item.case.model for item in whole}
    between, shards = settings.repetition_range, None
    if settings.shard is not None:
        from pytest_agenteval.session.selection import tasks_digest

        number, total = settings.shard
        tasks = tasks_digest(item.task for item in whole)
        shards = RunShards((number,), total, _planned(whole), tasks, info.baseline_name)
    header = RunHeader(
        started_at=info.started_at,
        command=info.command,
        models=tuple(map(_run_model, models.values())),
        judges=tuple(map(_run_model, judges)),
        self_judge=settings.self_judge,
        regraded=regraded,
        record=settings.record,
        record_chat=settings.record_chat,
        variants=tuple(dict.fromkeys(item.case.variant.name for item in whole)),
        suites=_run_suites(whole, suites),
        seed=settings.seed,
        repetitions=settings.fixed_repetitions,
        repetition_rule=RepetitionRule(*between, most_trials=settings.max_trials)
        if extra and between
        else None,
        held_out_looks=_held_out_looks(info, whole, shards),
        shards=shards,
        prices=_prices(settings, [*models.values(), *judges]),
        package=__version__,
        pytest=pytest.__version__,
        resumed=(Resumption(info.resumed_at, info.command),) if info.resumed_at else (),
        reused=tuple(run.name for run in info.reused),
        user=user.id if user is not None else "",
    )
    open_run(info.folder, header)
    if gates:
        write_gates(info.folder, gates)
    write_planned_trials(info.folder, map(trial_key, trials))
    deferred = set(map(id, extra))
    write_planned(info.folder, _planned(item for item in trials if id(item) not in deferred))
    if extra:
        node_ids: dict[Group, list[str]] = {}
        for item in extra:
            node_ids.setdefault(group_of_item(item), []).append(item.nodeid)
        groups = [ExtraTrials(*group, tuple(ids)) for group, ids in node_ids.items()]
        write_extra(info.folder, ExtraRepetitions(tuple(groups), _planned(trials)))


def _prices(settings: Settings, models: Iterable[Model]) -> RunPrices | None:
    if all(model.offline for model in models):
        return None
    from pytest_agenteval.chat.model_prices import price_source

    own = {name: price.as_of for name, price in settings.prices.items()}
    return RunPrices(price_source(), FrozenMap(own))


def _go_on_with_run(info: RunInfo, gates: Sequence[SuiteGate], suites: Iterable[RunSuite] = ()) -> None:
    """Write down that the run is resumed; every worker writes the same."""
    # Suites that are collected today get today's kind, threshold and gates; all others stay as they were.
    today = {suite.name: suite for suite in suites}

    def resumed(header: RunHeader) -> RunHeader:
        earlier = tuple(each for each in header.resumed if each.at != info.resumed_at)
        resumption = Resumption(info.resumed_at, info.command)
        known = tuple(today.get(suite.name, suite) for suite in header.suites)
        return replace(header, suites=known, resumed=(*earlier, resumption), ended_at="", exit_status=None)

    change_header(info.folder, resumed)
    if gates:
        before = {gate.suite: gate for gate in read_gates(info.folder)}
        write_gates(info.folder, (before | {gate.suite: gate for gate in gates}).values())


def _held_out_looks(
    info: RunInfo, trials: Sequence[PlannedItem], shards: RunShards | None
) -> Mapping[str, int]:
    """Count for each suite how often its held-out tasks ran in this folder of runs, this run included."""
    # Trials of our own offline players say nothing about a prompt, and are not counted.
    suites = {
        item.task.suite
        for item in trials
        if item.task.split == "held_out" and item.case.model.id not in PLAYERS
    }
    if not suites:
        return {}
    beside = os.environ.get(BESIDE)
    before = [
        run.header
        for run in list_runs(info.folder.parent)
        if run.header.started_at < info.started_at and run.path.name != beside
        # Different shards of one run count as one look.
        if shards is None
        or run.header.shards is None
        or run.header.shards.numbers == shards.numbers
        or (run.header.shards.total, run.header.shards.tasks) != (shards.total, shards.tasks)
    ]
    return {
        suite: 1 + max((header.held_out_looks.get(suite, 0) for header in before), default=0)
        for suite in sorted(suites)
    }


def _planned(trials: Iterable[PlannedItem]) -> tuple[PlannedGroup, ...]:
    return planned_groups((trial_key(item), item.task.bucket) for item in trials)


def group_of_item(item: PlannedItem) -> Group:
    return item.task.suite, item.case.model.name, item.case.variant.name


def _run_model(model: Model) -> RunModel:
    return RunModel(model.name, model.id, model.offline, loading_note(model), model.via)


def _run_suites(items: Iterable[PlannedItem], suites: Suites) -> tuple[RunSuite, ...]:
    run_suites = []
    for task in {item.task.suite: item.task for item in items}.values():
        suite = suites.suite_of_name(task.suite)
        if suite is None:
            run_suites.append(RunSuite(task.suite, task.kind, task.agent))
        else:
            run_suites.append(RunSuite(task.suite, suite.kind, task.agent, suite.task_pass_threshold))
    return tuple(run_suites)


class RunJournal:
    """Writes down each trial that begins or ends, before anybody else learns of it.

    In a worker it also gives trials that dead workers had finished before they could report.
    """

    def __init__(
        self, config: pytest.Config, folder: Path, earlier_attempts: Callable[[TrialKey], int] | None = None
    ) -> None:
        worker = getattr(config, "workerinput", {}).get("workerid", "main")
        process = f"{worker}-{os.getpid()}"
        self._folder, self._earlier_attempts = folder, earlier_attempts
        self._writer = JournalWriter(folder, process)
        self._transcripts = str(folder / f"transcripts-{process}.jsonl")
        self._dead_workers = folder / DEAD_WORKERS if hasattr(config, "workerinput") else None
        self._dead_workers_read: frozenset[str] = frozenset()
        self._run: Run | None = None
        self._inherited: dict[TrialKey, JournalEntry] = {}

    def started(self, plans: Sequence[Plan]) -> None:
        self._writer.started(plans)

    def finished(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """Write down how these trials ended; return them as they are written."""
        return self._writer.finished(trials)

    def not_run(self, plan: Plan, why: NotRun) -> None:
        self._writer.not_run(plan, why.cause, why.reason)

    def inherited_entry(self, key: TrialKey) -> JournalEntry | None:
        """Give the entry of a trial that a dead worker finished: it is paid for, and does not run again."""
        if self._dead_workers is not None and self._dead_workers.exists():
            names = frozenset(self._dead_workers.read_text(encoding="utf-8").split())
            if names != self._dead_workers_read:
                self._dead_workers_read, self._run = names, load_run(self._folder)
                # transcripts-gw0-PID.jsonl; a worker that takes the place of a dead one has another name
                self._inherited = {
                    entry.key: entry
                    for entry in self._run.entries
                    if entry.location.file.split("-")[1] in names
                }
        entry = self._inherited.get(key)
        # A resumed run has workers of the same names as before; ``ReusePlan`` decides about the trials of
        # those.
        before = self._earlier_attempts(key) if entry is not None and self._earlier_attempts else 0
        return None if entry is None or entry.attempt <= before else entry

    def inherited(self, key: TrialKey) -> Trial | None:
        """Give the whole trial, if a dead worker has finished it."""
        entry = self.inherited_entry(key)
        return None if entry is None or self._run is None else self._run.trial_if_readable(entry)

    def transcripts(self, trial: Trial) -> str:
        """Give the file that holds the transcript of a trial of this run."""
        entry = self.inherited_entry(trial.key)
        if entry is not None and entry.attempt == trial.attempt:
            return str(self._folder / entry.location.file)
        return self._transcripts

    def close(self) -> None:
        """Close the files; each line was flushed when it was written."""
        self._writer.close()

"""The run as this process writes it down, and what workers have written down that died."""

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
from pytest_agenteval.records.plan import Model, Plan, PlannedTask, TrialKey
from pytest_agenteval.records.record import FrozenMap
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.inner_pytest import BESIDE
from pytest_agenteval.session.planning.parametrization import PLAYERS, PlannedItem, trial_key
from pytest_agenteval.session.run_signals import DEAD_WORKERS
from pytest_agenteval.session.stash import run_info_key
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_documents import SuiteGate, read_gates, write_gates, write_planned_trials
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
    read_header_or_name,
    write_planned,
)
from pytest_agenteval.store.run_reader import Run, load_run

if TYPE_CHECKING:
    from pytest_agenteval.session.planning.suites import Suites
    from pytest_agenteval.session.run_info import RunInfo
    from pytest_agenteval.session.settings import Settings
    from pytest_agenteval.store.run_documents import Group


AttemptCounter = Callable[[TrialKey], int]
"""Says how many attempts at a trial a run that goes on has begun before."""


class DeadWorkerTrials:
    """What workers of this run that are dead have written down; elsewhere nobody dies."""

    def __init__(
        self, config: pytest.Config, folder: Path, earlier_attempts: AttemptCounter | None = None
    ) -> None:
        self._folder, self._earlier_attempts = folder, earlier_attempts
        self._word = folder / DEAD_WORKERS if hasattr(config, "workerinput") else None
        self._dead_workers_read: frozenset[str] = frozenset()
        self._run: Run | None = None
        self._entries: dict[TrialKey, JournalEntry] = {}

    def entry(self, key: TrialKey) -> JournalEntry | None:
        """Give how the trial ended, if a worker finished it and died before it could report."""
        if self._word is not None and self._word.exists():
            dead_workers = frozenset(self._word.read_text(encoding="utf-8").split())
            if dead_workers != self._dead_workers_read:
                self._dead_workers_read = dead_workers
                self._run = load_run(self._folder)
                self._entries = {entry.key: entry for entry in _written_by(dead_workers, self._run)}
        entry = self._entries.get(key)
        # A run that goes on has workers of the same names as before, and decides itself about their trials.
        is_older = (
            entry is not None and self._earlier_attempts and entry.attempt <= self._earlier_attempts(key)
        )
        return None if is_older else entry

    def trial(self, key: TrialKey) -> Trial | None:
        """Give the whole trial, if a worker finished it and died before it could report."""
        entry = self.entry(key)
        return None if entry is None or self._run is None else self._run.trial_if_readable(entry)

    def transcripts(self, entry: JournalEntry) -> str:
        """Give the file that the trial's transcript stands in."""
        return str(self._folder / entry.location.file)


def _written_by(dead_workers: frozenset[str], run: Run) -> Iterator[JournalEntry]:
    for entry in run.entries:
        # transcripts-gw0-PID.jsonl; a worker that takes the place of a dead one has another name
        if entry.location.file.split("-")[1] in dead_workers:
            yield entry


def note_dead_worker(folder: Path, worker: str) -> None:
    """Note, for the workers that are left, that one has died."""
    with suppress(OSError), (folder / DEAD_WORKERS).open("a", encoding="utf-8", newline="\n") as word:
        word.write(f"{worker}\n")


def dead_processes(info: RunInfo) -> Iterator[str]:
    """Name the workers that have died in this pytest as their journals do: ``gw0-PID``."""
    word, since = info.folder / DEAD_WORKERS, datetime.fromisoformat(info.resumed_at or info.started_at)
    for worker in word.read_text(encoding="utf-8").split() if word.exists() else ():
        for journal in info.folder.glob(f"journal-{worker}-*.jsonl"):
            if journal.stat().st_mtime >= since.timestamp():  # else of a worker of this name, before a resume
                yield journal.stem.removeprefix("journal-")


def forget_dead_workers(folder: Path) -> None:
    """Leave nothing of it in the run's folder."""
    with suppress(OSError):
        (folder / DEAD_WORKERS).unlink(missing_ok=True)


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
    """Write down what the run sets out to do, before the first trial; every worker writes the same.

    A run that goes on has its plan, and keeps it. ``regraded`` names the runs whose trials are graded again,
    ``gates`` say what suites have to reach. ``extra`` are those of the trials that are made only where the
    first repetitions decide nothing. Of a shard, ``all_trials`` are those of all shards. ``user`` is the
    model that plays users.
    """
    if info.resumed_at and (info.folder / PLANNED).exists():
        go_on_with_run(info, gates, _run_suites(trials, suites))
        return
    whole = trials if all_trials is None else all_trials
    models = {item.case.model.name: item.case.model for item in whole}
    shards = _shards(settings, info, whole)
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
        repetition_rule=repetition_rule(settings) if extra else None,
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
    held_back = set(map(id, extra))
    write_planned(info.folder, _planned(item for item in trials if id(item) not in held_back))
    if extra:
        from pytest_agenteval.store.run_documents import ExtraRepetitions, ExtraTrials, write_extra

        groups = [ExtraTrials(*group, node_ids) for group, node_ids in _node_ids(extra).items()]
        write_extra(info.folder, ExtraRepetitions(tuple(groups), _planned(trials)))


def _prices(settings: Settings, models: Iterable[Model]) -> RunPrices | None:
    """Say where prices come from, where a model has any: nobody is asked for the offline ones."""
    if all(model.offline for model in models):
        return None
    from pytest_agenteval.chat.model_prices import price_source

    own = {name: price.as_of for name, price in settings.prices.items()}
    return RunPrices(price_source(), FrozenMap(own))


def _shards(settings: Settings, info: RunInfo, trials: Sequence[PlannedItem]) -> RunShards | None:
    """Say which shard this is, and what all of them set out to do."""
    if settings.shard is None:
        return None
    from pytest_agenteval.session.selection import tasks_digest

    number, total = settings.shard
    tasks = tasks_digest(item.task for item in trials)
    return RunShards((number,), total, _planned(trials), tasks, info.baseline_name)


def go_on_with_run(info: RunInfo, gates: Sequence[SuiteGate], suites: Iterable[RunSuite] = ()) -> None:
    """Write down that the run goes on; every worker may, as all of them write the same.

    Kind, threshold and gates of suites that are met today are those of today; others stay.
    """
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
    """Count, for each suite whose held-out tasks are tried, how often that was done in this folder.

    What our own offline players do says nothing of any prompt, and is no look.
    """
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
        if not _are_one_run(run.header.shards, shards)
    ]
    return {
        suite: 1 + max((header.held_out_looks.get(suite, 0) for header in before), default=0)
        for suite in sorted(suites)
    }


def _are_one_run(earlier: RunShards | None, own: RunShards | None) -> bool:
    """Whether two runs are parts of one, which is one look, and no part is there twice."""
    if earlier is None or own is None or earlier.numbers == own.numbers:
        return False
    return (earlier.total, earlier.tasks) == (own.total, own.tasks)


def repetition_rule(settings: Settings) -> RepetitionRule | None:
    """Give the rule by which repetitions stop early; None where they are fixed."""
    between = settings.repetition_range
    return RepetitionRule(*between, most_trials=settings.max_trials) if between else None


def _planned(trials: Iterable[PlannedItem]) -> tuple[PlannedGroup, ...]:
    return planned_groups((trial_key(item), item.task.bucket) for item in trials)


def _node_ids(items: Iterable[PlannedItem]) -> dict[Group, tuple[str, ...]]:
    by_group: dict[Group, list[str]] = {}
    for item in items:
        by_group.setdefault(group_of_item(item), []).append(item.nodeid)
    return {group: tuple(node_ids) for group, node_ids in by_group.items()}


def group_of_item(item: PlannedItem) -> Group:
    """Give the suite, model and variant of an item's trial."""
    return item.task.suite, item.case.model.name, item.case.variant.name


def _run_model(model: Model) -> RunModel:
    return RunModel(model.name, model.id, model.offline, loading_note(model), model.via)


def _run_suites(items: Iterable[PlannedItem], suites: Suites) -> tuple[RunSuite, ...]:
    tasks = {item.task.suite: item.task for item in items}
    return tuple(_run_suite(task, suites) for task in tasks.values())


def _run_suite(task: PlannedTask, suites: Suites) -> RunSuite:
    suite = suites.suite_of_name(task.suite)
    if suite is None:
        return RunSuite(task.suite, task.kind, task.agent)
    return RunSuite(task.suite, suite.kind, task.agent, suite.task_pass_threshold)


class RunJournal:
    """Writes down what begins and ends before anyone else learns of it.

    It also gives what workers have written down that died before they could report.
    """

    def __init__(
        self, config: pytest.Config, folder: Path, earlier_attempts: AttemptCounter | None = None
    ) -> None:
        process = process_name(config)
        self._writer = JournalWriter(folder, process)
        self._transcripts = str(folder / f"transcripts-{process}.jsonl")
        self._dead_workers = DeadWorkerTrials(config, folder, earlier_attempts)

    def started(self, plans: Sequence[Plan]) -> None:
        """These trials begin now."""
        self._writer.started(plans)

    def finished(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """These trials have ended; gives them as they are written down."""
        return self._writer.finished(trials)

    def not_run(self, plan: Plan, why: NotRun) -> None:
        """This trial does not begin in this run."""
        self._writer.not_run(plan, why.cause, why.reason)

    def is_inherited(self, key: TrialKey) -> bool:
        """Whether a worker that is dead has finished the trial: it is paid for, and not begun again."""
        return self._dead_workers.entry(key) is not None

    def inherited(self, key: TrialKey) -> Trial | None:
        """Give the trial that a worker finished before it died."""
        return self._dead_workers.trial(key)

    def transcripts(self, trial: Trial) -> str:
        """Give the file that holds the transcript of a trial that was given out."""
        entry = self._dead_workers.entry(trial.key)
        if entry is not None and entry.attempt == trial.attempt:
            return self._dead_workers.transcripts(entry)
        return self._transcripts

    def close(self) -> None:
        """Close the files; every line of theirs was flushed when it was written."""
        self._writer.close()


def process_name(config: pytest.Config) -> str:
    """Name this process among those of the run: ``main``, or the xdist worker's name, with its pid."""
    worker = getattr(config, "workerinput", {}).get("workerid", "main")
    return f"{worker}-{os.getpid()}"


_ended_run: pytest.StashKey[Run] = pytest.StashKey()


def ended_run(config: pytest.Config) -> Run:
    """Give this run as it was written down, once all of its trials have ended."""
    if _ended_run not in config.stash:
        config.stash[_ended_run] = load_run(config.stash[run_info_key].folder)
    return config.stash[_ended_run]


def read_header_again(config: pytest.Config) -> None:
    """See how the run ended, now that this stands in its header; its trials are the same as before."""
    run = config.stash.get(_ended_run, None)
    if run is not None:
        run.header, _ = read_header_or_name(run.folder)


def forget_ended_run(config: pytest.Config) -> None:
    """Let go of what was read back: nobody tells of it any more."""
    if _ended_run in config.stash:
        del config.stash[_ended_run]

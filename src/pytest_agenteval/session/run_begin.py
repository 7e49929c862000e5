"""A run begins: its plan and its header are written down before the first trial, by each process alike."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import pytest
from msgspec.structs import replace

from pytest_agenteval import __version__
from pytest_agenteval.chat.local.loading import loading_note
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import FrozenMap
from pytest_agenteval.session.eval_session import EvalSession
from pytest_agenteval.session.inner_pytest import BESIDE
from pytest_agenteval.session.planning.parametrization import PLAYERS, PlannedItem, trial_key
from pytest_agenteval.session.run_info import RunInfo, get_run_info
from pytest_agenteval.session.run_journal import group_of_item
from pytest_agenteval.session.run_signals import hold_run
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.store.run_documents import (
    ExtraRepetitions,
    ExtraTrials,
    Group,
    PlannedTrials,
    RunGates,
    read_gates,
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
from pytest_agenteval.text.errors import UsageMistake


def begin_run(evals: EvalSession) -> None:
    """Write the run down, and mark it as being worked on; the session ends where nothing can be written."""
    info = get_run_info(evals.config)
    try:
        # A resumed run keeps its plan.
        if info.resumed_at and (info.folder / PLANNED).exists():
            _go_on_with_run(evals, info)
        else:
            _write_plan(evals, info)
        hold_run(evals.config, info.folder, info.controller)
        if hasattr(evals.config, "workerinput"):  # shown at the end, but decided before any trial runs
            evals.reuse_summary  # noqa: B018  # a property that is worked out once
        if evals.audit is not None:
            evals.audit.planned(evals.selected).write(info.folder)
    except OSError as failed:
        why = failed.strerror or type(failed).__name__
        place = f"results cannot be written to {info.folder.parent}: {why}"
        evals.refuse(UsageMistake(f"{place}; choose another folder with --agent-results=FOLDER"))
        evals.end_session()
        return
    if evals.extra is not None and evals.extra.items:
        evals.config.pluginmanager.register(evals.extra, "agenteval-extra-repetitions")


def _write_plan(evals: EvalSession, info: RunInfo) -> None:
    # ``extra`` are the trials that run only where the first repetitions decide nothing; ``whole`` are, in a
    # shard, the trials of all shards.
    settings, trials, judges, user = evals.settings, evals.selected, evals.cases.judges, evals.cases.user
    extra = evals.extra.items if evals.extra else ()
    whole = evals.sharded.all_trials if evals.sharded else trials
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
        regraded=evals.stored.names if evals.stored else (),
        record=settings.record,
        record_chat=settings.record_chat,
        variants=tuple(dict.fromkeys(item.case.variant.name for item in whole)),
        suites=_run_suites(evals, whole),
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
    if evals.gates:
        RunGates(tuple(evals.gates)).write(info.folder)
    PlannedTrials.of(map(trial_key, trials)).write(info.folder)
    deferred = set(map(id, extra))
    write_planned(info.folder, _planned(item for item in trials if id(item) not in deferred))
    if extra:
        node_ids: dict[Group, list[str]] = {}
        for item in extra:
            node_ids.setdefault(group_of_item(item), []).append(item.nodeid)
        groups = [ExtraTrials(*group, tuple(ids)) for group, ids in node_ids.items()]
        ExtraRepetitions(tuple(groups), _planned(trials)).write(info.folder)


def _go_on_with_run(evals: EvalSession, info: RunInfo) -> None:
    # Suites that are collected today get today's kind, threshold and gates; all others stay as they were.
    today = {suite.name: suite for suite in _run_suites(evals, evals.selected)}

    def resumed(header: RunHeader) -> RunHeader:
        known = tuple(today.get(suite.name, suite) for suite in header.suites)
        return replace(header.resumed_at(info.resumed_at, info.command), suites=known)

    change_header(info.folder, resumed)
    if evals.gates:
        gates = {gate.suite: gate for gate in (*read_gates(info.folder), *evals.gates)}
        RunGates(tuple(gates.values())).write(info.folder)


def _prices(settings: Settings, models: Iterable[Model]) -> RunPrices | None:
    if all(model.offline for model in models):
        return None
    from pytest_agenteval.chat.model_prices import price_source

    own = {name: price.as_of for name, price in settings.prices.items()}
    return RunPrices(price_source(), FrozenMap(own))


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


def _run_model(model: Model) -> RunModel:
    return RunModel(model.name, model.id, model.offline, loading_note(model), model.via)


def _run_suites(evals: EvalSession, items: Iterable[PlannedItem]) -> tuple[RunSuite, ...]:
    run_suites = []
    for task in {item.task.suite: item.task for item in items}.values():
        suite = evals.planner.suites.suite_of_name(task.suite)
        if suite is None:
            run_suites.append(RunSuite(task.suite, task.kind, task.agent))
        else:
            run_suites.append(RunSuite(task.suite, suite.kind, task.agent, suite.task_pass_threshold))
    return tuple(run_suites)

"""The budget of a run (``--agent-max-cost``, ``--agent-max-tokens``), and what earlier trials cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_agenteval.engine.run_budget import (
    BudgetLedger,
    ExpectedUse,
    Kind,
    LocalLedger,
    RunBudget,
    amount_text,
)
from pytest_agenteval.engine.trial_resources import chat_cassette_file
from pytest_agenteval.processes.files import POSIX
from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.processes.shared_state import LockedState
from pytest_agenteval.records.plan import OWN_MODEL, Plan
from pytest_agenteval.records.transcript import PARTLY_UNKNOWN, Figure, Usage, cost_figure, token_figure
from pytest_agenteval.session.held_runs import LEDGERS
from pytest_agenteval.session.planning.parametrization import PLAYERS
from pytest_agenteval.session.run_info import get_run_info
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.session.stash import budget_key
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.paid_trials import paid_so_far
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.store.runs import RunFolder, list_runs, read_header
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    from pytest_agenteval.session.run_info import RunInfo


MOST_RUNS = 10
"""Runs that are looked into, the newest first."""


class EarlierCosts:
    """The trials of the latest runs in a folder of results; read when they are first asked for.

    Those of a run that goes on are among them.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._by_group: dict[tuple[str, str], Sequence[JournalEntry]] = {}

    def of(self, plan: Plan, kind: Kind) -> ExpectedUse | None:
        """Give what a trial of the same task and model took, else one of the same suite and model."""
        entries = self.entries(plan.task.suite, plan.model.name, plan.model.id)
        amounts = {
            entry.key: amount
            for entry in entries
            if entry.ending != "errored" and (amount := _amount(all_usage(entry), kind)) is not None
        }
        if not amounts:
            return None
        own = [amount for key, amount in amounts.items() if key.task == plan.task.id]
        of_task = own or list(amounts.values())
        return ExpectedUse(sum(of_task) / len(of_task), max(amounts.values()), len(amounts))

    def entries(self, suite: str, model: str, id: str) -> Sequence[JournalEntry]:
        """Give the trials of a suite with a model, of all runs that are looked into."""
        key = suite, model
        if key not in self._by_group:
            runs = [run for run in self._runs if _tried(run, suite, {model: id})]
            entries = [entry for run in runs for entry in self._entries(run)]
            self._by_group[key] = [
                entry for entry in entries if entry.key.suite == suite and entry.key.model == model
            ]
        return self._by_group[key]

    def of_other_models(self, suite: str) -> Sequence[JournalEntry]:
        """Give the trials of a suite with any real model."""
        return [
            entry
            for run in self._runs
            if any(each.name == suite for each in run.header.suites)
            for entry in self._entries(run)
            if entry.key.suite == suite and entry.key.model not in _offline(run)
        ]

    @cached_property
    def _runs(self) -> Sequence[RunFolder]:
        return list_runs(self._results)[:MOST_RUNS]

    def _entries(self, run: RunFolder) -> Sequence[JournalEntry]:
        if run.path not in self._read:
            try:
                self._read[run.path] = load_run(run.path).entries
            except (UsageMistake, OSError):  # of a newer version, or half deleted: it tells nothing
                self._read[run.path] = ()
        return self._read[run.path]

    @cached_property
    def _read(self) -> dict[Path, Sequence[JournalEntry]]:
        return {}


def all_usage(entry: JournalEntry) -> Usage:
    """Give what a trial would take that plays nothing: agent, judges and user together."""
    return entry.usage + entry.judging + entry.simulating


def _tried(run: RunFolder, suite: str, models: Mapping[str, str]) -> bool:
    header = run.header
    has_suite = any(each.name == suite for each in header.suites)
    return has_suite and any(models.get(each.name) == each.id for each in header.models)


def _offline(run: RunFolder) -> frozenset[str]:
    return frozenset(model.name for model in run.header.models if model.offline)


def _amount(usage: Usage, kind: Kind) -> float | None:
    if kind == "tokens":
        return usage.tokens
    return usage.cost_usd


def get_run_budget(config: pytest.Config, settings: Settings) -> RunBudget | None:
    """Give the budget of this run, the same for all that this process counts; None where there is none."""
    allowed = allowed_amounts(settings)
    if not allowed:
        return None
    if budget_key not in config.stash:
        info = get_run_info(config)
        config.stash[budget_key] = RunBudget(
            allowed,
            _ledger(config, info),
            EarlierCosts(settings.results or config.rootpath / RESULTS),
            paid_before=lambda: _paid_before(info.folder),
            is_free=free_trials(settings),
            is_alive=is_running if POSIX else lambda process: True,
        )
    budget: RunBudget = config.stash[budget_key]
    return budget


def allowed_amounts(settings: Settings) -> dict[Kind, float]:
    """Give what a run may take, as far as anybody says."""
    said: dict[Kind, float | None] = {"usd": settings.max_cost, "tokens": settings.max_tokens}
    return {kind: amount for kind, amount in said.items() if amount is not None}


def ledger_file(info: RunInfo) -> Path:
    """Give the file by which a run's processes count together."""
    return info.folder / LEDGERS.replace("*", str(info.controller))


def _ledger(config: pytest.Config, info: RunInfo) -> BudgetLedger:
    file = ledger_file(info)
    return LockedState(file) if hasattr(config, "workerinput") or file.exists() else LocalLedger()


def _paid_before(folder: Path) -> Mapping[Kind, Figure]:
    try:
        models = read_header(folder).models
    except UsageMistake:  # which is told to whoever reads the run
        models = ()
    paid = paid_so_far(folder, {model.name for model in models if model.offline})
    return {"usd": cost_figure(paid), "tokens": token_figure(paid)}


def free_trials(settings: Settings) -> Callable[[Plan], bool]:
    """Give what says of a plan whether its trial can cost nothing, be it for recordings or for its model."""

    def is_free(plan: Plan) -> bool:
        conditions = plan.conditions
        if conditions.record_chat == "none":
            return True
        if conditions.record_chat == "once" and Path(chat_cassette_file(plan)).exists():
            return True
        if conditions.judges or (conditions.user is not None and plan.task.user):
            return False
        return settings.regrade != () or acts_for_nothing(plan)

    return is_free


def acts_for_nothing(plan: Plan) -> bool:
    """Whether a trial's agent, and who talks with it, ask no model that is paid; its judges may."""
    conditions = plan.conditions
    asks_nobody = plan.model.id in PLAYERS or (plan.model.id == OWN_MODEL and not plan.asks_own_models)
    has_user = conditions.user is not None and bool(plan.task.user)
    return asks_nobody and not has_user and not plan.live and conditions.record_chat == "off"


def budget_lines(config: pytest.Config, settings: Settings) -> list[str]:
    """Say what was paid of what was allowed."""
    budget = get_run_budget(config, settings)
    if budget is None:
        return []
    paid = budget.paid()
    return [
        f"budget: {amount_text(kind, paid[kind])}{'' if budget.is_known(kind) else PARTLY_UNKNOWN}"
        f" of {amount_text(kind, allowed)}"
        for kind, allowed in budget.allowed.items()
    ]

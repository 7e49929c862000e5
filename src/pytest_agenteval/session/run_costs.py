"""The budget of a run (``--agent-max-cost``, ``--agent-max-tokens``), and what earlier trials cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

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
from pytest_agenteval.records.transcript import PARTLY_UNKNOWN, Figure, cost_figure, token_figure
from pytest_agenteval.session.planning.parametrization import PLAYERS
from pytest_agenteval.session.run_info import get_run_info
from pytest_agenteval.session.run_signals import BUDGET_FILES
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.session.stash import budget_key
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.journal_tail import paid_so_far
from pytest_agenteval.store.run_folder import RunFolder, list_runs, read_header
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import UsageMistake

MOST_RUNS = 10
"""Runs that are looked into, the newest first."""


class EarlierCosts:
    """The trials of the latest runs in a folder of results; read when they are first needed.

    Those of a resumed run are among them.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._by_group: dict[tuple[str, str], Sequence[JournalEntry]] = {}
        self._read: dict[Path, Sequence[JournalEntry]] = {}

    def of(self, plan: Plan, kind: Kind) -> ExpectedUse | None:
        """Give what a trial of the same task and model took, else one of the same suite and model."""
        amounts = {}
        for entry in self.entries(plan.task.suite, plan.model.name, plan.model.id):
            # What a trial takes that replays nothing: agent, judges and user together.
            usage = entry.usage + entry.judging + entry.simulating
            amount = usage.tokens if kind == "tokens" else usage.cost_usd
            if entry.ending != "errored" and amount is not None:
                amounts[entry.key] = amount
        if not amounts:
            return None
        own = [amount for key, amount in amounts.items() if key.task == plan.task.id]
        of_task = own or list(amounts.values())
        return ExpectedUse(sum(of_task) / len(of_task), max(amounts.values()), len(amounts))

    def entries(self, suite: str, model: str, id: str) -> Sequence[JournalEntry]:
        """Give the trials of a suite with a model, of all runs that are looked into."""
        key = suite, model
        if key not in self._by_group:
            self._by_group[key] = [
                entry
                for run in self._runs_of(suite)
                if any((each.name, each.id) == (model, id) for each in run.header.models)
                for entry in self._entries(run)
                if entry.key.suite == suite and entry.key.model == model
            ]
        return self._by_group[key]

    def of_other_models(self, suite: str) -> Sequence[JournalEntry]:
        """Give the trials of a suite with any real model."""
        found = []
        for run in self._runs_of(suite):
            offline = {model.name for model in run.header.models if model.offline}
            found += [
                entry
                for entry in self._entries(run)
                if entry.key.suite == suite and entry.key.model not in offline
            ]
        return found

    def _runs_of(self, suite: str) -> list[RunFolder]:
        return [run for run in self._runs if any(each.name == suite for each in run.header.suites)]

    @cached_property
    def _runs(self) -> Sequence[RunFolder]:
        return list_runs(self._results)[:MOST_RUNS]

    def _entries(self, run: RunFolder) -> Sequence[JournalEntry]:
        if run.path not in self._read:
            try:
                self._read[run.path] = load_run(run.path).entries
            except (UsageMistake, OSError):  # of a newer version, or half deleted
                self._read[run.path] = ()
        return self._read[run.path]


def get_run_budget(config: pytest.Config, settings: Settings) -> RunBudget | None:
    """Give the budget of this run, the same for all that this process counts; None where there is none."""
    allowed = allowed_amounts(settings)
    if not allowed:
        return None
    if budget_key not in config.stash:
        info = get_run_info(config)
        # The file by which a run's processes count together; one that is alone needs none.
        file = info.folder / BUDGET_FILES.replace("*", str(info.controller))
        is_shared = hasattr(config, "workerinput") or file.exists()
        ledger: BudgetLedger = LockedState(file) if is_shared else LocalLedger()
        config.stash[budget_key] = RunBudget(
            allowed,
            ledger,
            EarlierCosts(settings.results or config.rootpath / RESULTS).of,
            paid_before=lambda: _paid_before(info.folder),
            is_free=free_trials(settings),
            is_alive=is_running if POSIX else lambda process: True,
        )
    budget: RunBudget = config.stash[budget_key]
    return budget


def allowed_amounts(settings: Settings) -> dict[Kind, float]:
    """Give what a run may take, as far as options limit it."""
    amounts: dict[Kind, float | None] = {"usd": settings.max_cost, "tokens": settings.max_tokens}
    return {kind: amount for kind, amount in amounts.items() if amount is not None}


def _paid_before(folder: Path) -> Mapping[Kind, Figure]:
    try:
        models = read_header(folder).models
    except UsageMistake:  # which is reported when the run is read
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

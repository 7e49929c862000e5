"""What trials of the same tasks took in earlier runs, with the same model or with another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pytest_agenteval.engine.run_budget import Expected, Kind
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.store.runs import RunFolder, list_runs
from pytest_agenteval.text.errors import UsageMistake

MOST_RUNS = 10
"""Runs that are looked into, the newest first."""


class EarlierCosts:
    """The trials of the latest runs in a folder of results; read when they are first asked for.

    Those of a run that goes on are among them.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._by_group: dict[tuple[str, str], Sequence[JournalEntry]] = {}

    def of(self, plan: Plan, kind: Kind) -> Expected | None:
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
        return Expected(sum(of_task) / len(of_task), max(amounts.values()), len(amounts))

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

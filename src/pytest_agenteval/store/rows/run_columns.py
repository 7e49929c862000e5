"""The columns of runs, which headers fill."""

from __future__ import annotations

from typing import Any

from pytest_agenteval.store.rows.columns import Column, column, optional


def _names(part: str) -> Any:
    """Give what names all things of one part of a header."""
    return lambda run: [item.name for item in getattr(run.header, part)]


RUNS: tuple[Column, ...] = (
    column("run", "text", "name", "the run's name, as `agenteval runs` lists it"),
    column("folder", "text", lambda run: str(run.folder), "where it lies"),
    optional("started_at", "time", "header.started_at", "when it began"),
    optional("ended_at", "time", "header.ended_at", "when it ended, if it did"),
    optional("exit_status", "integer", "header.exit_status", "pytest's, where the run ended"),
    column("models", "texts", _names("models"), "its models, as they were named"),
    column("judges", "texts", _names("judges"), "its judges"),
    column("variants", "texts", "header.variants", "its prompt variants"),
    column("suites", "texts", _names("suites"), "its suites"),
    column(
        "planned_count", "integer", lambda run: sum(group.trials for group in run.planned), "trials planned"
    ),
    column("trial_count", "integer", lambda run: len(run.entries), "trials that ended"),
    optional("repetitions", "integer", "header.repetitions", "where one number holds for all"),
    optional("seed", "integer", "header.seed", "what chance was seeded with"),
    column("regraded", "texts", "header.regraded", "the runs whose trials were graded again"),
    column("command", "texts", "header.command", "what was typed"),
    column("package", "text", "header.package", "the version of pytest-agenteval"),
    column("pytest", "text", "header.pytest", "the version of pytest"),
)

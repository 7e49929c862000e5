"""The agents that suites say by a form, as plain data that a plan can carry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.tasks.agent_specs import AgentForm
from pytest_agenteval.tasks.suite_spec import Suite


class AgentForms:
    """Works each suite's form out once, so that all its tasks share one value."""

    def __init__(self) -> None:
        self._forms: dict[str, Mapping[str, Any]] = {}

    def of(self, suite: Suite, folder: Path, root: Path) -> Mapping[str, Any]:
        """Give what a suite's form says, with what its agent needs of the suite.

        ``paths`` are where modules of ``call`` may lie, ``folder`` where a command's own files do.
        """
        form = suite.agent
        if not isinstance(form, AgentForm):
            return NOTHING
        if suite.name not in self._forms:
            self._forms[suite.name] = {**_written_keys(form), **_places(form, suite, folder, root)}
        return self._forms[suite.name]


def _written_keys(form: AgentForm) -> Mapping[str, Any]:
    """Give the keys that differ from their default, and `as` by that name."""
    default = AgentForm().to_json()
    return {key: value for key, value in form.to_json().items() if value != default[key]}


def _places(form: AgentForm, suite: Suite, folder: Path, root: Path) -> Mapping[str, Any]:
    if form.call:
        # The suite's own folder only where the module lies there: else the same agent in two suites is one.
        module = form.call.partition(":")[0].partition(".")[0]
        beside = any((folder / name).exists() for name in (module, f"{module}.py"))
        places = {"paths": [str(root), *([str(folder)] if beside and folder != root else [])]}
        return places | _idle_variables(suite)
    if not form.command:
        return _idle_variables(suite)
    return {"folder": str(folder), **_variables(suite), "ignored_hosts": list(suite.http.ignore)}


def _variables(suite: Suite) -> dict[str, Any]:
    """Give what a suite says of the environment of a command."""
    return {"env": dict(suite.env), "env_pass": list(suite.env_pass), "proxy": dict(suite.proxy)}


def _idle_variables(suite: Suite) -> dict[str, Any]:
    """Give what of it an agent that is no command leaves unused, which is a problem of its form."""
    return {key: value for key, value in _variables(suite).items() if value}

"""Variables of the environment that trials need elsewhere: those that the project's own files name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.chat.models import known_key_names
from pytest_agenteval.records.plan import Conditions, Plan

ALWAYS = ("PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
"""Beside the usual keys of models: they decide which conftests and plugins there are."""

OF_MACHINES = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "LANG", "TERM", "TMPDIR", "HOSTNAME"}
    | {"PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH"}
)
"""Variables of which every machine has its own."""

_NAME = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]*\b")


def usual_variables() -> dict[str, str]:
    """Give what is sent in any case: keys of models, by their usual names."""
    return _set_here({*known_key_names(), *ALWAYS})


class NamedVariables:
    """Finds the variables that plans name: for models, commands, endpoints, servers, in tool files."""

    def __init__(self) -> None:
        self._of_files: dict[str, frozenset[str]] = {}

    def of(self, plan: Plan) -> dict[str, str]:
        """Give those that are set here."""
        task = plan.task
        names = {plan.model.api_key_env, *_names_of_models(plan.conditions)}
        for entry in task.tools:
            names |= self._of_file(entry) if isinstance(entry, str) else _words(repr(entry))
        return _set_here(names | _words(repr(task.form)) if task.form else names)

    def of_models(self, conditions: Conditions) -> dict[str, str]:
        """Give those of judges and users that are set here."""
        return _set_here(set(_names_of_models(conditions)))

    def _of_file(self, path: str) -> frozenset[str]:
        if path not in self._of_files:
            try:
                text = Path(path).read_text(encoding="utf-8", errors="replace")
            except OSError:  # the name of a toolset, which is no file
                text = ""
            self._of_files[path] = frozenset(_words(text))
        return self._of_files[path]


def _names_of_models(conditions: Conditions) -> Iterator[str]:
    yield from (judge.api_key_env for judge in conditions.judges)
    if conditions.user is not None:
        yield conditions.user.api_key_env


def _words(text: str) -> set[str]:
    return set(_NAME.findall(text))


def _set_here(names: set[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in sorted(names & os.environ.keys() - OF_MACHINES)}

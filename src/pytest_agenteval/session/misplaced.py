"""Keys that stand beside the map they belong into: the hint says where they go."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from pytest_agenteval.errors import Problem, ProblemsFound
from pytest_agenteval.tasks.documents import read_document
from pytest_agenteval.tasks.explain import stands_in

_BESIDE_CONFIG = "a grader's own settings stand in `config: {...}`"

_OF_INPUT = ("content", "base_fixture", "fixture_dir")


class KnowsSettings(Protocol):
    """Knows the settings of graders and agents by their names; of an unknown name, none."""

    def settings_of_grader(self, name: str) -> Collection[str]:
        """Give the names of a grader's settings."""
        ...

    def settings_of_agent(self, name: str) -> Collection[str]:
        """Give the names of an agent's settings."""
        ...


def with_places(problems: tuple[Problem, ...], known: KnowsSettings, agent: str) -> Iterator[Problem]:
    """Give problems of task and suite files; an unknown key that is a setting is told where it stands.

    ``agent`` is whose settings are meant where a file names none.
    """
    for problem in problems:
        if problem.path and problem.found.startswith("unknown key "):
            hint = _hint(problem, known, agent)
            yield replace(problem, hint=hint) if hint else problem
        else:
            yield problem


def _hint(problem: Problem, known: KnowsSettings, agent: str) -> str:
    *above, key = problem.path
    owner = _map_at(problem, above)
    if len(above) > 1 and above[-2] == "graders":
        is_setting = key in known.settings_of_grader(str(owner.get("name")))
        return stands_in("config", key) if is_setting else problem.hint or _BESIDE_CONFIG
    if all(isinstance(step, int) for step in above):  # a task, a task of a list, or a suite
        if key in _OF_INPUT and "graders" in owner:
            return stands_in("input", key)
        is_setting = key in known.settings_of_agent(str(owner.get("agent") or agent))
        return stands_in("settings", key) if is_setting else ""
    return ""


def _map_at(problem: Problem, path: list[str | int]) -> Mapping[str, Any]:
    try:
        value: Any = read_document(Path(problem.file)).value
        for step in path:
            value = value[step]
    except (ProblemsFound, LookupError, TypeError):  # changed since it was read
        return {}
    return value if isinstance(value, dict) else {}

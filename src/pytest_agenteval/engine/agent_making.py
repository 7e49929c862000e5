"""Agents, made of what their factories take: what refuses its settings is told so, without a traceback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_agenteval.agents.agent import Agent
from pytest_agenteval.records.factories import AGENT
from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.registry.lazy_names import exception_with_place
from pytest_agenteval.tasks.documents import read_document, short_path
from pytest_agenteval.tasks.file_names import find_suite
from pytest_agenteval.text.canonical import canonical
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, TrialBroken

REFUSALS = (TypeError, ValueError, AssertionError)
"""What is raised over a setting: a class that breaks in another way is no matter of settings."""


class NoAgent(TrialBroken):
    """What was made of an agent's factory and its settings cannot act."""

    cause = "agent"


def make_agent(factory: Callable[..., Any], task: PlannedTask) -> Agent:
    """Make a task's agent with its settings.

    Raises ProblemsFound where the author's code refuses them, and NoAgent where what it makes cannot act.
    """
    try:
        agent: Agent = factory(**task.settings)
    except REFUSALS as refused:
        if not task.settings:  # it has not been told anything: the fault is its own
            raise
        raise ProblemsFound([_refused_settings(task, refused)]) from None
    if not callable(getattr(agent, AGENT.method, None)):
        raise NoAgent(f"the agent {task.agent!r} was made as {agent!r}; expected {AGENT.how}")
    return agent


def _refused_settings(task: PlannedTask, refused: Exception) -> Problem:
    file, line, path = _place_of_settings(task)
    return Problem(
        file=file,
        line=line,
        path=path,
        expected=f"settings that the agent {task.agent!r} can be made with",
        found=f"{canonical(task.settings)}, and it raised {exception_with_place(refused)}",
    )


def _place_of_settings(task: PlannedTask) -> tuple[str, int, KeyPath]:
    """Find where settings stand, in the task's file or else in its suite's."""
    with suppress(ProblemsFound):  # what has changed since it was planned
        task_file = Path(task.file)
        suite_file = find_suite(task_file.parent.absolute(), Path(task_file.absolute().anchor))
        for file in filter(None, (task_file, suite_file)):
            document = read_document(file)
            for path in _PLACES:
                if _holds(document.value, path):
                    return short_path(file), document.line_of(path), path
    return task.row_file or task.file, task.line, ("settings",)


_PLACES: tuple[KeyPath, ...] = (("settings",), ("defaults", "settings"))


def _holds(value: Any, path: KeyPath) -> bool:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value is not None

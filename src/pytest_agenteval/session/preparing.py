"""Completing what a task gives its agent, as the agent's own program does before the agent is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pytest_agenteval.records.plan import PlannedGrader
from pytest_agenteval.records.transcript import NOTHING
from pytest_agenteval.registry import Registry
from pytest_agenteval.tasks.spec import Task

Prepare = Callable[
    [Mapping[str, Any], str, str | None, Callable[[str], str | None]],
    tuple[Mapping[str, Any], Mapping[str, str]],
]


def prepared(
    registry: Registry,
    agent: str,
    graders: Sequence[PlannedGrader],
    task: Task,
    clock: str | None,
    layers: Sequence[str],
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Give a task's whole input, and what is written into its starting workspace.

    The agent's class has the say; of an agent that has none, that agent for whose work the graders are made.
    """
    prepare = _preparing(registry, agent, graders)
    if prepare is None:
        return task.input, NOTHING
    return prepare(task.input, task.id, clock, partial(_read, layers))


def _preparing(registry: Registry, agent: str, graders: Sequence[PlannedGrader]) -> Prepare | None:
    own: Prepare | None = getattr(registry.agent_factory(agent), "prepared", None)
    if own is not None:
        return own
    for grader in graders:
        name = getattr(registry.grader_factory(grader.name), "agent", None)
        if isinstance(name, str):
            theirs: Prepare | None = getattr(registry.agent_factory(name), "prepared", None)
            return theirs
    return None


def _read(layers: Sequence[str], path: str) -> str | None:
    """Read a file of the starting workspace: the highest layer that has it."""
    for layer in reversed(layers):
        try:
            return Path(layer, path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return None

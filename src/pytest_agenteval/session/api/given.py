"""Agents and graders that Python code gives as they are: each has a name, under which plans know it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agenteval.graders.grader import Grader, GraderFunction
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import UsageMistake

GraderGiven: TypeAlias = "str | Mapping[str, Any] | Grader | GraderFunction | Callable[..., Any]"
"""A grader's name, a map as in a task file (whose ``name`` may be a grader itself), or a grader."""

AgentGiven: TypeAlias = "str | Callable[..., Any] | Mapping[str, Any] | object"
"""A registered name, ``module:function``, a map as in suite.yaml, or what acts itself."""


def name_of(thing: Any) -> str:
    """Name a function, a class or an object by where it was written: ``support.bot:answer``."""
    written = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{written.__module__}:{written.__qualname__}".replace(".<locals>", "")


def short_name(thing: Any) -> str:
    """Name it by its own last name alone, as reports do."""
    return name_of(thing).rpartition(":")[2].rpartition(".")[2]


def grader_config(given: GraderGiven, registry: Registry) -> dict[str, Any]:
    """Give the grader as a task file would say it; one that is given itself is registered under its name."""
    if isinstance(given, str):
        return {"name": given}
    if not isinstance(given, Mapping):
        return {"name": _registered(given, registry), "label": short_name(given)}
    written = dict(given)
    thing = written.get("name")
    if thing is not None and not isinstance(thing, str):
        written["name"] = _registered(thing, registry)
        written.setdefault("label", short_name(thing))
    return written


def grader_configs(given: Sequence[GraderGiven], registry: Registry) -> list[dict[str, Any]]:
    """Give graders as a task file would say them; those of one label are numbered."""
    configs = [grader_config(each, registry) for each in given]
    times: dict[str, int] = {}
    for config in configs:
        label = config.get("label")
        if label is not None and "name" in config and ":" in str(config["name"]):
            times[label] = times.get(label, 0) + 1
            config["label"] = label if times[label] == 1 else f"{label} {times[label]}"
    return configs


def _registered(thing: Any, registry: Registry) -> str:
    """Give the name under which a grader is registered, the same each time for the same grader."""
    return registry.grader_given(name_of(thing), thing)


def agent_config(given: AgentGiven | None, registry: Registry, root: Path) -> str | dict[str, Any] | None:
    """Give the agent as a suite's file would say it; what acts itself is offered under its name."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, str):
        is_place = ":" in given and given not in registry.agents
        return {"call": given} if is_place else given
    if not callable(given) and not callable(getattr(given, "run", None)):
        raise UsageMistake(
            f"agent: expected a registered name, 'module:function', a map as in suite.yaml, or a function, "
            f"a class or an object with run; found {given!r:.80}"
        )
    name = name_of(given)
    registry.agent_given(name, given, _paths(root))
    return name


def _paths(root: Path) -> list[str]:
    """Give where another process finds the module: the root, and where a script lies."""
    script = sys.path[0] if sys.path and sys.path[0] else str(root)
    return list(dict.fromkeys([str(root), script]))

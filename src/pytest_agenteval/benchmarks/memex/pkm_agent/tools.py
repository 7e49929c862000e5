"""The eleven tools of the PKM agent, put together for one trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pytest_agenteval.benchmarks.memex.pkm_agent.editing import edit, write
from pytest_agenteval.benchmarks.memex.pkm_agent.finding import glob
from pytest_agenteval.benchmarks.memex.pkm_agent.insight import skip, update_insight
from pytest_agenteval.benchmarks.memex.pkm_agent.library import Library
from pytest_agenteval.benchmarks.memex.pkm_agent.listing import Overview, ls, overview
from pytest_agenteval.benchmarks.memex.pkm_agent.moving import move, remove
from pytest_agenteval.benchmarks.memex.pkm_agent.reading import batch_read, read
from pytest_agenteval.benchmarks.memex.pkm_agent.reminders import REMINDER
from pytest_agenteval.benchmarks.memex.pkm_agent.searching import grep
from pytest_agenteval.benchmarks.memex.pkm_agent.specs import (
    BATCH_READ,
    EDIT,
    GLOB,
    GREP,
    INSIGHT,
    LS,
    MOVE,
    READ,
    REMOVE,
    SKIP,
    WRITE,
    specs,
)
from pytest_agenteval.limits import Clock
from pytest_agenteval.tools.tool import Tool, ToolFunction
from pytest_agenteval.workspace.workspace import Workspace

__all__ = [
    "BATCH_READ",
    "EDIT",
    "GLOB",
    "GREP",
    "INSIGHT",
    "LS",
    "MOVE",
    "READ",
    "REMINDER",
    "REMOVE",
    "SKIP",
    "WRITE",
    "Overview",
    "overview",
    "pkm_tools",
]

_OF_THE_LIBRARY: Mapping[str, Callable[[Library, Mapping[str, Any]], Any]] = {
    READ: read,
    BATCH_READ: batch_read,
    WRITE: write,
    EDIT: edit,
    MOVE: move,
    REMOVE: remove,
    LS: ls,
    GLOB: glob,
    GREP: grep,
}


def pkm_tools(workspace: Workspace, clock: Clock) -> tuple[Tool, ...]:
    """Make the tools of one trial, in the order in which the model is told of them."""
    library = Library(workspace)
    functions: dict[str, ToolFunction] = {
        name: partial(function, library) for name, function in _OF_THE_LIBRARY.items()
    }
    functions |= {INSIGHT: partial(update_insight, workspace, clock), SKIP: skip}
    return tuple(Tool(spec, functions[spec.name]) for spec in specs())

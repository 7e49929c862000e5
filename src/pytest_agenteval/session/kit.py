"""What a suite brings along for its tasks: tools of its own, and cassettes that they share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pytest_agenteval.tasks.layers import suite_places
from pytest_agenteval.tasks.spec import Suite


@dataclass(frozen=True, slots=True)
class Kit:
    """A suite's tool files or packaged sets, the names of all tools in them, and its shared cassettes.

    ``files`` are those that were read for the tools.
    """

    tools: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()


NO_KIT = Kit()


def kit_of(suite: Suite, folder: Path, root: Path) -> Kit:
    """Find what a suite names; raises ProblemsFound for what is not there or cannot be read."""
    shared = suite_places(folder, "cassettes", suite.cassettes, root / "cassettes", root, "file or folder")
    tools = _tools(suite, folder, root) if suite.tools else NO_KIT
    return replace(tools, shared=tuple(map(str, shared)))


def _tools(suite: Suite, folder: Path, root: Path) -> Kit:
    from pytest_agenteval.tools.sets import files_of_tools, load_tools, packaged_sets

    files = [entry for entry in suite.tools if entry not in packaged_sets()]
    found = dict(zip(files, suite_places(folder, "tools", files, root, root, "file"), strict=True))
    tools = tuple(str(found.get(entry, entry)) for entry in suite.tools)
    names = tuple(name for entry in tools for name in load_tools(entry))
    return Kit(tools, names, files=tuple(file for path in found.values() for file in files_of_tools(path)))

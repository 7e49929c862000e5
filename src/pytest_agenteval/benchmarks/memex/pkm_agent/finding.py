"""Finding files by their names: globs over the knowledge base, and the tool ``Glob``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_agenteval.benchmarks.memex.pkm_agent.arguments import folder, telling
from pytest_agenteval.benchmarks.memex.pkm_agent.library import Library, Place
from pytest_agenteval.benchmarks.memex.pkm_agent.paths import outside
from pytest_agenteval.tools.tool import ToolFailed
from pytest_agenteval.workspace.globs import matches, select

MOST_FOUND = 100


def glob(library: Library, args: Mapping[str, Any]) -> str:
    """List the files whose paths fit a pattern: what was written last comes first, then the rest by name."""
    pattern = telling(args, "pattern")
    top = library.place(folder(args, "path"))
    library.must_exist(top)
    if top.real.exists() and not top.is_folder:
        raise ToolFailed(f"{top} is a file, and path must be a folder", "not_a_folder")
    found = files_that_fit(library, pattern, top)
    if not found:
        return f"No file below {top} fits {pattern}."
    found.sort(key=lambda place: (-library.written(place), place.parts))
    more = f"\n\n(The first {MOST_FOUND} of {len(found)}. A narrower pattern shows others.)"
    return "\n".join(map(str, found[:MOST_FOUND])) + (more if len(found) > MOST_FOUND else "")


def files_that_fit(library: Library, pattern: str, top: Place) -> list[Place]:
    """Give the files below a folder that fit a pattern, by path.

    A pattern is read from that folder; one that starts with a slash is read from the root.
    """
    if ".." in pattern.split("/"):
        raise outside(pattern, "a pattern cannot go up")
    above = 0 if pattern.startswith("/") else len(top.parts)
    files = {_from(place, above): place for place in library.files(top)}
    wanted = pattern.lstrip("/").removeprefix("./")
    return [files[path] for path in select(wanted, files)]


def fits(pattern: str, place: Place) -> bool:
    """Whether a place fits a pattern: by its name, or from the root where the pattern has a slash."""
    if "/" in pattern.rstrip("/"):
        return matches(pattern.strip("/"), place.relative)
    return matches(pattern.rstrip("/"), _from(place, len(place.parts) - 1))


def _from(place: Place, above: int) -> str:
    return Place(place.parts[above:], place.real).relative

"""The tools that move and remove: ``Move`` and ``Remove``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.benchmarks.memex.pkm_agent.arguments import flag, refuse, telling
from pytest_agenteval.benchmarks.memex.pkm_agent.library import Library, Place, disk
from pytest_agenteval.benchmarks.memex.pkm_agent.lines import counted
from pytest_agenteval.benchmarks.memex.pkm_agent.paths import MOST_LEVELS
from pytest_agenteval.tools.tool import ToolFailed


def move(library: Library, args: Mapping[str, Any]) -> str:
    """Give a file or folder another name or place, as ``mv`` does.

    An existing folder, or a path that ends with a slash, is moved into. Folders that are not there yet are
    made.
    """
    source = library.place(telling(args, "source_path"))
    destination = telling(args, "destination_path")
    overwrite = flag(args, "overwrite")
    if not source.parts:
        raise refuse("the root itself cannot be moved")
    library.must_exist(source)
    target = _target(library, source, destination)
    _refuse_circle(source, target)
    _refuse_too_deep(source, target)
    replaced = _make_way(source, target, overwrite)
    with disk(source, "moved"):
        target.real.parent.mkdir(parents=True, exist_ok=True)
        source.real.replace(target.real)
    library.moved(source, target)
    return f"Moved {source} to {target}{', over what was there' if replaced else ''}."


def remove(library: Library, args: Mapping[str, Any]) -> str:
    """Remove a file, or a folder with all that is in it; only where it is confirmed."""
    place = library.place(telling(args, "path"))
    if not flag(args, "confirm"):
        raise refuse("nothing was removed: confirm must be true")
    if not place.parts:
        raise refuse("the root itself cannot be removed")
    library.must_exist(place)
    folder = place.is_folder
    count = len(library.files(place)) if folder else 0
    with disk(place, "removed"):
        if folder:
            shutil.rmtree(place.real)
        else:
            place.real.unlink()
    library.removed(place)
    return f"Removed {place} with {counted(count, 'file')} in it." if folder else f"Removed {place}."


def _target(library: Library, source: Place, destination: str) -> Place:
    place = library.place(destination)
    if not place.is_folder and not destination.endswith("/") and place.parts:
        return place
    if place.real.exists() and not place.is_folder:
        raise ToolFailed(f"{place} is a file, so nothing can be moved into it", "not_a_folder")
    if place.parts == source.parts:
        return place
    return library.place("/".join(("", *place.parts, source.parts[-1])))


def _refuse_circle(source: Place, target: Place) -> None:
    if target.parts == source.parts:
        raise ToolFailed(f"{source} is there already", "same_place")
    if target.parts[: len(source.parts)] == source.parts:
        raise ToolFailed(f"{source} cannot be moved into itself", "same_place")


def _refuse_too_deep(source: Place, target: Place) -> None:
    above = len(source.real.parts)
    deepest = max((len(Path(found).parts) - above + 1 for found, _, _ in os.walk(source.real)), default=0)
    if len(target.parts) + deepest > MOST_LEVELS:
        raise refuse(f"a path has at most {MOST_LEVELS} levels")


def _make_way(source: Place, target: Place, overwrite: bool) -> bool:
    """Say whether something will be replaced; a file only by a file, a folder only if it is empty."""
    if not target.real.exists():
        return False
    if source.is_folder != target.is_folder:
        kind = "folder" if target.is_folder else "file"
        raise ToolFailed(f"{target} is a {kind}, and {source} is none", "exists")
    if not overwrite:
        raise ToolFailed(f"{target} is there already; name another, or overwrite it", "exists")
    with disk(target, "listed"):
        if target.is_folder and any(target.real.iterdir()):
            raise ToolFailed(f"{target} is not empty; move what is in {source} piece by piece", "exists")
    return True

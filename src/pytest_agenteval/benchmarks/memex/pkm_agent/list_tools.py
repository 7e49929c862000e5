"""The tools that list files, ``LS`` and ``Glob``, and the overview that the first message shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_agenteval import FixtureBroken, ToolFailed, Workspace
from pytest_agenteval.benchmarks.memex.pkm_agent.arguments import (
    bad_path,
    folder_path,
    number,
    required_text,
    texts,
)
from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import KnowledgeBase, PkmPath
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.workspace.globs import matches, select

MAX_GLOB_FILES = 100


def glob(base: KnowledgeBase, args: Mapping[str, Any]) -> str:
    """List the files whose paths fit a pattern: what was written last comes first, then the rest by name."""
    pattern = required_text(args, "pattern")
    top = base.place(folder_path(args, "path"))
    base.must_exist(top)
    if top.real.exists() and not top.is_folder:
        raise ToolFailed(f"{top} is a file, and path must be a folder", "not_a_folder")
    files = matching_files(base, pattern, top)
    if not files:
        return f"No file below {top} fits {pattern}."
    files.sort(key=lambda place: (-base.write_number(place), place.parts))
    more = f"\n\n(The first {MAX_GLOB_FILES} of {len(files)}. A narrower pattern shows others.)"
    return "\n".join(map(str, files[:MAX_GLOB_FILES])) + (more if len(files) > MAX_GLOB_FILES else "")


def matching_files(base: KnowledgeBase, pattern: str, top: PkmPath) -> list[PkmPath]:
    """Give the files below a folder that fit a pattern, by path.

    A pattern is read from that folder; one that starts with a slash is read from the root.
    """
    if ".." in pattern.split("/"):
        raise bad_path(pattern, "a pattern cannot go up")
    above = 0 if pattern.startswith("/") else len(top.parts)
    files = {_relative_from(place, above): place for place in base.files(top)}
    relative_pattern = pattern.lstrip("/").removeprefix("./")
    return [files[path] for path in select(relative_pattern, files)]


def matches_pattern(pattern: str, place: PkmPath) -> bool:
    """Whether a place fits a pattern: by its name, or from the root where the pattern has a slash."""
    if "/" in pattern.rstrip("/"):
        return matches(pattern.strip("/"), place.relative)
    return matches(pattern.rstrip("/"), _relative_from(place, len(place.parts) - 1))


def _relative_from(place: PkmPath, above: int) -> str:
    return PkmPath(place.parts[above:], place.real).relative


MAX_NAMES = 1000
USUAL_DEPTH = 3


class Overview(FrozenValue, frozen=True):
    """The knowledge base at one glance.

    ``tree`` draws it, two spaces a level, folders with a slash at the end. ``entries`` counts the names it
    shows; where there are more than may be shown, ``truncated`` is true, the upper levels come first, and
    a line tells how many names of a folder are missing.
    """

    tree: str
    entries: int
    truncated: bool


def overview(workspace: Workspace) -> Overview:
    """Draw the whole knowledge base; raises FixtureBroken where there is something else in its place."""
    base = KnowledgeBase(workspace)
    try:
        return _draw(base, base.root(), None, lambda place: False)
    except ToolFailed as failed:
        raise FixtureBroken(str(failed)) from failed


def ls(base: KnowledgeBase, args: Mapping[str, Any]) -> str:
    """List a folder as a tree, some levels deep."""
    top = base.place(folder_path(args, "path"))
    ignored, depth = texts(args, "ignore"), number(args, "depth", 1) or USUAL_DEPTH
    base.must_exist(top)
    if top.real.exists() and not top.is_folder:
        raise ToolFailed(f"{top} is a file; Read shows it", "not_a_folder")
    drawn = _draw(base, top, depth, lambda place: any(matches_pattern(pattern, place) for pattern in ignored))
    if not drawn.entries:
        return f"{top} is empty."
    stopped = f"\n\n(Stopped at {MAX_NAMES} names. List a folder by itself to see more of it.)"
    return drawn.tree + (stopped if drawn.truncated else "")


def _draw(
    base: KnowledgeBase, top: PkmPath, depth: int | None, ignored: Callable[[PkmPath], bool]
) -> Overview:
    """Gather names level by level, so that a limit cuts off the deepest; then draw them folder by folder."""
    drawn: dict[tuple[str, ...], list[PkmPath]] = {}
    missing: dict[tuple[str, ...], int] = {}
    room, truncated = MAX_NAMES, False
    waiting = deque([top])
    while waiting:
        here = waiting.popleft()
        names = [place for place in base.inside(here) if not ignored(place)]
        too_deep = depth is not None and len(here.parts) - len(top.parts) >= depth
        listed = [] if too_deep else names[:room]
        drawn[here.parts], missing[here.parts] = listed, len(names) - len(listed)
        room -= len(listed)
        truncated = truncated or (not too_deep and len(listed) < len(names))
        waiting.extend(place for place in listed if place.is_folder)
    return Overview("\n".join(_lines(top, drawn, missing)), MAX_NAMES - room, truncated)


def _lines(
    top: PkmPath, drawn: Mapping[tuple[str, ...], list[PkmPath]], missing: Mapping[tuple[str, ...], int]
) -> Iterator[str]:
    yield f"{str(top).rstrip('/')}/"
    # A stack, not a function that calls itself: a fixture may be deeper than Python goes.
    waiting: list[PkmPath | str] = _below(top, drawn, missing)
    while waiting:
        here = waiting.pop()
        if isinstance(here, str):
            yield here
            continue
        indent = "  " * (len(here.parts) - len(top.parts))
        name = PkmPath(here.parts[-1:], here.real).relative
        yield f"{indent}{name}{'/' if here.parts in drawn else ''}"
        if here.parts in drawn:
            waiting += _below(here, drawn, missing, indent)


def _below(
    here: PkmPath,
    drawn: Mapping[tuple[str, ...], list[PkmPath]],
    missing: Mapping[tuple[str, ...], int],
    indent: str = "",
) -> list[PkmPath | str]:
    """Give what comes below a folder, the last first."""
    more = missing[here.parts]
    last: list[PkmPath | str] = [f"{indent}  … {more} more"] if more else []
    return [*last, *reversed(drawn[here.parts])]

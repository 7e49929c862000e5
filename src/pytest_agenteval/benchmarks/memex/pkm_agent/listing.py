"""Drawing the tree: the tool ``LS``, and the overview that the first message shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_agenteval.benchmarks.memex.pkm_agent.arguments import folder, number, texts
from pytest_agenteval.benchmarks.memex.pkm_agent.finding import fits
from pytest_agenteval.benchmarks.memex.pkm_agent.library import Library, Place
from pytest_agenteval.errors import FixtureBroken
from pytest_agenteval.tools.tool import ToolFailed
from pytest_agenteval.workspace.workspace import Workspace

MOST_NAMES = 1000
USUAL_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Overview:
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
    library = Library(workspace)
    try:
        return _drawn(library, library.root(), None, lambda place: False)
    except ToolFailed as failed:
        raise FixtureBroken(str(failed)) from failed


def ls(library: Library, args: Mapping[str, Any]) -> str:
    """List a folder as a tree, some levels deep."""
    top = library.place(folder(args, "path"))
    ignored, depth = texts(args, "ignore"), number(args, "depth", 1) or USUAL_DEPTH
    library.must_exist(top)
    if top.real.exists() and not top.is_folder:
        raise ToolFailed(f"{top} is a file; Read shows it", "not_a_folder")
    drawn = _drawn(library, top, depth, lambda place: any(fits(pattern, place) for pattern in ignored))
    if not drawn.entries:
        return f"{top} is empty."
    stopped = f"\n\n(Stopped at {MOST_NAMES} names. List a folder by itself to see more of it.)"
    return drawn.tree + (stopped if drawn.truncated else "")


def _drawn(library: Library, top: Place, depth: int | None, ignored: Callable[[Place], bool]) -> Overview:
    """Gather names level by level, so that a limit cuts off the deepest; then draw them folder by folder."""
    shown: dict[tuple[str, ...], list[Place]] = {}
    missing: dict[tuple[str, ...], int] = {}
    room, truncated = MOST_NAMES, False
    waiting = deque([top])
    while waiting:
        here = waiting.popleft()
        names = [place for place in library.inside(here) if not ignored(place)]
        too_deep = depth is not None and len(here.parts) - len(top.parts) >= depth
        taken = [] if too_deep else names[:room]
        shown[here.parts], missing[here.parts] = taken, len(names) - len(taken)
        room -= len(taken)
        truncated = truncated or (not too_deep and len(taken) < len(names))
        waiting.extend(place for place in taken if place.is_folder)
    return Overview("\n".join(_lines(top, shown, missing)), MOST_NAMES - room, truncated)


def _lines(
    top: Place, shown: Mapping[tuple[str, ...], list[Place]], missing: Mapping[tuple[str, ...], int]
) -> Iterator[str]:
    yield f"{str(top).rstrip('/')}/"
    # A stack, not a function that calls itself: a fixture may be deeper than Python goes.
    waiting: list[Place | str] = _below(top, shown, missing)
    while waiting:
        here = waiting.pop()
        if isinstance(here, str):
            yield here
            continue
        indent = "  " * (len(here.parts) - len(top.parts))
        name = Place(here.parts[-1:], here.real).relative
        yield f"{indent}{name}{'/' if here.parts in shown else ''}"
        if here.parts in shown:
            waiting += _below(here, shown, missing, indent)


def _below(
    here: Place,
    shown: Mapping[tuple[str, ...], list[Place]],
    missing: Mapping[tuple[str, ...], int],
    indent: str = "",
) -> list[Place | str]:
    """Give what comes below a folder, the last first."""
    more = missing[here.parts]
    last: list[Place | str] = [f"{indent}  … {more} more"] if more else []
    return [*last, *reversed(shown[here.parts])]

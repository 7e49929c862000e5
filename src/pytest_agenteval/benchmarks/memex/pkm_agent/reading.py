"""The tools that read files: ``Read`` and ``BatchRead``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_agenteval.benchmarks.memex.pkm_agent.arguments import number, refuse, telling, texts
from pytest_agenteval.benchmarks.memex.pkm_agent.finding import files_that_fit
from pytest_agenteval.benchmarks.memex.pkm_agent.library import Library, Place
from pytest_agenteval.benchmarks.memex.pkm_agent.lines import counted, cut, lines_of
from pytest_agenteval.benchmarks.memex.pkm_agent.reminders import reminders
from pytest_agenteval.tools.tool import ToolFailed

MOST_LINES = 2000
MOST_BYTES = 256 * 1024
"""What one file may give in one call."""

MOST_BYTES_TOGETHER = 512 * 1024
MOST_FILES = 100

_GLOB = frozenset("*?[{")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a file as they are shown, and which of how many they are."""

    text: str
    first: int
    last: int
    total: int

    @property
    def note(self) -> str:
        """What is not shown, an empty text where the whole file is."""
        if self.first == 1 and self.last == self.total:
            return ""
        more = f" Go on with offset {self.last + 1}." if self.last < self.total else ""
        return f"(Lines {self.first} to {self.last} of {self.total}.{more})"


def read(library: Library, args: Mapping[str, Any]) -> str:
    """Read a file, or some lines of it; reminders that it calls for stand below."""
    place = library.place(telling(args, "file_path"))
    offset, limit = number(args, "offset", 1) or 1, number(args, "limit", 1) or MOST_LINES
    lines = lines_of(library.text(place))
    if not lines:
        # No line break before it, so that this is no REMINDER to put anything in order.
        return f"<reminder>\n{place} is there, and empty.\n</reminder>" + reminders(library, place, 0)
    if offset > len(lines):
        raise ToolFailed(f"{place} has {counted(len(lines))}, so none from {offset} on", "out_of_range")
    shown = excerpt(lines, offset, limit)
    note = f"\n\n{shown.note}" if shown.note else ""
    return shown.text + note + reminders(library, place, len(lines))


def batch_read(library: Library, args: Mapping[str, Any]) -> str:
    """Read many files one after the other; what cannot be read is said in its place, and is no error."""
    patterns = texts(args, "file_patterns")
    if not patterns:
        raise refuse("file_patterns must name at least one path or glob")
    pieces: list[str] = []
    left_out: list[Place] = []
    room = MOST_BYTES_TOGETHER
    for found in _wanted(library, patterns):
        if isinstance(found, str):
            pieces.append(found)
            continue
        piece = _piece(library, found) if room > 0 and len(pieces) < MOST_FILES else ""
        room -= len(piece.encode("utf-8"))
        if piece and room > 0:
            pieces.append(piece)
        else:
            left_out.append(found)
    return "\n\n".join([*pieces, *_said_of(left_out)])


def excerpt(lines: list[str], first: int, limit: int) -> Excerpt:
    """Number lines from the first that is wanted on, as many as one call may show."""
    shown: list[str] = []
    size = 0
    for place, line in enumerate(lines[first - 1 :][: min(limit, MOST_LINES)], first):
        numbered = f"{place:6}\t{cut(line)}"
        size += len(numbered.encode("utf-8")) + 1
        if size > MOST_BYTES and shown:
            break
        shown.append(numbered)
    return Excerpt("\n".join(shown), first, first + len(shown) - 1, len(lines))


def _wanted(library: Library, patterns: Iterable[str]) -> list[Place | str]:
    """Give each file that is meant, once, and a line for each pattern that means none."""
    found: dict[tuple[str, ...] | str, Place | str] = {}
    for pattern in patterns:
        try:
            for place in _meant(library, pattern):
                found.setdefault(place.parts, place)
        except ToolFailed as failed:
            said = f"=== {failed}"
            found.setdefault(said, said)
    return list(found.values())


def _meant(library: Library, pattern: str) -> list[Place]:
    if not _GLOB.intersection(pattern) or _is_there(library, pattern):
        return [library.place(pattern)]
    places = files_that_fit(library, pattern, library.root())
    if not places:
        raise ToolFailed(f"no file fits {pattern}", "not_found")
    return places


def _is_there(library: Library, path: str) -> bool:
    """Whether what could be a glob is the name of a file."""
    try:
        return library.place(path).real.exists()
    except ToolFailed:
        return False


def _piece(library: Library, place: Place) -> str:
    try:
        lines = lines_of(library.text(place))
    except ToolFailed as failed:
        return f"=== {failed}"
    shown = excerpt(lines, 1, MOST_LINES)
    head = f"=== {place} ({counted(len(lines))})" if lines else f"=== {place} (empty)"
    return "\n".join(filter(None, (head, shown.text, shown.note)))


def _said_of(left_out: list[Place]) -> list[str]:
    if not left_out:
        return []
    names = ", ".join(map(str, left_out[:20]))
    more = f" and {len(left_out) - 20} more" if len(left_out) > 20 else ""
    return [f"=== left out, as this is long already: {names}{more}. Read them in another call."]

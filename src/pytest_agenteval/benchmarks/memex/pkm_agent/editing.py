"""The tools that write files: ``Write`` and ``Edit``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.benchmarks.memex.pkm_agent.arguments import flag, refuse, telling, text
from pytest_agenteval.benchmarks.memex.pkm_agent.library import Library, Place
from pytest_agenteval.benchmarks.memex.pkm_agent.lines import counted, lines_of
from pytest_agenteval.tools.tool import ToolFailed

_NUMBERED = re.compile(r"^ *[0-9]+\t", re.MULTILINE)


def write(library: Library, args: Mapping[str, Any]) -> str:
    """Create a file, or put another text in its place; a file that is not text is not written over."""
    path, content = telling(args, "file_path"), text(args, "content")
    place = _file(library, path)
    there = place.real.exists()
    if there:
        library.text(place)
    library.save(place, content)
    return f"{'Replaced' if there else 'Created'} {place}: {_lines(content)}."


def edit(library: Library, args: Mapping[str, Any]) -> str:
    """Put one text in another's place within a file; with an empty old text, create the file."""
    path = telling(args, "file_path")
    old, new = text(args, "old_string"), text(args, "new_string")
    everywhere = flag(args, "replace_all")
    if old == new:
        raise refuse("old_string and new_string are the same, so there is nothing to do")
    place = _file(library, path)
    if not old:
        return _create(library, place, new)
    before = library.text(place)
    old, new = _with_line_ends_of(before, old), _with_line_ends_of(before, new)
    count = _found_once(place, before, old) if not everywhere else _found(place, before, old)
    after = before.replace(old, new)
    library.save(place, after)
    return f"Edited {place}: {counted(count, 'place')}, {_lines(after)} now."


def _create(library: Library, place: Place, content: str) -> str:
    if place.real.exists():
        raise ToolFailed(f"{place} is there already; give the old_string that is to be replaced", "exists")
    library.save(place, content)
    return f"Created {place}: {_lines(content)}."


def _file(library: Library, path: str) -> Place:
    place = library.place(path)
    if place.is_folder or not place.parts:
        raise ToolFailed(f"{place} is a folder", "is_a_folder")
    if path.endswith("/"):
        raise refuse(f"file_path must name a file, not a folder: {place}/")
    return place


def _found_once(place: Place, before: str, old: str) -> int:
    count = _found(place, before, old)
    first = before.find(old)
    # Not the count, which leaves out what overlaps.
    if before.find(old, first + 1) >= 0:
        often = f"{count} times" if count > 1 else "twice, overlapping itself,"
        raise ToolFailed(
            f"old_string stands {often} in {place}; give more of the text around it, or replace_all",
            "ambiguous",
        )
    return count


def _found(place: Place, before: str, old: str) -> int:
    count = before.count(old)
    if not count:
        raise ToolFailed(f"old_string does not stand in {place}{_hint(before, old)}", "no_match")
    return count


def _hint(before: str, old: str) -> str:
    if _NUMBERED.search(old) and _NUMBERED.sub("", old) in before:
        return "; leave out the line numbers and tabs that Read puts before each line"
    if " ".join(old.split()) in " ".join(before.split()):
        return "; its words do, with other spaces or line breaks between them"
    return "; it must be the text of the file, letter by letter: read the file first"


def _with_line_ends_of(before: str, given: str) -> str:
    """Write line breaks as the file does: an agent never sees whether a line ends with ``\\r\\n``."""
    if "\r\n" not in before or before.count("\n") != before.count("\r\n"):
        return given
    return given.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines(content: str) -> str:
    return counted(len(lines_of(content)))

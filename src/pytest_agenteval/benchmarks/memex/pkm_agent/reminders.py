"""What a reader is told of a file that has become unwieldy, beside its text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_agenteval.benchmarks.memex.pkm_agent.library import Library, Place
from pytest_agenteval.tools.tool import ToolFailed

REMINDER = "\n<reminder>"
"""Stands in the result of a Read that came with reminders, and in no other.

A file cannot forge it: each of its lines stands behind a number. After such a Read the insight tool does not
end the run: there is time to put the file in order.
"""

LONG = 1000
TOO_LONG = 2000
MANY_SMALL = 5

_MARKER = re.compile(r"<!--\s*fact_id:")
_YEAR, _MM, _DD = "(?:19|20)[0-9]{2}", "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
_M, _D = "(?:0?[1-9]|1[0-2])", "(?:0?[1-9]|[12][0-9]|3[01])"
_DATES = (
    rf"{_YEAR}(?P<first>[-_. ]){_M}(?P=first){_D}",
    rf"{_YEAR}[-_.]{_MM}",
    rf"{_YEAR}{_MM}{_DD}",
    rf"{_D}(?P<last>[-_. ]){_M}(?P=last){_YEAR}",
    rf"{_YEAR} ?[年년] ?{_M} ?[月월](?: ?{_D} ?[日일])?",
)
_DATE = re.compile(f"(?<![0-9])(?:{'|'.join(_DATES)})(?![0-9])")


def reminders(library: Library, place: Place, lines: int) -> str:
    """Write the reminders that a file of so many lines calls for; an empty text where there are none."""
    found = [*_of_length(place, lines), *_of_folder(library, place), *_of_name(place)]
    return "".join(f"\n{REMINDER}\n{said}\n</reminder>" for said in found)


def _of_length(place: Place, lines: int) -> Iterator[str]:
    if lines >= TOO_LONG:
        yield f"{place} has {lines} lines, more than one file should hold. Split it by subject."
    elif lines > LONG:
        yield f"{place} has {lines} lines and keeps growing. See whether it falls into two subjects."


def _of_folder(library: Library, place: Place) -> Iterator[str]:
    folder = Place(place.parts[:-1], place.real.parent)
    files = [file for file in library.inside(folder) if not file.is_folder]
    if len(files) <= MANY_SMALL:
        return
    small = sum(_is_small(library, file) for file in files)
    if small > MANY_SMALL:
        yield f"{folder} holds {small} files with one entry or none. Merge those that share a subject."


def _of_name(place: Place) -> Iterator[str]:
    if _DATE.search(place.parts[-1]):
        yield f"{place} is named by a date. Name it by its subject, or merge it into the file on that."


def _is_small(library: Library, file: Place) -> bool:
    try:
        return len(_MARKER.findall(library.text(file))) <= 1
    except ToolFailed:  # no text: no note either
        return False

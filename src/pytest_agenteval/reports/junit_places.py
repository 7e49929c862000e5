"""File and line of each trial in JUnit files, in every family and in the way each reader looks for them.

pytest writes ``file`` and ``line`` in the family xunit1 only, and counts lines from 0, which readers take for
no line at all. dorny/test-reporter reads neither: it looks for a line of a stack trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pytest_agenteval.reports.junit import MOST_PATH, Property, bounded

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

FILE, LINE = "agenteval.file", "agenteval.line"


def place_properties(file: str, line: int | None) -> list[Property]:
    """Give where a trial's task stands: its file from pytest's rootdir, and a line from 1 if one is known."""
    if not file:
        return []
    return [(FILE, bounded(file, MOST_PATH)), *([(LINE, str(line))] if line else [])]


def set_places(cases: Iterable[Element]) -> None:
    """Give each test case the file and the line that its properties name; what broke it names them last."""
    for case in cases:
        properties = {str(each.get("name")): str(each.get("value")) for each in case.iter("property")}
        if FILE not in properties:
            continue
        case.set("file", properties[FILE])
        case.attrib.pop("line", None)
        if LINE in properties:
            case.set("line", properties[LINE])
            frame = stack_line(properties[FILE], int(properties[LINE]))
            for broken in (*case.iter("failure"), *case.iter("error")):
                broken.text = "\n".join(filter(None, (broken.text, frame)))


def stack_line(file: str, line: int) -> str:
    """Write a place as a line of a stack trace: ``at evals.travel(flights.yaml:12)``.

    The folders are as many of the last ones as can be told from a class there; empty where that is none.
    """
    path = PurePosixPath(file)
    packages = list(takewhile(_is_package, reversed(path.parts[:-1])))
    return f"at {'.'.join(reversed(packages))}({path.name}:{line})" if packages else ""


def _is_package(folder: str) -> bool:
    return folder[0] > "Z" and "." not in folder

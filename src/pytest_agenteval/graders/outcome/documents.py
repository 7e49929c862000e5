"""Reading JSON, YAML and front matter out of what an agent wrote, as strictly as task files are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_agenteval.errors import ProblemsFound
from pytest_agenteval.tasks.documents import parse_document

_FRONT = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE
)
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<inside>.*?)\n?[ \t]*(?P=fence)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Read:
    """The value that a text stands for or, where it cannot be read, why."""

    value: Any = None
    problem: str = ""


def read(text: str, name: str) -> Read:
    """Read a text as the JSON or YAML that a file of this name holds: no key twice, no yes or no."""
    try:
        return Read(parse_document(Path(name), text.encode("utf-8", "surrogatepass")).value)
    except ProblemsFound as found:
        first = found.problems[0]
        line = "" if first.line is None else f"line {first.line}: "
        return Read(problem=f"{line}{first.found} in place of {first.expected}")


def read_front_matter(text: str) -> Read:
    """Read the YAML between the ``---`` lines at a text's beginning; where there are none, it is empty."""
    found = _FRONT.match(text)
    if found is None:
        return Read({})
    front = read("\n" + found["yaml"], "front-matter.yaml")  # the line before it keeps the lines' numbers
    return Read({}) if front == Read(None) else front


def read_answer(text: str) -> Read:
    """Read an answer that is one JSON value, or one code fence that holds one."""
    stripped = text.strip()
    if not stripped:
        return Read(problem="no answer")
    fenced = _FENCE.fullmatch(stripped)
    return read(stripped if fenced is None else fenced["inside"], "answer.json")

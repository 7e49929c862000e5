"""Finding the files that a path or glob means, and reading their texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_agenteval.records.evidence import Tree
from pytest_agenteval.records.grade import Check, Grade
from pytest_agenteval.workspace.globs import select


@dataclass(frozen=True, slots=True)
class Reading:
    """One file's text or, where it has none to be read, what it is instead."""

    path: str
    text: str = ""
    problem: str = ""


def fitting(path: str, tree: Tree) -> list[str]:
    """Give the file of exactly this path, else every file that fits it as a glob."""
    return [path] if path in tree else select(path, tree)


def readings(path: str, tree: Tree) -> list[Reading]:
    """Read each file that a path or glob means; where it means none, that is the one reading."""
    found = [_reading(each, tree) for each in fitting(path, tree)]
    return found or [Reading(path, problem="no such file")]


def best(grader: str, files: Sequence[Reading], ask: Callable[[Reading], Sequence[Check]]) -> Grade:
    """Ask the same of every file, and give the best grade: of several files, any one is enough."""
    grades = [Grade.from_checks(grader, ask(file)) for file in files]
    return max(grades, key=lambda grade: grade.score or 0.0)


def _reading(path: str, tree: Tree) -> Reading:
    file = tree.files[path]
    if file.text is not None:
        return Reading(path, file.text)
    what = {"link": "a link", "too large": "a file too large to be kept"}.get(file.why, "a binary file")
    return Reading(path, problem=f"{what} ({file.size} bytes)")

"""From a file to a suite or to tasks: all of it, or every problem that its author has to mend."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from pytest_agenteval.canonical import JSON
from pytest_agenteval.errors import KeyPath, Problem, ProblemsFound
from pytest_agenteval.tasks.discover import is_task_name
from pytest_agenteval.tasks.documents import (
    Document,
    lines_of_ids,
    parse_document,
    read_bytes,
    read_document,
    shown,
)
from pytest_agenteval.tasks.explain import causes, explain, in_words
from pytest_agenteval.tasks.spec import Suite, Task

_WORDS_OF_A_TASK = (re.compile(rb"\bid\b"), re.compile(rb"\bgraders\b"))
_A_TASK = "a task (a map with `id`, `input` and `graders`), or a list of tasks"


@dataclass(frozen=True, slots=True)
class LoadedTask:
    """A task and where it was written; ``index`` is None for a task in a file of its own."""

    task: Task
    file: Path
    line: int
    index: int | None
    bucket: str


def load_suite(path: Path) -> Suite:
    """Read a suite file, or raise every problem in it."""
    document = read_document(path)
    try:
        return Suite.model_validate(document.value)
    except ValidationError as error:
        raise ProblemsFound(explain(error, document, shown(path), (), shape(Suite))) from None


def load_tasks(
    path: Path,
    suite: Suite | None = None,
    top: Path | None = None,
    *,
    named: bool = False,
    alone: bool = False,
) -> tuple[LoadedTask, ...]:
    """Read the tasks of a file, or raise every problem in it.

    A file that does not look like a task gives none, unless its name says that it is one, or it was
    ``named`` on the command line. Where it stands ``alone``, in no suite, its name says little: other tools
    have a ``task.yaml`` too. ``top`` is the suite's folder, else the project's.
    """
    named = named or (is_task_name(path) and not alone)
    document = _document(path, read_bytes(path), named)
    if document is None or not _looks_like_tasks(document, named):
        return ()
    tasks = _validated(document, suite)
    lines = lines_of_ids(document)
    place = _folder_bucket(path, suite, top)
    single = not isinstance(document.value, list)
    return tuple(
        LoadedTask(task, path, lines[index], None if single else index, _named_bucket(task) or place)
        for index, task in enumerate(tasks)
    )


@cache
def shape(model: type[BaseModel]) -> Mapping[str, Any]:
    """Give the JSON Schema of a model; made only when a problem has to be explained."""
    return model.model_json_schema()


def _document(path: Path, data: bytes, named: bool) -> Document | None:
    try:
        return parse_document(path, data)
    except ProblemsFound:
        if named or all(word.search(data) for word in _WORDS_OF_A_TASK):
            raise
        return None


def _looks_like_tasks(document: Document, named: bool) -> bool:
    value = document.value
    entries = value if isinstance(value, list) else [value]
    if any(isinstance(entry, dict) and _resembles_task(entry, document.path) for entry in entries):
        return True
    if named:
        problem = Problem(shown(document.path), document.line_of(()), (), _A_TASK, in_words(value))
        raise ProblemsFound([problem])
    return False


def _resembles_task(entry: Mapping[str, Any], path: Path) -> bool:
    if is_task_name(path):
        return "graders" in entry or {"id", "input"} <= entry.keys()
    return "id" in entry and "graders" in entry


def _validated(document: Document, suite: Suite | None) -> list[Task]:
    value, file = document.value, shown(document.path)
    entries: Sequence[JSON] = value if isinstance(value, list) else [value]
    tasks: list[Task] = []
    problems: list[Problem] = []
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        place: KeyPath = (index,) if entries is value else ()
        try:
            task = Task.model_validate(entry)
        except ValidationError as error:
            problems += explain(error, document, file, place, shape(Task))
        else:
            tasks.append(task)
            problems += _second_of_its_name(task, first, index, document)
        problems += _without_reference(entry, suite, document, place)
    if problems:
        raise ProblemsFound(causes(problems))
    return tasks


def _second_of_its_name(task: Task, first: dict[str, int], index: int, document: Document) -> list[Problem]:
    earlier = first.setdefault(task.id, index)
    if earlier == index:
        return []
    path = (index, "id")
    line, other = document.line_of(path), document.line_of((earlier, "id"))
    found = f"{task.id!r}, which the task on line {other} has too"
    return [Problem(shown(document.path), line, path, "an id of its own", found)]


def _without_reference(entry: JSON, suite: Suite | None, document: Document, place: KeyPath) -> list[Problem]:
    if suite is None or not suite.require_reference_solution or not isinstance(entry, dict):
        return []
    if entry.get("reference_solution") is not None:
        return []
    path = (*place, "reference_solution")
    expected = f"a map: how it is solved (the suite {suite.name!r} requires it)"
    found = "nothing" if "reference_solution" in entry else "no key 'reference_solution'"
    return [Problem(shown(document.path), document.line_of(path), path, expected, found)]


def _named_bucket(task: Task) -> str:
    return task.metadata.get("failure_bucket", "").strip()


def _folder_bucket(path: Path, suite: Suite | None, top: Path | None) -> str:
    """Name the folder that groups a file with others: for ``task.*`` its folder holds that task only.

    ``top`` is the suite's folder, else the project's: what is not below it groups nothing.
    """
    folder = path.parent.parent if is_task_name(path) else path.parent
    if top is None or str(folder).startswith(f"{top}{os.sep}"):
        return folder.name
    return suite.name if suite else path.parent.name

"""Reads a suite or tasks from a file: all of it, or every problem that its author has to mend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace as replace_fields

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import (
    ParsedDocument,
    is_blank,
    is_nearly_task,
    is_task,
    lines_of_ids,
    may_be_task,
    parse_document,
    read_bytes,
    read_document,
    short_path,
    task_entries,
    top_level_keys,
)
from pytest_agenteval.tasks.file_names import SUITE_NAMES, folder_of, is_task_name
from pytest_agenteval.tasks.suite_spec import NOTHING_PROMOTED, Regression, Suite
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.tasks.validation import (
    SpecRefused,
    problems_of,
    read_spec,
    spec_of,
    value_text,
    without_consequences,
)
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound
from pytest_agenteval.text.json_values import JSON

# The file beside a suite's with the names that ``agenteval promote`` adds and ``demote`` takes out. An author
# may list names in the suite's own file too, under ``regression``: those of both files count.
PROMOTED_FILE = "_promoted.yaml"

WORDS_OF_A_TASK = (re.compile(rb"\bid\b"), re.compile(rb"\bgraders\b"))
_ASIDE = "put data that is not a task into a file or folder whose name begins with '_'"
_LABELS = "a calibration needs `kind: calibration`"
_A_TASK = "a task (a map with `id`, `input` and `graders`), or a list of tasks"


class DoubtfulFile(ProblemsFound):
    """A file that may be a broken task or somebody's data: an author who names it as data settles that."""


class TaskFolders(Protocol):
    """Where a task is written that is in no task file; it reports the problems of the task there."""

    @property
    def file(self) -> Path | None:
        """The file that the task is written in, if it is one."""
        ...

    def problem(self, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem: ...


class LoadedTask(FrozenValue, frozen=True):
    """A task and where it was written; ``at`` leads to it in its file, and is empty if it is all of the file.

    For a task that is a row of a table, ``file`` is the suite's, and ``place`` says where the row is. For a
    task that is written in Python, ``file`` is the module's.
    """

    task: Task
    file: Path
    line: int
    at: KeyPath
    bucket: str
    place: TaskFolders | None = None

    def problem(self, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
        """Give the problem at a key of the task, at the place where its author wrote the key."""
        if self.place is not None:
            return self.place.problem(path, expected, found, hint)
        path = (*self.at, *path)
        line = read_document(self.file).line_of(path)
        return Problem(short_path(self.file), line, path, expected, found, hint)

    def at_place(self, problem: Problem) -> Problem:
        """Move a problem of a file that the task names to the place where its author wrote the name."""
        if self.place is None or problem.path[:1] not in (("input",), ("graders",)):
            return problem
        return self.problem(problem.path, problem.expected, problem.found, problem.hint)


def load_suite(path: Path) -> Suite:
    """Read a suite file and the promoted names beside it, or raise every problem in them."""
    suite, beside = read_spec(Suite, read_document(path)), promoted_beside(path)
    if beside == NOTHING_PROMOTED:
        return suite
    return replace_fields(suite, regression=joined(suite.regression, beside))


def promoted_beside(suite_file: Path) -> Regression:
    """Read the promoted names beside a suite's file; raises ProblemsFound for a file with problems."""
    file = suite_file.with_name(PROMOTED_FILE)
    return read_spec(Regression, read_document(file)) if file.is_file() else NOTHING_PROMOTED


def joined(first: Regression, second: Regression) -> Regression:
    """Give the names of both, each once, in their order."""
    return Regression(
        buckets=tuple(dict.fromkeys((*first.buckets, *second.buckets))),
        tasks=tuple(dict.fromkeys((*first.tasks, *second.tasks))),
    )


def load_tasks(
    path: Path,
    suite: Suite | None = None,
    top: Path | None = None,
    *,
    named: bool = False,
    alone: bool = False,
) -> tuple[LoadedTask, ...]:
    """Read the tasks of a file, or raise every problem in it.

    ``top`` is the suite's folder, else the project's. The suite's own file gives the tasks that it holds and
    the rows that it names.

    Below a suite, a file that is nearly a task is a problem, and so is a file that cannot be read; the error
    is DoubtfulFile where the file may just as well be somebody's data. A file that is surely data gives no
    task.

    In no suite, a file gives no task unless it is a whole task, its name says that it is a task, or it was
    ``named`` on the command line. Where it stands ``alone``, its name says little: other tools have a
    ``task.yaml``, too.
    """
    if suite is not None and suite.tasks and path.name in SUITE_NAMES:
        return load_own_tasks(read_document(path), suite)
    task_name = is_task_name(path)
    sure = named or (task_name and not alone)
    document = _document(path, read_bytes(path), sure, below_suite=suite is not None)
    if document is None or not _holds_tasks(document, sure, below_suite=suite is not None):
        return ()
    place = _folder_bucket(folder_of(path), task_name, suite.name if suite else "", top)
    return _tasks_in(document, suite, place)


def _tasks_in(document: ParsedDocument, suite: Suite | None, bucket: str) -> tuple[LoadedTask, ...]:
    tasks = _validate(document, suite)
    entries, lines = task_entries(document), lines_of_ids(document)
    return tuple(
        LoadedTask(task, document.path, line, at, _named_bucket(task) or bucket)
        for task, (at, _), line in zip(tasks, entries, lines, strict=True)
    )


def load_own_tasks(document: ParsedDocument, suite: Suite) -> tuple[LoadedTask, ...]:
    """Read the tasks in a suite's file, then the rows that it names, or raise every problem in them."""
    tasks: list[LoadedTask] = []
    problems: list[Problem] = []
    for read in (partial(_tasks_in, document, suite, suite.name), partial(load_rows, document, suite)):
        try:
            tasks += read()
        except ProblemsFound as wrong:
            problems += wrong.problems
    if problems:
        raise ProblemsFound(problems)
    return tuple(tasks)


def load_rows(document: ParsedDocument, suite: Suite) -> tuple[LoadedTask, ...]:
    """Read the rows that a suite, read from ``document``, makes tasks of, or raise every problem in them."""
    if not (tables := suite.tables):
        return ()
    from pytest_agenteval.tasks.row_tables import RowProblems
    from pytest_agenteval.tasks.row_tasks import row_tasks

    tasks: list[LoadedTask] = []
    wrong = RowProblems()
    for row in row_tasks([*tables.values()], document, [*tables], wrong):
        # A document without lines: the row's place knows where its problems stand.
        plain = ParsedDocument(row.place.suite.path, "", row.value)
        task = None
        found = [*_repeated_titles(row.value, plain, ()), *_missing_reference(row.value, suite, plain, ())]
        try:
            task = spec_of(Task, row.value)
        except SpecRefused:
            found = without_consequences([*found, *problems_of(Task, row.value, plain).problems])
        problems = [row.place.problem(each.path, each.expected, each.found, each.hint) for each in found]
        wrong.add(problems)
        if task is not None:
            line = row.place.line if row.place.file else document.line_of((*row.place.at, "rows"))
            bucket = _named_bucket(task) or row.bucket
            tasks.append(LoadedTask(task, document.path, line, row.place.at, bucket, row.place))
    wrong.raise_any()
    return tuple(tasks)


def _document(path: Path, data: bytes, sure: bool, *, below_suite: bool) -> ParsedDocument | None:
    """Read a file; None for one that cannot be read and need not be a task."""
    if below_suite and not data.strip():
        raise _doubtful(short_path(path), None, "an empty file")
    try:
        return parse_document(path, data)
    except ProblemsFound as wrong:
        # Other people's YAML and JSON lies among tasks: only what looks like a task is reported.
        if sure or all(word.search(data) for word in WORDS_OF_A_TASK):
            raise
        # A file of which not even the keys can be read may be a task.
        keys = top_level_keys(path, data) if below_suite else ()
        if below_suite and (keys is None or any(map(may_be_task, keys))):
            raise DoubtfulFile(
                replace(problem, hint=f"{problem.hint}; {_ASIDE}" if problem.hint else _ASIDE)
                for problem in wrong.problems
            ) from None
        return None


def _holds_tasks(document: ParsedDocument, sure: bool, *, below_suite: bool) -> bool:
    value, file = document.value, short_path(document.path)
    entries = value if isinstance(value, list) else [value]
    if any(map(is_task, entries)):
        return True
    named_so = is_task_name(document.path)
    if (below_suite or named_so or sure) and any(map(is_nearly_task, entries)):
        return True
    if below_suite and is_blank(document.text):
        raise _doubtful(file, None, "an empty file")
    if sure:
        raise ProblemsFound([Problem(file, document.line_of(()), (), _A_TASK, value_text(value))])
    maps = [entry for entry in entries if isinstance(entry, dict)] if below_suite else []
    if not any(map(may_be_task, maps)):
        return False
    # These are the keys of a calibration, which only lacks its kind.
    hint = _LABELS if any({"labels", "rubric"} <= entry.keys() for entry in maps) else _ASIDE
    found = value_text(value) if value is maps[0] else f"{value_text(value)}, the first {value_text(maps[0])}"
    raise _doubtful(file, document.line_of(()), found, hint)


def _doubtful(file: str, line: int | None, found: str, hint: str = _ASIDE) -> DoubtfulFile:
    return DoubtfulFile([Problem(file, line, (), _A_TASK, found, hint)])


def _validate(document: ParsedDocument, suite: Suite | None) -> list[Task]:
    tasks: list[Task] = []
    # Collected over all tasks, so that one round of mending is enough.
    problems: list[Problem] = []
    first: dict[str, KeyPath] = {}
    for place, entry in task_entries(document):
        try:
            task = spec_of(Task, entry)
        except SpecRefused:
            wrong = problems_of(Task, entry, document, place).problems
            # In a suite's file a task without an input has no id either, which is one mistake.
            is_one = (
                place[:1] == ("tasks",) and isinstance(entry, dict) and not {"id", "input"} & entry.keys()
            )
            problems += (each for each in wrong if not (is_one and each.path == (*place, "id")))
        else:
            tasks.append(task)
            if (earlier := first.setdefault(task.id, place)) != place:
                other = document.line_of((*earlier, "id"))
                found = f"{task.id!r}, which the task on line {other} has too"
                problems.append(_problem(document, (*place, "id"), "an id that no other task has", found))
        problems += _repeated_titles(entry, document, place)
        problems += _missing_reference(entry, suite, document, place)
    if problems:
        raise ProblemsFound(without_consequences(problems))
    return tasks


def _problem(document: ParsedDocument, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
    return Problem(short_path(document.path), document.line_of(path), path, expected, found, hint)


def _repeated_titles(entry: JSON, document: ParsedDocument, place: KeyPath) -> Iterator[Problem]:
    """Report graders with the name or label of an earlier one: their grades could not be distinguished."""
    graders = entry.get("graders") if isinstance(entry, dict) else None
    first: dict[str, int] = {}
    for index, grader in enumerate(graders if isinstance(graders, list) else ()):
        title = (grader.get("label") or grader.get("name")) if isinstance(grader, dict) else None
        if isinstance(title, str) and first.setdefault(title, index) != index:
            found = f"{title!r}, which graders[{first[title]}] has too"
            path, hint = (*place, "graders", index), "give one of them a `label`"
            yield _problem(document, path, "a name or label of its own", found, hint)


def _missing_reference(
    entry: JSON, suite: Suite | None, document: ParsedDocument, place: KeyPath
) -> list[Problem]:
    if suite is None or not suite.require_reference_solution or not isinstance(entry, dict):
        return []
    if entry.get("reference_solution") is not None:
        return []
    expected = f"a map: a solution of the task (the suite {suite.name!r} requires it)"
    found = "nothing" if "reference_solution" in entry else "no key 'reference_solution'"
    return [_problem(document, (*place, "reference_solution"), expected, found)]


def _named_bucket(task: Task) -> str:
    return str(task.metadata.get("failure_bucket", "")).strip()


@lru_cache(maxsize=64)
def _folder_bucket(folder: Path, task_name: bool, suite: str, top: Path | None) -> str:
    """Give the name of the folder that groups a file with others.

    The folder of a ``task.*`` file holds that task only, so it is the one above. ``top`` is the suite's
    folder, else the project's: a folder that is not below it groups nothing.
    """
    group = folder.parent if task_name else folder
    if top is None or (group != top and group.is_relative_to(top)):
        return group.name
    return suite or folder.name

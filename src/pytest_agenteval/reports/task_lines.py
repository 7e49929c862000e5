"""On which line of a task file stands what a trial did not reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.explanation import worst_grade
from pytest_agenteval.tasks.documents import ParsedDocument, read_document
from pytest_agenteval.text.errors import KeyPath, ProblemsFound

if TYPE_CHECKING:
    from pytest_agenteval.records.trial import Trial
    from pytest_agenteval.store.journal_entry import JournalEntry

# Task files that stay in memory.
MOST_FILES = 64


class TaskFileLines:
    """Finds lines in the task files below a folder, pytest's rootdir; each file is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._document = lru_cache(MOST_FILES)(_readable_document)

    def line_of(self, trial: Trial | JournalEntry) -> int | None:
        """Give the line, from 1, of the grader that a trial missed most, else of its task's ``id``.

        For a trial that a grader broke it is that grader's line. None where the file no longer exists, or no
        longer holds the task.
        """
        document = self._document(self._root / trial.file) if trial.file else None
        task_path = None if document is None else _path_of(document.value, trial.key.task)
        if document is None or task_path is None:
            return None
        grade = next((grade for grade in trial.grades if grade.crashed), None) or worst_grade(trial.grades)
        file: Any = document.value
        task = file[task_path[0]] if task_path else file
        path = _grader_path(task, grade, trial.grades) if grade else None
        return document.line_of((*task_path, *(path or ("id",))))


def _readable_document(path: Path) -> ParsedDocument | None:
    try:
        return read_document(path)
    # The file was changed or deleted after the run, which costs a report its line and nothing more.
    except ProblemsFound:
        return None


def _path_of(value: Any, id: str) -> KeyPath | None:
    """Give the path of a task in its file, which holds one or a list of them."""
    if isinstance(value, list):
        return next(((at,) for at, task in enumerate(value) if _has_id(task, id)), None)
    return () if _has_id(value, id) else None


def _has_id(task: Any, id: str) -> bool:
    # YAML reads an id such as 12 as a number.
    return isinstance(task, Mapping) and str(task.get("id")) == id


def _grader_path(task: Mapping[str, Any], grade: Grade, grades: Sequence[Grade]) -> KeyPath | None:
    """Give the path, within a task, of the grader that gave one of a trial's grades, if that is known.

    A grade is called as the grader is labelled, else named; one of a group has the group's label in front. A
    group without one gave what no other grader did.
    """
    graders = task.get("graders")
    titles = [
        str(grader.get("label") or grader.get("name") or "") if isinstance(grader, Mapping) else ""
        for grader in (graders if isinstance(graders, Sequence) else ())
    ]
    givers = {each.grader: _giver(titles, each.grader) for each in grades}
    at = givers.get(grade.grader)
    silent = set(range(len(titles))) - set(givers.values())
    if at is None and len(silent) == 1:
        (at,) = silent
    return None if at is None else ("graders", at)


def _giver(titles: Sequence[str], grade: str) -> int | None:
    """Give the place of the grader that a grade names: wholly, or by as much of its beginning as there is."""
    # The longest fits best: a grader "files" and one "files: new" may both give grades "files: new: …".
    fitting = [title for title in titles if title and (grade == title or grade.startswith(f"{title}: "))]
    return titles.index(max(fitting, key=len)) if fitting else None

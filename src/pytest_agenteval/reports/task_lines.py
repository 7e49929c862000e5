"""On which line of a task file stands what a trial did not reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.explanation import worst_grade
from pytest_agenteval.tasks.documents import ParsedDocument, read_document, task_entries
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
        self._tasks = lru_cache(MOST_FILES)(_read_tasks)

    def line_of(self, trial: Trial | JournalEntry) -> int | None:
        """Give the line, from 1, of the grader that a trial missed most, else of its task's ``id``.

        For a trial that a grader broke it is that grader's line. None where the file no longer exists, or no
        longer holds the task.
        """
        read = self._tasks(self._root / trial.file) if trial.file else None
        if read is None or trial.key.task not in read[1]:
            return None
        document, (task_path, task) = read[0], read[1][trial.key.task]
        grade = next((grade for grade in trial.grades if grade.crashed), None) or worst_grade(trial.grades)
        path = _grader_path(task, grade, trial.grades) if grade else None
        return document.line_of((*task_path, *(path or ("id",))))


def _read_tasks(path: Path) -> tuple[ParsedDocument, dict[str, tuple[KeyPath, Mapping[str, Any]]]] | None:
    """Give a task file, and each of its tasks by its id, with the path to it; None if it cannot be read."""
    try:
        document = read_document(path)
    # The file was changed or deleted after the run, which costs a report its line and nothing more.
    except ProblemsFound:
        return None
    tasks: dict[str, tuple[KeyPath, Mapping[str, Any]]] = {}
    for at, task in task_entries(document):
        if isinstance(task, dict):
            # YAML reads an id such as 12 as a number. Of tasks with one id the first counts.
            tasks.setdefault(str(task.get("id")), (at, task))
    return document, tasks


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

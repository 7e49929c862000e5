"""The tasks behind a stored run, read from their files again: a run holds no input and no graders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.registry.registration import load_registry
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.text.errors import ProblemsFound


class PlannedTasks:
    """Today's tasks of a run's trials, with what conftests register; a file with problems has none.

    ``root`` is the folder that the run's files are named from, ``registry`` what its conftests offer.
    """

    def __init__(self, entries: Iterable[JournalEntry]) -> None:
        names = tuple(dict.fromkeys(entry.file for entry in entries if entry.file))
        self.root = _root_of(names)
        files = [path for name in names if (path := self.root / name).is_file()]
        folders = dict.fromkeys(path.parent for path in files)
        self.registry: Registry = load_registry(folders, (f"--rootdir={self.root}",))
        self._planner = Planner(self.registry, self.root)
        self._tasks: dict[tuple[str, str, str], PlannedTask] = {}
        for path in files:
            self._plan(path)

    def of(self, entry: JournalEntry) -> PlannedTask | None:
        """Give the task of a trial; None where there is no such task any more."""
        return self._tasks.get((entry.key.suite, entry.key.task, entry.key.agent))

    def suite_folder(self, entry: JournalEntry) -> Path:
        """Give the folder of a trial's suite, else that of its file."""
        path = self.root / entry.file
        suite = self._planner.suites.suite_of(path)
        folder = None if isinstance(suite, ProblemsFound) else suite.folder
        return folder or path.parent

    def _plan(self, path: Path) -> None:
        try:
            planned = self._planner.tasks(path, named=True)
        except ProblemsFound:
            return
        self._tasks |= {(task.suite, task.id, task.agent): task for task, _ in planned}


def _root_of(names: Iterable[str]) -> Path:
    """Give the folder, this one or one above it, from which the first file that is there is named."""
    here = Path.cwd()
    for name in names:
        for folder in (here, *here.parents):
            if (folder / name).is_file():
                return folder
    return here

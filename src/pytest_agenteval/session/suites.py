"""Which suite rules a folder, what it brings along, and which files below it may hold tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pytest_agenteval.errors import ProblemsFound
from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.session.kit import NO_KIT, Kit, kit_of
from pytest_agenteval.tasks.discover import find_suite, is_calibration_name, is_data_name, is_task_name
from pytest_agenteval.tasks.documents import shown
from pytest_agenteval.tasks.load import load_suite
from pytest_agenteval.tasks.spec import Suite


@dataclass(frozen=True, slots=True)
class FoundSuite:
    """A suite and the folder it rules; a file without a suite has an unnamed one of kind ``mixed``."""

    suite: Suite | None
    folder: Path | None
    kit: Kit = NO_KIT


NO_SUITE = FoundSuite(None, None)


class Suites:
    """The suites below a root; each is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._suites: dict[Path, FoundSuite | ProblemsFound] = {}
        self._folders: dict[Path, Path | None] = {}
        self._apart: dict[Path, bool] = {}

    def may_hold_tasks(self, path: Path) -> bool:
        """Whether a file may hold tasks, by its name, the suite above it and the folders on the way."""
        folder = path.parent
        if self.file_of(folder) is None:
            return (is_task_name(path) or is_calibration_name(path)) and not self._set_apart(folder)
        return is_data_name(path.name) and not self._set_apart(folder)

    def pass_threshold(self, task: PlannedTask) -> float:
        """Give the mean score at which the task's suite counts a task as passed."""
        for found in self._suites.values():
            if isinstance(found, FoundSuite) and found.suite is not None and found.suite.name == task.suite:
                return found.suite.task_pass_threshold
        return 1.0

    def file_of(self, folder: Path) -> Path | None:
        """Give the suite file that rules a folder, if one does."""
        if folder not in self._folders:
            try:
                self._folders[folder] = find_suite(folder, self._root)
            except ProblemsFound as wrong:  # two suite files in one folder
                self._folders[folder] = file = Path(wrong.problems[0].file)
                self._suites[file] = ProblemsFound(replace(each, file=shown(file)) for each in wrong.problems)
        return self._folders[folder]

    def _set_apart(self, folder: Path) -> bool:
        """Whether a folder holds what tasks work on, or what nobody is to look at, and no tasks.

        A suite of its own may lie in a folder of any name, unless it lies inside another suite.
        """
        if folder not in self._apart:
            inner = folder != self._root and folder.is_relative_to(self._root)
            named = inner and (folder.name == "workspace" or folder.name.startswith(("_", ".")))
            suite = self.file_of(folder) if named else None
            own = suite is not None and suite.parent == folder and self.file_of(folder.parent) is None
            self._apart[folder] = (named and not own) or (inner and self._set_apart(folder.parent))
        return self._apart[folder]

    def of(self, path: Path) -> FoundSuite | ProblemsFound:
        """Give the suite that rules a file, or everything that is wrong with it."""
        file = self.file_of(path.parent)
        if file is None:
            return NO_SUITE
        if file not in self._suites:
            self._suites[file] = self._loaded(file)
        return self._suites[file]

    def _loaded(self, file: Path) -> FoundSuite | ProblemsFound:
        try:
            suite = load_suite(file)
            return FoundSuite(suite, file.parent, kit_of(suite, file.parent, self._root))
        except ProblemsFound as wrong:
            return wrong

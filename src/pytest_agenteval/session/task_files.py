"""Files of tasks as pytest collects them: a module for each file, a function for each trial."""

from __future__ import annotations

import shlex
import types
from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_agenteval.session.eval_session import EvalSession, get_eval_session
from pytest_agenteval.session.planning.parametrization import Case
from pytest_agenteval.session.trial_items import PLUGIN, TrialItem, collect_items, items_of
from pytest_agenteval.tasks.documents import holds_calibration, short_path
from pytest_agenteval.tasks.file_names import TABLE_SUFFIXES
from pytest_agenteval.text.errors import ProblemsFound


class TableFile(pytest.File):
    """A table of rows that was named instead of its suite: rows are collected with the suite alone."""

    suite_file: Path

    def collect(self) -> Iterable[pytest.Item]:
        """Raise an error that names the suite's file."""
        table, suite = short_path(self.path), short_path(self.suite_file)
        raise self.CollectError(f"the rows of {table} are tasks of {suite}: pytest {shlex.quote(suite)}")


def _table_file(evals: EvalSession, path: Path, parent: pytest.Collector) -> TableFile | None:
    """Give the collector of a table; None for a file that is no table of its suite."""
    loaded, suite_file = evals.planner.suites.suite_of(path), evals.planner.suites.file_of(path.parent)
    suite = None if isinstance(loaded, ProblemsFound) else loaded.suite
    if suite is None or suite_file is None or not suite.tasks:
        return None
    from pytest_agenteval.tasks.row_tasks import rows_path, source_of

    if path not in (rows_path(source_of(rows), suite_file.parent) for rows in suite.tables):
        return None
    file: TableFile = TableFile.from_parent(parent, path=path)
    file.suite_file = suite_file
    return file


class TaskFile(pytest.Module):
    """A file of tasks, as a module with one function for each task.

    It is a module so that fixtures of module scope work: pytest looks for a node of that scope.
    """

    def _getobj(self) -> types.ModuleType:
        # pytest would import the file, which is no Python; it documents that this method may be overridden.
        module = types.ModuleType("agenteval_tasks")
        module.__file__ = str(self.path)
        return module

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Give an item for each trial of each task; raises FileProblems with all problems of the file."""
        return collect_items(get_eval_session(self.config), self._items)

    def _items(self, evals: EvalSession) -> Iterable[TrialItem]:
        named = self.session.isinitpath(self.path)
        # If another plugin collects the named file too, it need not be a file of tasks.
        if named:
            plugins = self.config.pluginmanager
            ours = [plugin for plugin in plugins.get_plugins() if getattr(plugin, "__name__", "") == PLUGIN]
            others = plugins.subset_hook_caller("pytest_collect_file", ours)
            named = not others(file_path=self.path, parent=self.parent)
        return items_of(self, evals, evals.planner.tasks(self.path, named=named))


def generate_cases(metafunc: pytest.Metafunc) -> None:
    cases: tuple[Case, ...] | None = getattr(metafunc.function, "agenteval", None)
    if cases is not None:
        metafunc.parametrize("trial", cases, ids=[case.id for case in cases], indirect=True)


def collect_file(path: Path, parent: pytest.Collector) -> pytest.File | None:
    """Collect a file if it may hold tasks, or says that it is a calibration."""
    evals = get_eval_session(parent.config)
    if parent.session.isinitpath(path) and (table := _table_file(evals, path, parent)):
        return table
    if path.suffix.lower() in TABLE_SUFFIXES:
        return None
    if not (evals.planner.suites.may_hold_tasks(path) or parent.session.isinitpath(path)):
        return None
    if holds_calibration(path):
        from pytest_agenteval.session.calibration_items import CalibrationFile

        calibration: CalibrationFile = CalibrationFile.from_parent(parent, path=path)
        return calibration
    return TaskFile.from_parent(parent, path=path)


def without_callspecs(items: Iterable[pytest.Item]) -> None:
    """Hide callspecs from VS Code's discovery, which takes every file of a parametrized test for Python."""
    for item in items:
        if isinstance(item, TrialItem):
            item.__dict__.pop("callspec", None)

"""Files of tasks as pytest collects them: a module for each file, a function for each trial."""

from __future__ import annotations

import types
from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_agenteval.session.eval_session import EvalSession, get_eval_session
from pytest_agenteval.session.planning.parametrization import Case
from pytest_agenteval.session.trial_items import PLUGIN, TrialItem, collect_items, items_of
from pytest_agenteval.tasks.documents import holds_calibration


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

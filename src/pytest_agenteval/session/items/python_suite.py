"""A suite that is written in Python, as pytest collects it: a variable of a test module, with its trials."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from _pytest.python import PyCollector

from pytest_agenteval.session.api.code_tasks import CodeTasks
from pytest_agenteval.session.api.suite import Suite
from pytest_agenteval.session.eval_session import EvalSession, get_eval_session
from pytest_agenteval.session.items.file_problems import collect_items
from pytest_agenteval.session.items.trial_functions import trial_functions
from pytest_agenteval.session.items.trial_item import TrialItem
from pytest_agenteval.text.errors import UsageMistake

_collected: pytest.StashKey[dict[int, Suite]] = pytest.StashKey()


class PythonSuite(PyCollector):
    """A suite in a variable, below its module: ``test_support.py::refunds::late[gpt-1]``."""

    suite: Suite

    def _getobj(self) -> types.ModuleType:
        # Where pytest's own way of building items looks for functions.
        return types.ModuleType("agenteval_tasks")

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Give an item for each trial of each task, or say everything that is wrong with the suite."""
        return collect_items(get_eval_session(self.config), self._items)

    def _items(self, evals: EvalSession) -> Iterator[TrialItem]:
        _refuse_other_processes(evals, self.suite)
        functions = trial_functions(self.config)
        tasks = CodeTasks(evals.planner, evals.registry, self.config.rootpath).of_suite(self.suite)
        for task, settings in tasks:
            cases = evals.cases_of(task, settings.models)
            if cases:
                yield from functions.items(self, task, cases, evals)


def collect_suite(collector: pytest.Collector, name: str, value: Any) -> PythonSuite | None:
    """Collect a module's variable that holds a suite; a suite is collected once, wherever it is imported."""
    if not isinstance(value, Suite) or not isinstance(collector, pytest.Module):
        return None
    collected = collector.config.stash.setdefault(_collected, {})
    if id(value) in collected:
        return None
    collected[id(value)] = value  # held: while it lives nothing else has its id
    node: PythonSuite = PythonSuite.from_parent(collector, name=name)
    node.suite = value
    return node


def _refuse_other_processes(evals: EvalSession, suite: Suite) -> None:
    """Refuse an executor that would carry out elsewhere what only this process has."""
    name = evals.settings.executor_name
    if name != "local":
        raise UsageMistake(
            f"--agent-executor={evals.settings.executor}: the suite {suite.name!r} ({suite.place}) is "
            "written in Python, its graders and agent are in this process alone: use local, or -n"
        )

"""A file of tasks as a module: which files, which items, and all that is wrong with them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from pytest_agenteval.errors import Problem, ProblemsFound, UsageMistake
from pytest_agenteval.items.marks import marks_of
from pytest_agenteval.items.trial_item import TrialItem
from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.eval_session import EvalSession, get_eval_session
from pytest_agenteval.session.fixture_readiness import replaced
from pytest_agenteval.session.parametrization import Case
from pytest_agenteval.tasks.calibration import holds_calibration
from pytest_agenteval.tasks.documents import shown

PLUGIN = "pytest_agenteval.plugin"
HARMLESS = frozenset({"python", "funcmanage", "asyncio", "agenteval", PLUGIN})
"""Plugins whose ``pytest_generate_tests`` changes nothing for us, or the same for every task of a folder."""


class Surroundings(NamedTuple):
    """What holds for every task file of a folder.

    ``uses`` are our fixtures that a conftest replaces; ``ours_alone`` says that nobody else makes parameters;
    ``folder`` is what ``-k`` finds the folder by.
    """

    uses: tuple[str, ...]
    ours_alone: bool
    folder: str


class TaskFile(pytest.Module):
    """A file of tasks, as a module with one function for each task."""

    def _getobj(self) -> types.ModuleType:
        module = types.ModuleType("agenteval_tasks")
        module.__file__ = str(self.path)
        return module

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Give an item for each trial of each task, or say everything that is wrong with the file."""
        evals = get_eval_session(self.config)
        if evals.refusal:
            return []
        try:
            return list(self._items(evals))
        except ProblemsFound as wrong:
            raise self.CollectError(str(wrong)) from None
        except UsageMistake as mistake:
            evals.refuse(mistake)
            return []

    def _items(self, evals: EvalSession) -> Iterator[TrialItem]:
        named = self.session.isinitpath(self.path) and not self._is_someone_elses()
        tasks = evals.planner.tasks(self.path, named=named)
        if not tasks:
            return
        around = self._surroundings(evals)
        for task, said in tasks:
            cases = evals.cases_of(task, said.models)
            if cases:  # a task that a stored run does not hold has none
                yield from self._trials(task, cases, around, evals)

    def _trials(
        self,
        task: PlannedTask,
        cases: tuple[Case, ...],
        around: Surroundings,
        evals: EvalSession,
    ) -> Iterator[TrialItem]:
        function = _function(task, cases, self._marks(task, around.uses, evals))
        words = {task.bucket, task.suite, task.agent, around.folder, *task.tags}
        uses = around.uses if around.ours_alone else None
        for item, case in self._shaped(function, task, cases, uses, evals):
            item.task, item.case = task, case
            item.extra_keyword_matches.update(words)
            yield item

    def _surroundings(self, evals: EvalSession) -> Surroundings:
        """Give what holds for every file of this folder, worked out once."""
        found = evals.surroundings.get(self.parent)
        if found is None:
            changed = replaced(self)
            _refuse_wide(changed)
            uses = tuple(name for name, _ in changed)
            folder = _folder(self.path.parent, self.config.rootpath)
            found = evals.surroundings[self.parent] = Surroundings(
                uses, self._nobody_else_generates(), folder
            )
        return found

    def _marks(self, task: PlannedTask, uses: tuple[str, ...], evals: EvalSession) -> list[pytest.Mark]:
        """Give the marks of a task's function; those that tags become are declared as they come."""
        key = (task.kind, task.tags, uses)
        if key not in evals.marks:
            names = dict.fromkeys(("agenteval", task.kind, *marks_of(task.tags)))
            for name in evals.new_marks(names):
                self.config.addinivalue_line("markers", f"{name}: a tag of task files (pytest-agenteval)")
            evals.marks[key] = [getattr(pytest.mark, name).mark for name in names]
            if uses:
                evals.marks[key].append(pytest.mark.usefixtures(*uses).mark)
        return evals.marks[key]

    def _shaped(
        self,
        function: Any,
        task: PlannedTask,
        cases: tuple[Case, ...],
        uses: tuple[str, ...] | None,
        evals: EvalSession,
    ) -> Iterator[tuple[TrialItem, Case]]:
        """Build the items of one function.

        What pytest works out of a function's parameters and fixtures is the same for all tasks of a folder
        that have the same cases: it is worked out once, for it costs more than all the rest. ``uses`` is None
        where somebody else has a say in the parameters.
        """
        key = None if uses is None else (self.parent, id(cases), uses)
        shape = evals.shapes.get(key) if key else None
        if shape is None:
            setattr(self.obj, task.id, function)  # where pytest's own way of building items looks
            made = list(self._genfunctions(task.id, function))
            shape = [(item.callspec, item._fixtureinfo, _case_of(item.callspec)) for item in made]
            if key:
                evals.shapes[key] = shape
        for callspec, info, case in shape:
            item = TrialItem.from_parent(
                self,
                name=f"{task.id}[{callspec.id}]",
                callobj=function,
                callspec=callspec,
                fixtureinfo=info,
                originalname=task.id,
                keywords={callspec.id: True},
            )
            yield item, case

    def _is_someone_elses(self) -> bool:
        """Whether another plugin collects this file too, so that it need not be ours."""
        plugins = self.config.pluginmanager
        ours = [one for one in plugins.get_plugins() if getattr(one, "__name__", "") == PLUGIN]
        others = plugins.subset_hook_caller("pytest_collect_file", ours)
        return bool(others(file_path=self.path, parent=self.parent))

    def _nobody_else_generates(self) -> bool:
        return all(impl.plugin_name in HARMLESS for impl in self.ihook.pytest_generate_tests.get_hookimpls())


def _refuse_wide(changed: tuple[tuple[str, Any], ...]) -> None:
    """Refuse a replaced ``workspace`` that several trials would share."""
    for name, definition in changed:
        if definition.scope != "function":
            code = inspect.unwrap(definition.func).__code__
            raise ProblemsFound(
                [
                    Problem(
                        shown(Path(code.co_filename)),
                        code.co_firstlineno,
                        (name,),
                        "a fixture of function scope: nothing is shared between trials",
                        f"scope {definition.scope!r}",
                        "a starting tree that many tasks share is what input.base_fixture is for",
                    )
                ]
            )


def _verdict(trial: Trial) -> None:
    """The test that every trial is: what it has to say is said by its item."""


def _function(task: PlannedTask, cases: tuple[Case, ...], marks: list[pytest.Mark]) -> Any:
    """Make the function of a task, with its tags as marks."""
    function: Any = types.FunctionType(_verdict.__code__, _verdict.__globals__, task.id)
    function.__module__ = "agenteval_tasks"
    function.agenteval = cases
    function.pytestmark = marks
    return function


def _case_of(callspec: Any) -> Case:
    """Give an item's case; what somebody else's parameters add to its id makes it a variant of its own."""
    case: Case = callspec.params["trial"]
    added = callspec.id.replace(case.id, "", 1).strip("-")
    if not added:
        return case
    name = "-".join(part for part in (case.variant.name, added) if part)
    return case._replace(variant=replace(case.variant, name=name))


def _folder(folder: Path, root: Path) -> str:
    """Name a folder with the one above it, as ``-k`` finds it; the root's own name says nothing."""
    parts = folder.relative_to(root).parts if folder.is_relative_to(root) else folder.parts
    return "/".join(parts[-2:])


def generate_cases(metafunc: pytest.Metafunc) -> None:
    """Give a task's function its cases."""
    cases: tuple[Case, ...] | None = getattr(metafunc.function, "agenteval", None)
    if cases is not None:
        metafunc.parametrize("trial", cases, ids=[case.id for case in cases], indirect=True)


def collect_file(path: Path, parent: pytest.Collector) -> pytest.File | None:
    """Collect a file if it may hold tasks, or says that it is a calibration."""
    wanted = parent.session.isinitpath(path) or get_eval_session(parent.config).planner.suites.may_hold_tasks(
        path
    )
    if not wanted:
        return None
    if holds_calibration(path):
        from pytest_agenteval.items.calibration_item import CalibrationFile

        calibration: CalibrationFile = CalibrationFile.from_parent(parent, path=path)
        return calibration
    return TaskFile.from_parent(parent, path=path)


def without_callspecs(items: Iterable[pytest.Item]) -> None:
    """Hide callspecs from VS Code's discovery, which takes every file of a parametrized test for Python."""
    for item in items:
        if isinstance(item, TrialItem):
            item.__dict__.pop("callspec", None)

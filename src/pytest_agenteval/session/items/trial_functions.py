"""The items of a task and their marks: what is the same for many of them is worked out once for a folder."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.python import PyCollector
from msgspec.structs import replace

from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.eval_session import EvalSession
from pytest_agenteval.session.items.trial_item import TrialItem
from pytest_agenteval.session.planning.parametrization import Case
from pytest_agenteval.session.prefetch import replaced_fixtures
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import Problem, ProblemsFound

RESERVED = frozenset(
    {"skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings"}  # pytest's own
    | {
        "anyio",
        "asyncio",
        "dependency",
        "django_db",
        "flaky",
        "freeze_time",
        "order",
        "repeat",
        "timeout",
        "vcr",
    }
)
"""Tags that would mean something else as a mark; they are keywords only."""

OURS = ("agenteval", "agenteval_audit", "capability", "regression", "mixed")
"""Marks that the plugin declares when pytest starts."""

_declared: pytest.StashKey[set[str]] = pytest.StashKey()


def marks_of(tags: Iterable[str]) -> tuple[str, ...]:
    """Give the marks that tags become: Python names that mean nothing else to pytest."""
    names = (tag.replace("-", "_").replace(".", "_") for tag in tags)
    return tuple(
        name for name in names if name.isidentifier() and not name.startswith("_") and name not in RESERVED
    )


def declare_marks(config: pytest.Config, names: Iterable[str], files: str) -> None:
    """Declare those marks of the tags of ``files`` that are new, as ``--strict-markers`` wants."""
    declared = config.stash.setdefault(_declared, set(OURS))
    for name in names:
        if name not in declared:
            declared.add(name)
            config.addinivalue_line("markers", f"{name}: a tag of {files} (pytest-agenteval)")


PLUGIN = "pytest_agenteval.plugin"
HARMLESS = frozenset({"python", "funcmanage", "asyncio", "agenteval", PLUGIN})
"""Plugins whose ``pytest_generate_tests`` changes nothing for us, or the same for every task of a folder.

A name that is misspelt here breaks nothing: each function is then built by itself, and collecting takes twice
as long.
"""

_builder: pytest.StashKey[TrialFunctions] = pytest.StashKey()


class FolderConditions(NamedTuple):
    """What holds for every task file of a folder.

    ``fixtures`` are our fixtures that a conftest replaces; ``ours_alone`` says that nobody else makes
    parameters; ``keyword`` is what ``-k`` finds the folder by.
    """

    fixtures: tuple[str, ...]
    ours_alone: bool
    keyword: str


class Shape(NamedTuple):
    """What pytest works out of a function's parameters and fixtures for one of its items."""

    callspec: Any
    fixtureinfo: Any
    case: Case


class TrialFunctions:
    """Makes the functions of tasks and their items, for one pytest session.

    Built one by one, thousands of tasks would cost twice what they cost with shared shapes: pytest works out
    the same parameters and fixtures again for each.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shapes: dict[Any, list[Shape]] = {}
        self._conditions: dict[Any, FolderConditions] = {}
        self._marks: dict[Any, list[pytest.Mark]] = {}

    def items(
        self, file: PyCollector, task: PlannedTask, cases: tuple[Case, ...], evals: EvalSession
    ) -> Iterator[TrialItem]:
        """Give an item for each case of a task."""
        conditions, audit = self._conditions_of(file), evals.audit
        marks = self._marks_of(task, conditions.fixtures, audited=audit is not None)
        function = _function(task, cases, marks)
        kind = TrialItem if audit is None else _audit_item()
        words = {task.bucket, task.suite, task.agent, conditions.keyword, *task.tags}
        for shape in self._shapes_of(file, function, task.id, cases, conditions):
            item: TrialItem = kind.from_parent(
                file,
                name=f"{task.id}[{shape.callspec.id}]",
                callobj=function,
                callspec=shape.callspec,
                fixtureinfo=shape.fixtureinfo,
                originalname=task.id,
                keywords={shape.callspec.id: True},
            )
            # `trial` too: an attribute that an item is given later costs it a dictionary of its own.
            item.task = task if audit is None else audit.task_of(task, shape.case)
            item.case, item.evals, item.trial = shape.case, evals, None
            item.extra_keyword_matches.update(words)
            yield item

    def _conditions_of(self, file: PyCollector) -> FolderConditions:
        conditions = self._conditions.get(file.parent)
        if conditions is None:
            changed = replaced_fixtures(file)
            _refuse_wide(changed)
            conditions = self._conditions[file.parent] = FolderConditions(
                tuple(name for name, _ in changed),
                _nobody_else_generates(file),
                _keyword(file.path.parent, self._config.rootpath),
            )
        return conditions

    def _marks_of(self, task: PlannedTask, fixtures: tuple[str, ...], *, audited: bool) -> list[pytest.Mark]:
        key = (task.kind, task.tags, fixtures)
        if key not in self._marks:
            ours = ("agenteval", task.kind, *(("agenteval_audit",) if audited else ()))
            names = dict.fromkeys((*ours, *marks_of(task.tags)))
            declare_marks(self._config, names, "task files")
            self._marks[key] = [getattr(pytest.mark, name).mark for name in names]
            if fixtures:
                self._marks[key].append(pytest.mark.usefixtures(*fixtures).mark)
        return self._marks[key]

    def _shapes_of(
        self,
        file: PyCollector,
        function: Any,
        name: str,
        cases: tuple[Case, ...],
        conditions: FolderConditions,
    ) -> list[Shape]:
        """Give the shapes of a function's items: equal for all tasks of a folder that have the same cases.

        Where somebody else has a say in the parameters, each function is asked for itself.
        """
        # The tuple of cases is one object for all tasks that are tried alike: see CaseFactory.
        key = (file.parent, id(cases), conditions.fixtures)
        shapes = self._shapes.get(key) if conditions.ours_alone else None
        if shapes is None:
            setattr(file.obj, name, function)  # where pytest's own way of building items looks
            items = file._genfunctions(name, function)
            shapes = [Shape(item.callspec, item._fixtureinfo, _case_of(item.callspec)) for item in items]
            if conditions.ours_alone:
                self._shapes[key] = shapes
        return shapes


def _audit_item() -> type[TrialItem]:
    from pytest_agenteval.session.items.audit_item import AuditItem

    return AuditItem


def trial_functions(config: pytest.Config) -> TrialFunctions:
    """Give the session's maker of items."""
    if _builder not in config.stash:
        config.stash[_builder] = TrialFunctions(config)
    return config.stash[_builder]


def _nobody_else_generates(file: PyCollector) -> bool:
    return all(impl.plugin_name in HARMLESS for impl in file.ihook.pytest_generate_tests.get_hookimpls())


def _refuse_wide(changed: Iterable[tuple[str, Any]]) -> None:
    """Refuse a replaced ``workspace`` that several trials would share."""
    for name, definition in changed:
        if definition.scope != "function":
            code = inspect.unwrap(definition.func).__code__
            raise ProblemsFound(
                [
                    Problem(
                        short_path(Path(code.co_filename)),
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


def _keyword(folder: Path, root: Path) -> str:
    """Name a folder with the one above it, as ``-k`` finds it; the root's own name says nothing."""
    parts = folder.relative_to(root).parts if folder.is_relative_to(root) else folder.parts
    return "/".join(parts[-2:])

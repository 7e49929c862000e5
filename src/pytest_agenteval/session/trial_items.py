"""Files of tasks as pytest modules, and their trials as pytest items: fixtures, marks, shared shapes."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.python import PyCollector
from msgspec.structs import replace

from pytest_agenteval.records.explanation import explain_trial, reason_below, short_reason
from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.eval_session import EvalSession, get_eval_session
from pytest_agenteval.session.item_reports import call_trial_finished, make_longrepr
from pytest_agenteval.session.planning.parametrization import Case, PlannedItem
from pytest_agenteval.session.planning.planner import PlannedTasks
from pytest_agenteval.session.prefetch import replaced_fixtures
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.workspace import Workspace
from pytest_agenteval.text.errors import Problem, ProblemsFound, UsageMistake
from pytest_agenteval.text.formatting import one_line


class FileProblems(pytest.Collector.CollectError):
    """A file that cannot be collected; pytest shows its problems without a traceback."""

    def __init__(self, wrong: ProblemsFound) -> None:
        super().__init__(str(wrong))
        self.problems = wrong.problems


def collect_items(
    evals: EvalSession, items: Callable[[EvalSession], Iterable[pytest.Item]]
) -> Sequence[pytest.Item]:
    """Give the items of a file or suite; raises FileProblems with everything that is wrong with it."""
    # A usage mistake refuses the whole run, so nothing more is collected.
    if evals.refusal:
        return ()
    try:
        return list(items(evals))
    except ProblemsFound as wrong:
        raise FileProblems(wrong) from None
    except UsageMistake as mistake:
        evals.refuse(mistake)
        return ()


def reported_name(name: str) -> str:
    """Give an item's name as reports show it: with a space after it, where it has dots before its bracket."""
    # With ``-v``, pytest turns the dots of a name at the end of a node id into ``::``, as in
    # ``Class.method``, and the id could not be pasted. The space keeps pytest from recognizing the name.
    return f"{name} " if "." in name.partition("[")[0] else name


class TrialFailed(Exception):
    """A trial that did not reach its threshold, where that counts as a failure."""


class TrialItem(PlannedItem):
    """One trial as a test: set up by carrying it out, called by looking at its ending."""

    evals: EvalSession
    trial: Trial | None = None

    def reportinfo(self) -> tuple[Path, int, str]:
        """Point to the task's own line, where editors and JUnit look."""
        return self.source, self.task.line - 1, reported_name(self.name)

    @property
    def source(self) -> Path:
        """The file that the task's line is in: its own, or the table whose row it is."""
        row_file = self.task.row_file
        return self.config.rootpath / row_file if row_file else self.path

    @cached_property
    def location(self) -> tuple[str, int | None, str]:
        """Give the file relative to the root folder, the line from 0, and the name."""
        # The root is cut off as text. pytest compares paths part by part, which takes a tenth of a plain test
        # if each task has its own file.
        root, text = f"{self.config.rootpath}{os.sep}", str(self.source)
        if not text.startswith(root):
            return super().location
        return text[len(root) :], self.task.line - 1, reported_name(self.name)

    def setup(self) -> None:
        """Carry out the trial; without the fixture machinery, where no other fixture is needed."""
        names, option = self.fixturenames, self.config.option
        overridden = len(self._fixtureinfo.name2fixturedefs["trial"]) > 1
        if len(names) > 2 or overridden or option.setupshow or option.setuponly or option.setupplan:
            super().setup()
        else:  # only `trial` and `request`: the machinery would cost a quarter of a plain test
            self.funcargs["trial"] = run_trial_for_item(self, None, lambda task: task)

    def runtest(self) -> None:
        """Pass, fail, or be an expected failure, by the trial's ending."""
        trial = self.trial
        if trial is None or trial.ending == "passed":
            return
        if trial.ending == "missed" and not self.evals.settings.strict:
            pytest.xfail(reason_below(trial))
        raise TrialFailed

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Explain a failed trial in the graders' words, without a traceback."""
        if isinstance(excinfo.value, TrialFailed) and self.trial is not None:
            explanation = "\n".join(explain_trial(self.trial))
            return make_longrepr(explanation, self.source, self.task.line, reason_below(self.trial))
        return self._repr_failure_py(excinfo, style) if _says_all(excinfo) else super().repr_failure(excinfo)

    def _repr_failure_py(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        # Only the text is shown for a miss or an errored trial: pytest would look up its own sources.
        return str(excinfo.value) if _says_all(excinfo) else super()._repr_failure_py(excinfo, style)


def _says_all(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    """Whether an exception's text says everything: a miss, or a failure without a traceback."""
    raised = excinfo.value
    if isinstance(raised, pytest.xfail.Exception):  # which is a kind of pytest.fail's
        return True
    return isinstance(raised, pytest.fail.Exception) and not raised.pytrace


def run_trial_for_item(
    item: TrialItem, workspace: Path | None, change: Callable[[PlannedTask], PlannedTask]
) -> Trial:
    """Give an item its finished trial; an errored one fails its setup."""
    evals = item.evals
    item.trial = trial = evals.runner.get_trial(item, change, workspace)
    evals.note_answer(trial)
    call_trial_finished(item.config, trial, evals.failed_hooks)
    if trial.ending == "errored":
        pytest.fail(short_reason(trial), pytrace=False)
    return trial


def planned_task_of(request: pytest.FixtureRequest) -> PlannedTask:
    return _item_of(request).task


def _item_of(request: pytest.FixtureRequest) -> TrialItem:
    if not isinstance(request.node, TrialItem):
        place = f"{request.node.nodeid}: the fixture {request.fixturename!r}"
        raise pytest.UsageError(f"{place} is for task files")
    return request.node


def workspace_of(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give a fresh tree, and delete it when the item is done."""
    task: PlannedTask = request.getfixturevalue("task")
    parent = get_eval_session(request.config).runner.workspaces
    layers = [Path(layer) for layer in task.layers]
    workspace = Workspace(layers, texts=task.texts, parent=Path(parent) if parent else None)
    yield workspace.path
    if not parent:
        workspace.remove()


def trial_of(request: pytest.FixtureRequest) -> Trial:
    """Carry out the item's trial, or give the one that ran ahead; an errored one fails the setup."""
    item = _item_of(request)
    names = set(item.fixturenames)

    def change(task: PlannedTask) -> PlannedTask:
        # A conftest may have replaced `task` and `cassette`.
        if "task" in names:
            task = request.getfixturevalue("task")
        if "cassette" in names:
            task = replace(task, cassette=str(Path(request.getfixturevalue("cassette")).with_suffix("")))
        return task

    workspace = Path(request.getfixturevalue("workspace")) if "workspace" in names else None
    return run_trial_for_item(item, workspace, change)


MOST_SHOWN = 300  # characters that are shown of what was done to a reference


class AuditFailed(Exception):
    """A trial of an audit that ended as it must not where graders look closely; the text says how."""


class AuditItem(TrialItem):
    """One trial of an audit as a test: the reference has to reach 1.0, and everything else has to miss."""

    def runtest(self) -> None:
        """Pass where the reference has full marks, or where anything else has missed."""

        from pytest_agenteval.session.planning.audit_cases import NOP, ORACLE

        trial = self.trial
        if trial is None:
            return
        score = "no score" if trial.score is None else f"{trial.score:.2f}"
        if self.case.model is ORACLE:
            if not trial.full:
                raise AuditFailed(f"the reference must score 1.0: {score}")
        elif trial.ending == "passed":
            waiting = [grade.grader for grade in trial.grades if grade.undecided == "no_judge"]
            if waiting:  # a judge may see it yet
                pytest.xfail(f"only a judge may catch it; not judged: {', '.join(waiting)}")
            done = "the agent did nothing"
            if self.case.model is not NOP:
                spoilt = self.evals.audit.spoilt(self.task, self.case) if self.evals.audit else None
                done = one_line(spoilt.done, MOST_SHOWN) if spoilt else ""
            raise AuditFailed(f"{done}, and no grader caught it: passed with {score}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Say what was done and how it was graded, without a traceback."""
        if isinstance(excinfo.value, AuditFailed) and self.trial is not None:
            reason = str(excinfo.value)
            text = "\n".join([reason, *explain_trial(self.trial)])
            return make_longrepr(text, self.source, self.task.line, reason)
        return super().repr_failure(excinfo, style)


# Tags that would mean something else as a mark; they are keywords only.
RESERVED = frozenset(
    {"skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings"}  # pytest's own
    | {"anyio", "asyncio", "dependency", "django_db", "flaky", "freeze_time", "order", "repeat"}
    | {"timeout", "vcr"}
)

# Marks that the plugin declares when pytest starts.
PLUGIN_MARKS = ("agenteval", "agenteval_audit", "capability", "regression", "mixed")

_declared: pytest.StashKey[set[str]] = pytest.StashKey()


def marks_of(tags: Iterable[str]) -> tuple[str, ...]:
    """Give the marks that tags become: Python names that mean nothing else to pytest."""
    names = (tag.replace("-", "_").replace(".", "_") for tag in tags)
    return tuple(
        name for name in names if name.isidentifier() and not name.startswith("_") and name not in RESERVED
    )


def declare_marks(config: pytest.Config, names: Iterable[str], files: str) -> None:
    """Declare those marks of the tags of ``files`` that are new, as ``--strict-markers`` demands."""
    declared = config.stash.setdefault(_declared, set(PLUGIN_MARKS))
    for name in names:
        if name not in declared:
            declared.add(name)
            config.addinivalue_line("markers", f"{name}: a tag of {files} (pytest-agenteval)")


PLUGIN = "pytest_agenteval.plugin"
# Plugins whose ``pytest_generate_tests`` changes nothing for us, or the same for every task of a folder. A
# missing or wrong name breaks nothing: each function is then built by itself, which takes twice as long.
HARMLESS = frozenset({"python", "funcmanage", "asyncio", "agenteval", PLUGIN})

_builder: pytest.StashKey[TrialFunctions] = pytest.StashKey()


class FolderConditions(NamedTuple):
    """What holds for every task file of a folder."""

    fixtures: tuple[str, ...]  # ours that a conftest replaces
    ours_alone: bool  # nobody else makes parameters
    keyword: str  # what ``-k`` finds the folder by


class Shape(NamedTuple):
    """What pytest works out of a function's parameters and fixtures for one of its items."""

    callspec: Any
    fixtureinfo: Any
    case: Case


class TrialFunctions:
    """Makes the functions of tasks and their items, for one pytest session.

    Pytest works out the parameters and fixtures of each function again: built one by one, thousands of tasks
    would take twice as long to collect as with shared shapes.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shapes: dict[Any, list[Shape]] = {}
        self._conditions: dict[Any, FolderConditions] = {}
        self._marks: dict[Any, list[pytest.Mark]] = {}

    def items(
        self, file: PyCollector, task: PlannedTask, cases: tuple[Case, ...], evals: EvalSession
    ) -> Iterator[TrialItem]:
        conditions, audit = self._conditions_of(file), evals.audit
        marks = self._marks_of(task, conditions.fixtures, audited=audit is not None)
        function: Any = types.FunctionType(_trial_body.__code__, _trial_body.__globals__, task.id)
        function.__module__, function.agenteval, function.pytestmark = "agenteval_tasks", cases, marks
        kind = TrialItem if audit is None else AuditItem
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
            # `trial` is set too: an attribute that an item gets later would cost a dictionary of its own.
            item.task = task if audit is None else audit.task_with_reference(task, shape.case)
            item.case, item.evals, item.trial = shape.case, evals, None
            item.extra_keyword_matches.update(words)
            yield item

    def _conditions_of(self, file: PyCollector) -> FolderConditions:
        conditions = self._conditions.get(file.parent)
        if conditions is None:
            changed, folder, root = replaced_fixtures(file), file.path.parent, self._config.rootpath
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
                                "to share a starting tree between tasks, use input.base_fixture",
                            )
                        ]
                    )
            parts = folder.relative_to(root).parts if folder.is_relative_to(root) else folder.parts
            generators = file.ihook.pytest_generate_tests.get_hookimpls()
            conditions = self._conditions[file.parent] = FolderConditions(
                tuple(name for name, _ in changed),
                all(generator.plugin_name in HARMLESS for generator in generators),
                "/".join(parts[-2:]),  # without the root's own name
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
        """Give the shapes of a function's items, which all tasks of a folder with the same cases share."""
        # Where other plugins make parameters too, each function has shapes of its own.
        # The tuple of cases is one object for all tasks that run in the same cases: see CaseFactory.
        key = (file.parent, id(cases), conditions.fixtures)
        shapes = self._shapes.get(key) if conditions.ours_alone else None
        if shapes is None:
            setattr(file.obj, name, function)  # where pytest's _genfunctions looks
            items = file._genfunctions(name, function)
            shapes = [Shape(item.callspec, item._fixtureinfo, _case_of(item.callspec)) for item in items]
            if conditions.ours_alone:
                self._shapes[key] = shapes
        return shapes


def items_of(file: PyCollector, evals: EvalSession, tasks: PlannedTasks) -> Iterator[TrialItem]:
    """Give an item for each trial of each task."""
    functions = file.config.stash.setdefault(_builder, TrialFunctions(file.config))
    for task, settings in tasks:
        cases = evals.cases_of(task, settings.models)
        if cases:  # a task that a stored run does not hold has none
            yield from functions.items(file, task, cases, evals)


def _trial_body(trial: Trial) -> None:
    """The test function of every trial; its item decides how it ends."""


def _case_of(callspec: Any) -> Case:
    """Give an item's case; parameters of other plugins, which its id shows, make it a variant of its own."""
    case: Case = callspec.params["trial"]
    added = callspec.id.replace(case.id, "", 1).strip("-")
    if not added:
        return case
    name = "-".join(part for part in (case.variant.name, added) if part)
    return case._replace(variant=replace(case.variant, name=name))


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


def without_callspecs(items: Iterable[pytest.Item]) -> None:
    """Hide callspecs from VS Code's discovery, which takes every file of a parametrized test for Python."""
    for item in items:
        if isinstance(item, TrialItem):
            item.__dict__.pop("callspec", None)

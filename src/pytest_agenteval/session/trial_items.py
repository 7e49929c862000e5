"""The trials of a task as pytest items: their fixtures, their marks, and what is shared by a folder's tasks."""

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
from pytest_agenteval.session.planning.audit_cases import NOP, ORACLE
from pytest_agenteval.session.planning.parametrization import Case, PlannedItem
from pytest_agenteval.session.prefetch import replaced_fixtures
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import Problem, ProblemsFound, UsageMistake
from pytest_agenteval.text.formatting import one_line


class FileProblems(pytest.Collector.CollectError):
    """What pytest shows of a file with problems, without a traceback; ``problems`` holds each of them."""

    def __init__(self, wrong: ProblemsFound) -> None:
        super().__init__(str(wrong))
        self.problems = wrong.problems


def collect_items(
    evals: EvalSession, items: Callable[[EvalSession], Iterable[pytest.Item]]
) -> Sequence[pytest.Item]:
    """Give the items of a file or suite; raises FileProblems with everything that is wrong with it.

    A mistake of whoever called pytest refuses the whole run, which collects nothing then.
    """
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
    """Give an item's name as reports show it, with a space behind a name that has dots before its bracket.

    With ``-v``, pytest writes the dots of a node id that ends with this name as ``::``, as if they were those
    of ``Class.method``; such a node id could not be pasted. With the space the node id has another end.
    """
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
        """The file in which the task's line counts: its own, or the table whose row it is."""
        row_file = self.task.row_file
        return self.config.rootpath / row_file if row_file else self.path

    @cached_property
    def location(self) -> tuple[str, int | None, str]:
        """Give the file from the root folder, the line from 0, and the name.

        Of a file below the root that is a piece of its text. pytest compares paths part by part, which for
        tasks in files of their own costs a tenth of a plain test.
        """
        root, text = f"{self.config.rootpath}{os.sep}", str(self.source)
        if not text.startswith(root):
            return super().location
        return text[len(root) :], self.task.line - 1, reported_name(self.name)

    def setup(self) -> None:
        """Carry out the trial; where nothing else hangs on the item, without the fixture machinery."""
        names, option = self.fixturenames, self.config.option
        overridden = len(self._fixtureinfo.name2fixturedefs["trial"]) > 1
        if len(names) > 2 or overridden or option.setupshow or option.setuponly or option.setupplan:
            super().setup()
        else:  # `trial` and `request`: what the machinery would do costs a quarter of a plain test
            self.funcargs["trial"] = run_trial_for_item(self, None, unchanged_task)

    def runtest(self) -> None:
        """Pass, fail, or be an expected failure, by the trial's ending."""
        trial = self.trial
        if trial is None or trial.ending == "passed":
            return
        if trial.ending == "missed" and not self.evals.settings.strict:
            pytest.xfail(reason_below(trial))
        raise TrialFailed

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Say why a trial failed, in the graders' words and without a traceback."""
        if isinstance(excinfo.value, TrialFailed) and self.trial is not None:
            explanation = "\n".join(explain_trial(self.trial))
            return make_longrepr(explanation, self.source, self.task.line, reason_below(self.trial))
        return self._repr_failure_py(excinfo, style) if _says_all(excinfo) else super().repr_failure(excinfo)

    def _repr_failure_py(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Give the words of a miss or a broken trial at once: pytest would look up its own sources."""
        return str(excinfo.value) if _says_all(excinfo) else super()._repr_failure_py(excinfo, style)


def _says_all(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    """Whether what was raised is ours and says all there is to say."""
    raised = excinfo.value
    if isinstance(raised, pytest.xfail.Exception):  # which is a kind of pytest.fail's
        return True
    return isinstance(raised, pytest.fail.Exception) and not raised.pytrace


def unchanged_task(task: PlannedTask) -> PlannedTask:
    """Give the task as it is."""
    return task


def run_trial_for_item(
    item: TrialItem, workspace: Path | None, change: Callable[[PlannedTask], PlannedTask]
) -> Trial:
    """Give an item its finished trial; one that broke is an error here."""
    evals = item.evals
    item.trial = trial = evals.runner.get_trial(item, change, workspace)
    evals.note_answer(trial)
    call_trial_finished(item.config, trial, evals.failed_hooks)
    if trial.ending == "errored":
        pytest.fail(short_reason(trial), pytrace=False)
    return trial


def task_of(request: pytest.FixtureRequest) -> PlannedTask:
    """Give the task of the item that asks."""
    item = request.node
    if not isinstance(item, TrialItem):
        raise pytest.UsageError(f"{item.nodeid}: the fixtures of pytest-agenteval are for task files")
    return item.task


def workspace_of(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give a fresh tree, and take it away when the item is done."""
    from pytest_agenteval.tasks.workspace import Workspace

    task: PlannedTask = request.getfixturevalue("task")
    kept_workspaces = get_eval_session(request.config).runner.workspaces
    layers = [Path(layer) for layer in task.layers]
    workspace = Workspace(layers, texts=task.texts, parent=Path(kept_workspaces) if kept_workspaces else None)
    yield workspace.path
    if not kept_workspaces:
        workspace.remove()


def trial_of(request: pytest.FixtureRequest) -> Trial:
    """Carry out the item's trial, or give it where it ran ahead; a trial that broke is an error here."""
    item = request.node
    if not isinstance(item, TrialItem):
        raise pytest.UsageError(f"{item.nodeid}: the fixture 'trial' is for task files")
    names = set(item.fixturenames)
    workspace = Path(request.getfixturevalue("workspace")) if "workspace" in names else None
    return run_trial_for_item(item, workspace, _change(request, names))


def _change(request: pytest.FixtureRequest, names: set[str]) -> Callable[[PlannedTask], PlannedTask]:
    """Put what a conftest's own ``task`` or ``cassette`` gives into the task."""

    def change(task: PlannedTask) -> PlannedTask:
        if "task" in names:
            task = request.getfixturevalue("task")
        if "cassette" in names:
            task = replace(task, cassette=str(Path(request.getfixturevalue("cassette")).with_suffix("")))
        return task

    return change


MOST_SHOWN = 300


class AuditFailed(Exception):
    """A trial that ended as graders that see something do not let it end; the text says how."""


class AuditItem(TrialItem):
    """One trial of an audit as a test: it passes where the graders saw what there is to see."""

    def runtest(self) -> None:
        """Pass where the reference has full marks, and where anything else has missed."""
        trial = self.trial
        if trial is None:
            return
        if self.case.model is ORACLE:
            if not trial.full:
                raise AuditFailed(f"the reference has to reach 1.0: {_score(trial)}")
        elif trial.ending == "passed":
            _xfail_for_judges(trial)
            raise AuditFailed(f"{self._done()}, and no grader has seen it: passed with {_score(trial)}")

    def _done(self) -> str:
        if self.case.model is NOP:
            return "nothing was done"
        spoilt = self.evals.audit.spoilt(self.task, self.case) if self.evals.audit else None
        return one_line(spoilt.done, MOST_SHOWN) if spoilt else ""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Say what was done and how the graders took it, without a traceback."""
        if isinstance(excinfo.value, AuditFailed) and self.trial is not None:
            said = str(excinfo.value)
            text = "\n".join([said, *explain_trial(self.trial)])
            return make_longrepr(text, self.source, self.task.line, said)
        return super().repr_failure(excinfo, style)


def _score(trial: Trial) -> str:
    return "no score" if trial.score is None else f"{trial.score:.2f}"


def _xfail_for_judges(trial: Trial) -> None:
    """Leave open what a judge who was not asked may see."""
    waiting = [grade.grader for grade in trial.grades if grade.undecided == "no_judge"]
    if waiting:
        pytest.xfail(f"no grader without a judge has seen it; not asked: {', '.join(waiting)}")


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

PLUGIN_MARKS = ("agenteval", "agenteval_audit", "capability", "regression", "mixed")
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
    declared = config.stash.setdefault(_declared, set(PLUGIN_MARKS))
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
        function = _task_function(task, cases, marks)
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


def _trial_body(trial: Trial) -> None:
    """The test that every trial is: what it has to say is said by its item."""


def _task_function(task: PlannedTask, cases: tuple[Case, ...], marks: list[pytest.Mark]) -> Any:
    """Make the function of a task, with its tags as marks."""
    function: Any = types.FunctionType(_trial_body.__code__, _trial_body.__globals__, task.id)
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

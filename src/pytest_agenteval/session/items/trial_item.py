"""One trial as a test, and what its fixtures give: plugin.py, which declares them, stays light."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.records.explanation import explain_trial, reason_below, short_reason
from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.eval_session import EvalSession, get_eval_session
from pytest_agenteval.session.items.file_problems import reported_name
from pytest_agenteval.session.planning.parametrization import PlannedItem
from pytest_agenteval.session.report_hooks import call_trial_finished, longrepr


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
            self.funcargs["trial"] = run_trial_for_item(self, None, identity)

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
            return longrepr(explanation, self.source, self.task.line, reason_below(self.trial))
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


def identity(task: PlannedTask) -> PlannedTask:
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
    from pytest_agenteval.tasks.workspace.workspace import Workspace

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

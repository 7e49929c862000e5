"""The fixtures, as functions of the request, so that the module that declares them stays light."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_agenteval.items.trial_item import TrialItem, run_trial_for_item
from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.eval_session import get_eval_session


def task_of(request: pytest.FixtureRequest) -> PlannedTask:
    """Give the task of the item that asks."""
    item = request.node
    if not isinstance(item, TrialItem):
        raise pytest.UsageError(f"{item.nodeid}: the fixtures of pytest-agenteval are for task files")
    return item.task


def workspace_of(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give a fresh tree, and take it away when the item is done."""
    from pytest_agenteval.workspace.workspace import Workspace

    task: PlannedTask = request.getfixturevalue("task")
    kept = get_eval_session(request.config).runner.workspaces
    layers = [Path(layer) for layer in task.layers]
    workspace = Workspace(layers, texts=task.texts, parent=Path(kept) if kept else None)
    yield workspace.path
    if not kept:
        workspace.remove()


def trial_of(request: pytest.FixtureRequest) -> Trial:
    """Carry out the item's trial, or give it where it ran ahead; a trial that broke is an error here."""
    item = request.node
    if not isinstance(item, TrialItem):
        raise pytest.UsageError(f"{item.nodeid}: the fixture 'trial' is for task files")
    names = set(item.fixturenames)
    given = Path(request.getfixturevalue("workspace")) if "workspace" in names else None
    return run_trial_for_item(item, given, _change(request, names))


def _change(request: pytest.FixtureRequest, names: set[str]) -> Callable[[PlannedTask], PlannedTask]:
    """Put what a conftest's own ``task`` or ``cassette`` gives into the task."""

    def change(task: PlannedTask) -> PlannedTask:
        if "task" in names:
            task = request.getfixturevalue("task")
        if "cassette" in names:
            task = replace(task, cassette=str(Path(request.getfixturevalue("cassette")).with_suffix("")))
        return task

    return change

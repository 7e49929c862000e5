"""Which task ``run`` is asked for: a file, an id in a file, or a map; planned with what the call says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.api.code_place import CodePlace
from pytest_agenteval.session.api.code_tasks import read_task, spec_in_code, task_value
from pytest_agenteval.session.api.given import AgentGiven, agent_config
from pytest_agenteval.session.api.suite import Task
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.session.planning.suites import LoadedSuite
from pytest_agenteval.tasks.file_names import SUITE_NAMES, is_task_name
from pytest_agenteval.tasks.load import LoadedTask
from pytest_agenteval.tasks.rows.row_tasks import safe_id
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.tasks.task_settings import TaskSettings
from pytest_agenteval.text.errors import UsageMistake, nearest_names
from pytest_agenteval.text.json_values import canonical_json, text_digest

TaskGiven: TypeAlias = "str | Path | Mapping[str, Any] | Task"
"""The path of a task file, ``PATH::ID`` for one of several tasks, a map as in a task file, or a task."""

ROOT_MARKS = (".git", "pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg")


class ChosenTask(NamedTuple):
    """A planned task, and the models that its suite names."""

    task: PlannedTask
    models: tuple[str, ...]


class TaskChoice:
    """Plans the task that a call names; ``owner`` is the suite of tasks that are given as maps."""

    def __init__(self, registry: Registry, root: Path, here: Path, owner: str = "") -> None:
        self._registry, self._root, self._here, self._owner = registry, root, here, owner

    def of(
        self,
        given: TaskGiven,
        agent: AgentGiven | None,
        settings: Mapping[str, Any],
        place: CodePlace,
        id: str = "",
    ) -> ChosenTask:
        """Plan it; raises UsageMistake or ProblemsFound. ``id`` is that of a map that says none."""
        form = agent_config(agent, self._registry, self._root)
        if isinstance(given, Mapping | Task):
            return self._of_map(given, form, settings, place, id)
        return self._of_file(str(given), form, settings, place)

    def _of_map(
        self,
        given: Mapping[str, Any] | Task,
        form: str | dict[str, Any] | None,
        settings: Mapping[str, Any],
        place: CodePlace,
        id: str,
    ) -> ChosenTask:
        value = task_value(given)
        if "id" not in value:
            value["id"] = id or f"task-{text_digest(canonical_json(value.get('input', '')))[:8]}"
        bucket = Path(self._owner).stem
        loaded = _with_settings(read_task(value, place, self._registry, bucket=bucket), settings)
        suite = _suite(self._owner or "python", form, place)
        if not self._owner:
            suite = replace(suite, name="")
        folder = place.file.parent if place.file.is_file() else self._here
        planned = Planner(self._registry, self._root).plan([loaded], LoadedSuite(suite, folder, in_code=True))
        ((task, found),) = planned
        cassette = self._root / "cassettes" / safe_id(task.id) if not self._owner else Path(task.cassette)
        return ChosenTask(replace(task, cassette=str(cassette)), found.models)

    def _of_file(
        self, given: str, form: str | dict[str, Any] | None, settings: Mapping[str, Any], place: CodePlace
    ) -> ChosenTask:
        name, _, id = given.partition("::")
        places = (self._here / name, self._root / name)
        file = task_file(next((place for place in places if place.exists()), places[0]), given)
        agent = None if form is None else _suite("python", form, place)
        planner = _ChangedTasks(self._registry, self._root, agent, settings)
        planned = planner.tasks(file, named=True)
        task, found = _one_of(planned, id, given)
        # The suite's model is that of its own agent.
        return ChosenTask(task, found.models if form is None else ())


class _ChangedTasks(Planner):
    """Plans tasks of files with another agent, that of ``acting``, and other settings than these say."""

    def __init__(
        self,
        registry: Registry,
        root: Path,
        acting: Suite | None,
        settings: Mapping[str, Any],
    ) -> None:
        super().__init__(registry, root)
        self._acting, self._changed = acting, settings

    def plan(
        self, loaded: Sequence[LoadedTask], loaded_suite: LoadedSuite
    ) -> tuple[tuple[PlannedTask, TaskSettings], ...]:
        """Plan tasks of a suite, changed as the call says."""
        tasks = [_with_settings(each, self._changed) for each in loaded]
        if self._acting is not None:
            tasks = [replace(each, task=replace(each.task, agent=None)) for each in tasks]
            suite = replace(loaded_suite.suite or replace(self._acting, name=""), agent=self._acting.agent)
            loaded_suite = replace(loaded_suite, suite=suite)
        return super().plan(tasks, loaded_suite)


def _suite(name: str, agent: str | dict[str, Any] | None, place: CodePlace) -> Suite:
    """Give a suite that says its agent and nothing else."""
    return spec_in_code(Suite, {"name": name, **({"agent": agent} if agent else {})}, place)


def _with_settings(loaded: LoadedTask, settings: Mapping[str, Any]) -> LoadedTask:
    if not settings:
        return loaded
    task = loaded.task
    return replace(loaded, task=replace(task, settings={**task.settings, **settings}))


def task_file(path: Path, given: str) -> Path:
    """Give the file that is meant: itself, or that of a folder's only task or of its rows."""
    path = Path(os.path.normpath(path))
    if path.is_dir():
        names = sorted(path.iterdir())
        meant = [each for each in names if is_task_name(each)] or [
            each for each in names if each.name in SUITE_NAMES
        ]
        if len(meant) == 1:
            return meant[0]
        raise UsageMistake(f"{given}: expected a task file, or a folder with task.yaml; found a folder")
    if not path.is_file():
        raise UsageMistake(
            f"{given!r}: expected the path of a task file, PATH::ID, or a map with `input`; "
            f"there is no {path}"
        )
    return path


def _one_of(
    planned: Sequence[tuple[PlannedTask, TaskSettings]], id: str, given: str
) -> tuple[PlannedTask, TaskSettings]:
    ids = [task.id for task, _ in planned]
    if id:
        meant = [each for each in planned if each[0].id == id]
        if not meant:
            raise UsageMistake(f"{given}: there is no task {id!r}; there are {nearest_names(id, ids)}")
        return meant[0]
    if len(planned) != 1:
        count = f"{len(planned)} tasks" if planned else "no task"
        listed = f": {nearest_names('', ids)}" if ids else ""
        raise UsageMistake(f"{given}: expected one task, or {given}::ID; found {count}{listed}")
    return planned[0]


def project_root(place: Path) -> Path:
    """Give the nearest folder, this one or one above, with a mark of a project; else this one."""
    folder = place if place.is_dir() else place.parent
    for above in (folder, *folder.parents):
        if any((above / mark).exists() for mark in ROOT_MARKS):
            return above
    return folder

"""From tasks in Python, and from files that a call names, to planned tasks."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.api.suite import (
    AgentReference,
    CodePlace,
    Suite,
    Task,
    agent_config,
    grader_configs,
)
from pytest_agenteval.session.planning.planner import PlannedTasks, Planner
from pytest_agenteval.session.planning.suites import LoadedSuite, SuiteResources
from pytest_agenteval.tasks import suite_spec, task_spec
from pytest_agenteval.tasks.documents import ParsedDocument, with_id
from pytest_agenteval.tasks.file_names import SUITE_NAMES, is_task_name
from pytest_agenteval.tasks.load import LoadedTask, load_rows
from pytest_agenteval.tasks.row_tasks import safe_id
from pytest_agenteval.tasks.suite_spec import TaskSettings
from pytest_agenteval.tasks.validation import SpecRefused, SpecT, problems_of, spec_of
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, UsageMistake, nearest_names
from pytest_agenteval.text.json_values import canonical_json, text_digest

# Stands in while a task without graders is read, as a task file needs one. The task is graded later.
ANY_GRADER = {"name": "answer_contains", "config": {"text": "."}}


class CodeDocument(ParsedDocument):
    """Values of Python code as a document, all on the line of the call."""

    def __init__(self, place: CodePlace, value: Any) -> None:
        super().__init__(place.file, "", value)
        self._line = place.line

    def line_of(self, path: KeyPath) -> int:
        return self._line


class CodeTasks:
    """Plans tasks that are written in Python, with what is registered in this session."""

    def __init__(self, planner: Planner, registry: Registry, root: Path) -> None:
        self._planner, self._registry, self._root = planner, registry, root

    def of_suite(self, suite: Suite) -> PlannedTasks:
        """Plan every task of a suite; raises ProblemsFound with everything that is wrong with it."""
        read, resources = self._read(suite)
        loaded_suite = LoadedSuite(read, suite.place.file.parent, resources, in_code=True)
        tasks, problems = self._tasks_of(suite)
        if not suite.tasks and not suite.tables:
            problems.append(suite.place.problem(("tasks",), "at least one task", "none"))
        try:
            rows = (
                load_rows(CodeDocument(suite.place, {**suite.keys, "tasks": self._tables(suite)}), read)
                if suite.tables
                else ()
            )
        except ProblemsFound as wrong:
            rows, problems = (), [*problems, *wrong.problems]
        if problems:
            raise ProblemsFound(sorted(problems, key=lambda problem: (problem.file, problem.line or 0)))
        planned = self._planner.plan((*tasks, *rows), loaded_suite)
        # The suite's name stands between the module's and the task's, as a module may hold several suites.
        cassettes = [Path(task.cassette) for task, _ in planned]
        places = [str(each.parent / safe_id(suite.name) / each.name) for each in cassettes]
        return tuple(
            (replace(task, cassette=place), settings)
            for (task, settings), place in zip(planned, places, strict=True)
        )

    def _read(self, suite: Suite) -> tuple[suite_spec.Suite, SuiteResources]:
        place = suite.place
        value = {**suite.keys, "tasks": self._tables(suite)}
        agent = agent_config(suite.agent, self._registry, self._root)
        value |= {} if agent is None else {"agent": agent}
        read = spec_in_code(suite_spec.Suite, value, place)
        other = self._planner.suites.take_in_code(read, str(place))
        if other:
            found = f"{read.name!r}, which is also the name of {other}"
            raise ProblemsFound([place.problem(("name",), "a name that no other suite uses", found)])
        try:
            return read, self._planner.suites.resources_of(read, place.file)
        except ProblemsFound as wrong:
            file, line = place.problem((), "", "").file, place.line
            raise ProblemsFound(
                dataclasses.replace(problem, file=file, line=line) if problem.path else problem
                for problem in wrong.problems
            ) from None

    def _tables(self, suite: Suite) -> list[dict[str, Any]]:
        graders = [(*suite.graders, *table.get("graders", ())) for table in suite.tables]
        configs = [grader_configs(each, self._registry) for each in graders]
        return [{**table, "graders": config} for table, config in zip(suite.tables, configs, strict=True)]

    def _tasks_of(self, suite: Suite) -> tuple[list[LoadedTask], list[Problem]]:
        tasks: dict[str, LoadedTask] = {}
        problems: list[Problem] = []
        repeated: list[Problem] = []
        for number, task in enumerate(suite.tasks):
            place = task.place if isinstance(task, Task) else suite.place
            value = with_id(task_value(task))
            value["graders"] = [*suite.graders, *value.get("graders", ())]
            try:
                loaded = read_task(value, place, self._registry, number, bucket=suite.name)
            except ProblemsFound as wrong:
                problems += wrong.problems
                continue
            other = tasks.setdefault(loaded.task.id, loaded)
            if other is not loaded:
                found = f"{loaded.task.id!r}, which the task on line {other.line} has too"
                repeated.append(loaded.problem(("id",), "an id that no other task has", found))
        return list(tasks.values()), [*problems, *repeated]


def task_value(task: Task | Mapping[str, Any]) -> dict[str, Any]:
    """Give a task as in a task file, its graders unchanged."""
    if isinstance(task, Task):
        value = {"id": task.id, "input": task.input, "graders": task.graders, **task.more}
        if task.bucket:
            value["metadata"] = {**value.get("metadata", {}), "failure_bucket": task.bucket}
    else:
        value = dict(task)
    if isinstance(value.get("input"), str):
        value["input"] = {"content": value["input"]}
    return value


def read_task(
    value: Mapping[str, Any], place: CodePlace, registry: Registry, index: int = 0, *, bucket: str = ""
) -> LoadedTask:
    """Read a task of Python code; raises ProblemsFound with everything that is wrong with it."""
    graders = grader_configs(tuple(value.get("graders") or ()), registry)
    task = spec_in_code(task_spec.Task, {**value, "graders": graders or [ANY_GRADER]}, place)
    if not graders:
        task = replace(task, graders=())
    named = str(task.metadata.get("failure_bucket", "")).strip()
    return LoadedTask(task, place.file, place.line, (index,), named or bucket, place)


def spec_in_code(kind: type[SpecT], value: Mapping[str, Any], place: CodePlace) -> SpecT:
    """Make a spec of values of Python code; raises ProblemsFound with everything that is wrong with them."""
    try:
        return spec_of(kind, value)
    except SpecRefused:
        raise problems_of(kind, value, CodeDocument(place, dict(value))) from None


# The path of a task file, ``PATH::ID`` for one of several tasks, a map as in a task file, or a task.
TaskReference: TypeAlias = "str | Path | Mapping[str, Any] | Task"


def plan_task(
    registry: Registry,
    root: Path,
    given: TaskReference,
    agent: AgentReference | None,
    settings: Mapping[str, Any],
    place: CodePlace,
    owner: str = "",
    id: str = "",
) -> tuple[PlannedTask, tuple[str, ...]]:
    """Plan the task of a call; give also the models that its suite names.

    ``owner`` is the suite of a task that is given as a map, and ``id`` its id where it has none. Raises
    UsageMistake or ProblemsFound.
    """
    form = agent_config(agent, registry, root)
    suite = _suite(owner or "python", form, place)
    if isinstance(given, Mapping | Task):
        value = task_value(given)
        if "id" not in value:
            value["id"] = id or f"task-{text_digest(canonical_json(value.get('input', '')))[:8]}"
        loaded = _with_settings(read_task(value, place, registry, bucket=Path(owner).stem), settings)
        loaded_suite = LoadedSuite(
            suite if owner else replace(suite, name=""),
            place.file.parent if place.file.is_file() else Path.cwd(),
            in_code=True,
        )
        ((task, found),) = Planner(registry, root).plan([loaded], loaded_suite)
        if not owner:
            task = replace(task, cassette=str(root / "cassettes" / safe_id(task.id)))
        return task, found.models
    name, _, chosen = str(given).partition("::")
    places = (Path.cwd() / name, root / name)
    file = task_file(next((place for place in places if place.exists()), places[0]), str(given))
    planner = _ChangedTasks(registry, root, suite if form is not None else None, settings)
    task, found = _one_of(planner.tasks(file, named=True), chosen, str(given))
    # The suite's model belongs to the suite's own agent, so it is not used for an agent of the call.
    return task, found.models if form is None else ()


class _ChangedTasks(Planner):
    """Plans tasks of files with the agent of ``acting`` and the settings of a call."""

    def __init__(
        self, registry: Registry, root: Path, acting: suite_spec.Suite | None, settings: Mapping[str, Any]
    ) -> None:
        super().__init__(registry, root)
        self._acting, self._changed = acting, settings

    def plan(self, loaded: Sequence[LoadedTask], loaded_suite: LoadedSuite) -> PlannedTasks:
        tasks = [_with_settings(each, self._changed) for each in loaded]
        if self._acting is not None:
            # An agent that the task names would come before the agent of the call.
            tasks = [replace(each, task=replace(each.task, agent=None)) for each in tasks]
            suite = replace(loaded_suite.suite or replace(self._acting, name=""), agent=self._acting.agent)
            loaded_suite = replace(loaded_suite, suite=suite)
        return super().plan(tasks, loaded_suite)


def _suite(name: str, agent: str | dict[str, Any] | None, place: CodePlace) -> suite_spec.Suite:
    return spec_in_code(suite_spec.Suite, {"name": name, **({"agent": agent} if agent else {})}, place)


def _with_settings(loaded: LoadedTask, settings: Mapping[str, Any]) -> LoadedTask:
    if not settings:
        return loaded
    task = loaded.task
    return replace(loaded, task=replace(task, settings={**task.settings, **settings}))


def task_file(path: Path, given: str) -> Path:
    """Give a task file: the path itself, or the file of a folder's only task, or of its rows."""
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

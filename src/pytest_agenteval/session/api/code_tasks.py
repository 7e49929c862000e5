"""From tasks and suites in Python to planned tasks: read, checked and explained as their files are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.api.code_place import CodePlace
from pytest_agenteval.session.api.given import GraderGiven, agent_config, grader_configs
from pytest_agenteval.session.api.suite import Suite, Task
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.session.planning.suites import LoadedSuite, SuiteResources
from pytest_agenteval.tasks import suite_spec, task_spec
from pytest_agenteval.tasks.documents import Document
from pytest_agenteval.tasks.load import LoadedTask, load_rows
from pytest_agenteval.tasks.rows.row_tasks import safe_id
from pytest_agenteval.tasks.spec_reading import SpecT, problems_of, spec_of
from pytest_agenteval.tasks.task_settings import TaskSettings
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound

Planned = tuple[tuple[PlannedTask, TaskSettings], ...]
ANY_GRADER = {"name": "answer_contains", "config": {"text": "."}}
"""Stands for the graders of a task that has none, where that is read: to be graded later."""


class CodeDocument(Document):
    """What Python code says, as a document: all of it stands on one line."""

    def __init__(self, place: CodePlace, value: Any) -> None:
        super().__init__(place.file, "", value)
        self._line = place.line

    def line_of(self, path: KeyPath) -> int:
        """Give the line of the call."""
        return self._line


class CodeTasks:
    """Plans tasks that are written in Python, with what is registered in this session."""

    def __init__(self, planner: Planner, registry: Registry, root: Path) -> None:
        self._planner, self._registry, self._root = planner, registry, root

    def of_suite(self, suite: Suite) -> Planned:
        """Plan every task of a suite; raises ProblemsFound with everything that is wrong with it."""
        read, resources = self._read(suite)
        loaded_suite = LoadedSuite(read, suite.place.file.parent, resources, in_code=True)
        tasks, problems = self._tasks_of(suite)
        if not suite.tasks and not suite.tables:
            problems.append(suite.place.problem(("tasks",), "at least one task", "none"))
        try:
            rows = load_rows(self._rows_document(suite), read) if suite.tables else ()
        except ProblemsFound as wrong:
            rows, problems = (), [*problems, *wrong.problems]
        if problems:
            raise ProblemsFound(sorted(problems, key=lambda problem: (problem.file, problem.line or 0)))
        planned = self._planner.plan((*tasks, *rows), loaded_suite)
        return tuple((self._with_cassette(task, suite.name), settings) for task, settings in planned)

    def _read(self, suite: Suite) -> tuple[suite_spec.Suite, SuiteResources]:
        place = suite.place
        value = {**suite.keys, "tasks": self._tables(suite)}
        agent = agent_config(suite.agent, self._registry, self._root)
        value |= {} if agent is None else {"agent": agent}
        read = spec_in_code(suite_spec.Suite, value, place)
        other = self._planner.suites.take_in_code(read, str(place))
        if other:
            found = f"{read.name!r}, which is also the name of {other}"
            raise ProblemsFound([place.problem(("name",), "a name that no other suite has", found)])
        return read, self._resources(read, place)

    def _resources(self, suite: suite_spec.Suite, place: CodePlace) -> SuiteResources:
        try:
            return self._planner.suites.resources_in_code(suite, place.file)
        except ProblemsFound as wrong:
            file, line = place.problem((), "", "").file, place.line
            raise ProblemsFound(
                dataclasses.replace(problem, file=file, line=line) if problem.path else problem
                for problem in wrong.problems
            ) from None

    def _tables(self, suite: Suite) -> list[dict[str, Any]]:
        return [
            {**table, "graders": self._graders(suite, table.get("graders", ()))} for table in suite.tables
        ]

    def _graders(self, suite: Suite, own: Sequence[GraderGiven]) -> list[dict[str, Any]]:
        return grader_configs((*suite.graders, *own), self._registry)

    def _rows_document(self, suite: Suite) -> CodeDocument:
        return CodeDocument(suite.place, {**suite.keys, "tasks": self._tables(suite)})

    def _tasks_of(self, suite: Suite) -> tuple[list[LoadedTask], list[Problem]]:
        tasks: list[LoadedTask] = []
        problems: list[Problem] = []
        for number, task in enumerate(suite.tasks):
            place = task.place if isinstance(task, Task) else suite.place
            value = task_value(task)
            value["graders"] = [*suite.graders, *value.get("graders", ())]
            try:
                loaded = read_task(value, place, self._registry, number, bucket=suite.name)
            except ProblemsFound as wrong:
                problems += wrong.problems
            else:
                tasks.append(loaded)
        return tasks, [*problems, *_repeated_ids(tasks)]

    def _with_cassette(self, task: PlannedTask, suite: str) -> PlannedTask:
        """Put the suite's name between the module's and the task's: a module may hold several suites."""
        cassette = Path(task.cassette)
        return replace(task, cassette=str(cassette.parent / safe_id(suite) / cassette.name))


def task_value(task: Task | Mapping[str, Any]) -> dict[str, Any]:
    """Give a task as its file would say it, graders as they were given."""
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
    return LoadedTask(task, place.file, place.line, index, named or bucket, place)


def spec_in_code(kind: type[SpecT], value: Mapping[str, Any], place: CodePlace) -> SpecT:
    """Make a spec of what Python code says; raises ProblemsFound with everything that is wrong with it."""
    try:
        return spec_of(kind, value)
    except ValueError as error:
        raise problems_of(kind, error, CodeDocument(place, dict(value))) from None


def _repeated_ids(tasks: Sequence[LoadedTask]) -> list[Problem]:
    first: dict[str, LoadedTask] = {}
    problems: list[Problem] = []
    for loaded in tasks:
        other = first.setdefault(loaded.task.id, loaded)
        if other is not loaded:
            found = f"{loaded.task.id!r}, which the task on line {other.line} has too"
            problems.append(loaded.problem(("id",), "an id of its own", found))
    return problems

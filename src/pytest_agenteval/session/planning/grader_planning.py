"""From what tasks say of their graders to planned graders: once for all tasks that say the same."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from pytest_agenteval.records.plan import PlannedGrader
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.registration_check import MOST_KEPT, RegistrationCheck
from pytest_agenteval.tasks.task_spec import GraderSpec, Task
from pytest_agenteval.text.canonical import canonical

OUTCOME = "expected_outcome"

Graders: TypeAlias = tuple[PlannedGrader, ...]
GradersKey: TypeAlias = tuple[str, tuple[str, ...], bytes]
"""Agent, tools of the suite, and what the task says of its graders: what their checks and plans hang on."""


def graders_key(task: Task, agent: str, tools: tuple[str, ...]) -> GradersKey:
    """Give what a task asks for; of what a file can hold only what is the same has the same bytes."""
    return agent, tools, msgspec.json.encode((task.graders, _outcome_of(task)))


class GraderPlanning:
    """Plans graders: equal ones are one object for all tasks, and so have one digest."""

    def __init__(self, registry: Registry, checker: RegistrationCheck) -> None:
        self._registry, self._checker = registry, checker
        self._equal_graders: dict[tuple[Hashable, ...], Graders] = {}
        self._by_key: dict[GradersKey, Graders] = {}

    def cached(self, key: GradersKey) -> Graders | None:
        """Give the graders that an earlier task was given for this, if there was one and they were right."""
        return self._by_key.get(key)

    def cache(self, key: GradersKey, task: Task, graders: Graders) -> None:
        """Take a task's graders, with which nothing is wrong, for every later task that asks for the same."""
        # A conftest further down may register a tool, of whose name one that is named here is a misspelling.
        if any(map(self._checker.tool_names, task.graders)):
            return
        if len(self._by_key) > MOST_KEPT:
            self._by_key.clear()
        self._by_key[key] = graders

    def plan(self, task: Task) -> Graders:
        """Give a task's graders; all of them are registered."""
        graders = tuple(grader for spec in task.graders for grader in self._members(spec, task))
        if len(self._equal_graders) > MOST_KEPT:
            self._equal_graders.clear()
        return self._equal_graders.setdefault(tuple(map(_grader_key, graders)), graders)

    def _members(self, spec: GraderSpec, task: Task) -> Iterator[PlannedGrader]:
        """Give the grader that is asked for, or each one of the group."""
        members = self._registry.group(spec.name)
        for name, label in members:
            label_in_group = f"{spec.label}: {label}" if spec.label else label
            yield self._with_outcome(replace(_grader(spec), name=name, label=label_in_group), task)
        if not members:
            yield self._with_outcome(_grader(spec), task)

    def _with_outcome(self, planned: PlannedGrader, task: Task) -> PlannedGrader:
        """Tell a grader that has such a setting what the task says will be true afterwards."""
        outcome = _outcome_of(task)
        if not outcome or OUTCOME in planned.config or not self._checker.takes(planned.name, OUTCOME):
            return planned
        return replace(planned, config={**planned.config, OUTCOME: outcome})


def _outcome_of(task: Task) -> object:
    return task.reference_solution.expected_outcome if task.reference_solution else None


def _grader(spec: GraderSpec) -> PlannedGrader:
    return PlannedGrader(
        spec.name, spec.label or spec.name, spec.config or NOTHING, spec.weight, spec.threshold, spec.require
    )


def _grader_key(grader: PlannedGrader) -> Hashable:
    # The text of a configuration: True is not 1 there.
    config = canonical(grader.config) if grader.config else ""
    return grader.name, grader.label, config, grader.weight, grader.threshold, grader.required

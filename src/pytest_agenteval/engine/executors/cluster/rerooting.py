"""Paths of the project, in plans and in what executors are told, as they are where it travelled to."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from pytest_agenteval.engine.executors.executor import ExecutorBroken, ExecutorContext
from pytest_agenteval.records.plan import Conditions, McpServer, Plan, PlannedTask
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.trial import Trial

T = TypeVar("T")

PATH_OPTIONS = ("--rootdir=", "-c")
MOST_KEPT = 4096


class Rerooting(NamedTuple):
    """Maps what lies below ``home``, the project as it is where pytest runs, to ``here``, its copy."""

    home: str
    here: str

    def path(self, text: str) -> str:
        """Give the path of the copy; a path outside of the project has to be there by itself."""
        inside = text == self.home or text.startswith(f"{self.home}/")
        if inside:
            return self.here + text[len(self.home) :]
        if text.startswith("/") and not Path(text).exists():
            raise ExecutorBroken(
                f"{text}: expected below the rootdir {self.home}, which is what travels to the cluster, "
                "or on each of its machines"
            )
        return text

    def context(self, context: ExecutorContext, **more: Any) -> ExecutorContext:
        """Give what a run tells its executor, for the copy."""
        return replace(
            context,
            root=self.here,
            conftests=tuple(map(self.path, context.conftests)),
            pytest_options=tuple(map(self._option, context.pytest_options)),
            **more,
        )

    def _option(self, option: str) -> str:
        for name in PATH_OPTIONS:
            if option.startswith(name):
                return name + self.path(option[len(name) :])
        return option

    def task(self, task: PlannedTask) -> PlannedTask:
        """Give a task with the places of the copy; what is shown to people stays as it is."""
        return replace(
            task,
            layers=tuple(map(self.path, task.layers)),
            cassette=self.cassette(task.cassette),
            shared=tuple(map(self.path, task.shared)),
            tools=tuple(map(self._tools, task.tools)),
            form=self._form(task.form) if task.form else NOTHING,
        )

    def cassette(self, name: str) -> str:
        """Give the path of a cassette of the copy, whether it is there or will be."""
        return self.here + name[len(self.home) :] if name.startswith(f"{self.home}/") else name

    def _tools(self, entry: str | McpServer) -> str | McpServer:
        if isinstance(entry, str):
            return self.path(entry)
        return replace(entry, folder=self.path(entry.folder), schemas=self.cassette(entry.schemas))

    def _form(self, form: Mapping[str, Any]) -> Mapping[str, Any]:
        places: dict[str, Any] = {}
        if form.get("folder"):
            places["folder"] = self.path(form["folder"])
        if form.get("paths"):
            places["paths"] = list(map(self.path, form["paths"]))
        return {**form, **places}

    def conditions(self, conditions: Conditions, workspaces: str) -> Conditions:
        """Give the run's conditions; workspaces that are to be kept are kept here first."""
        return replace(conditions, keep_workspaces=workspaces) if conditions.keep_workspaces else conditions

    def at_home(self, trial: Trial) -> Trial:
        """Give a trial that names the project's own files, not those of the copy."""
        texts = ("message", "traceback", "output", "log")
        named = {name: text for name in texts if self.here in (text := getattr(trial, name))}
        changed = {name: text.replace(self.here, self.home) for name, text in named.items()}
        return replace(trial, **changed) if changed else trial


class Interning:
    """Has equal parts of plans that arrived apart be one object again, as they were where they were made.

    What is worked out once for a part, its digest for one, is remembered by the object.
    """

    def __init__(self, arrived: Callable[[PlannedTask], PlannedTask]) -> None:
        self._arrived = arrived
        self._kept: OrderedDict[bytes, Any] = OrderedDict()

    def plan(self, plan: Plan) -> Plan:
        """Give the plan with its task as it is ``arrived``, of parts that plans share."""
        return replace(
            plan,
            task=self._once(plan.task, lambda: self._of_shared_parts(self._arrived(plan.task))),
            model=self._shared(plan.model),
            variant=self._shared(plan.variant),
            conditions=self._shared(plan.conditions),
        )

    def _of_shared_parts(self, task: PlannedTask) -> PlannedTask:
        values = {name: getattr(task, name) for name in task.__struct_fields__}
        parts = {name: value for name, value in values.items() if isinstance(value, tuple | Mapping)}
        return replace(task, **{name: self._shared(value) for name, value in parts.items()})

    def _shared(self, value: T) -> T:
        return self._once(value, lambda: value)

    def _once(self, value: T, make: Callable[[], T]) -> T:
        key = pickle.dumps(value)
        if key in self._kept:
            self._kept.move_to_end(key)
        else:
            self._kept[key] = make()
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        kept: T = self._kept[key]
        return kept

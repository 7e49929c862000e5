"""Suites and tasks written in Python: in a ``test_*.py`` they run as task files do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_agenteval.records.plan import Kind
from pytest_agenteval.session.api.code_place import CodePlace, calling_place
from pytest_agenteval.session.api.given import AgentGiven, GraderGiven


class Task:
    """One task, as a task file says it; ``graders`` may be graders themselves, functions among them.

    ``input`` is what the agent is given: a text alone is its ``content``. ``bucket`` names its line in the
    table. ``more`` are other keys of a task file: ``tags``, ``limits``, ``split``, ``reference_solution``, …
    """

    def __init__(
        self,
        id: str,
        input: str | Mapping[str, Any],
        *,
        graders: Sequence[GraderGiven] = (),
        bucket: str = "",
        **more: Any,
    ) -> None:
        self.id, self.input, self.graders = id, input, tuple(graders)
        self.bucket, self.more = bucket, more
        self.place = calling_place()

    def __repr__(self) -> str:
        return f"Task({self.id!r}, {self.input!r})"


class Suite:
    """Tasks that have an agent, a kind and a gate in common, made by ``suite``."""

    def __init__(
        self,
        keys: Mapping[str, Any],
        agent: AgentGiven | None,
        tasks: tuple[Task | Mapping[str, Any], ...],
        tables: tuple[Mapping[str, Any], ...],
        graders: tuple[GraderGiven, ...],
        place: CodePlace,
    ) -> None:
        self.keys, self.agent, self.tasks, self.tables = keys, agent, tasks, tables
        self.graders, self.place = graders, place

    @property
    def name(self) -> str:
        """What reports call it."""
        return str(self.keys["name"])

    def __repr__(self) -> str:
        return f"<Suite {self.name!r} of {self.place}>"


def suite(
    name: str,
    *,
    tasks: Iterable[Task | Mapping[str, Any]] | Mapping[str, Any],
    agent: AgentGiven | None = None,
    graders: Sequence[GraderGiven] = (),
    kind: Kind = "mixed",
    **more: Any,
) -> Suite:
    """Make a suite, which pytest collects where a ``test_*.py`` has it in a variable.

    ``tasks`` are tasks, maps as in a task file, or one map as ``tasks:`` in suite.yaml, with ``rows``.
    ``agent`` is a registered name, ``module:function``, a map as in suite.yaml, or what acts itself.
    ``graders`` are applied to every task, before its own. ``more`` are other keys of suite.yaml: ``model``,
    ``gate``, ``tools``, ``settings``, ``defaults``, ``live``, …
    """
    given = [tasks] if isinstance(tasks, Mapping) else list(tasks)
    tables = tuple(each for each in given if isinstance(each, Mapping) and "rows" in each)
    single = tuple(each for each in given if not (isinstance(each, Mapping) and "rows" in each))
    keys = {"name": name, "kind": kind, **more}
    return Suite(keys, agent, single, tables, tuple(graders), calling_place())

"""Suites and tasks written in Python, with their agents and graders: in a ``test_*.py`` they run as tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agenteval.graders.grader import Grader, GraderFunction
from pytest_agenteval.records.plan import Kind
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import KeyPath, Problem, UsageMistake


class CodePlace(FrozenValue, frozen=True):
    """A line of a module."""

    file: Path
    line: int

    def problem(self, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
        return Problem(short_path(self.file), self.line, path, expected, found, hint)

    def __str__(self) -> str:
        return f"{short_path(self.file)}:{self.line}"


def calling_place() -> CodePlace:
    """Give the line that called the caller of this function."""
    frame = sys._getframe(2)
    return CodePlace(Path(frame.f_code.co_filename), frame.f_lineno)


# A grader's name, a map as in a task file (whose ``name`` may be a grader itself), or a grader.
GraderReference: TypeAlias = "str | Mapping[str, Any] | Grader | GraderFunction | Callable[..., Any]"

# A registered name, ``module:function``, a map as in suite.yaml, or what acts itself.
AgentReference: TypeAlias = "str | Callable[..., Any] | Mapping[str, Any] | object"


def name_of(thing: Any) -> str:
    """Name a function, a class or an object by where it is defined: ``support.bot:answer``."""
    written = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{written.__module__}:{written.__qualname__}".replace(".<locals>", "")


def short_name(thing: Any) -> str:
    """Give only the last part of its name, as reports do."""
    return name_of(thing).rpartition(":")[2].rpartition(".")[2]


def grader_config(given: GraderReference, registry: Registry) -> dict[str, Any]:
    """Give a grader as in a task file; a grader object is registered under its name."""
    if isinstance(given, str):
        return {"name": given}
    written: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {"name": given}
    thing = written.get("name")
    # A map without a name is left to its reader, which reports it better. None in the place of a map is
    # refused as a grader.
    if not isinstance(thing, str) and (thing is not None or not isinstance(given, Mapping)):
        written["name"] = registry.grader_given(name_of(thing), thing)
        written.setdefault("label", short_name(thing))
    return written


def grader_configs(given: Sequence[GraderReference], registry: Registry) -> list[dict[str, Any]]:
    """Give graders as in a task file; those of the same label are numbered."""
    configs = [grader_config(each, registry) for each in given]
    times: dict[str, int] = {}
    for config in configs:
        label = config.get("label")
        if label is not None and "name" in config and ":" in str(config["name"]):
            times[label] = times.get(label, 0) + 1
            config["label"] = label if times[label] == 1 else f"{label} {times[label]}"
    return configs


def agent_config(given: AgentReference | None, registry: Registry, root: Path) -> str | dict[str, Any] | None:
    """Give an agent as in suite.yaml; an agent object is registered under its name."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, str):
        is_place = ":" in given and given not in registry.agents
        return {"call": given} if is_place else given
    if not callable(given) and not callable(getattr(given, "run", None)):
        raise UsageMistake(
            f"agent: expected a registered name, 'module:function', a map as in suite.yaml, or a function, "
            f"a class or an object with run; found {given!r:.80}"
        )
    name = name_of(given)
    script = sys.path[0] if sys.path and sys.path[0] else str(root)
    registry.agent_given(name, given, list(dict.fromkeys([str(root), script])))
    return name


class Task:
    """One task, as in a task file; ``graders`` may also be grader objects and functions.

    ``input`` is what the agent is given: a text alone is its ``content``. ``bucket`` names its line in the
    table. ``more`` are other keys of a task file: ``tags``, ``limits``, ``split``, ``reference_solution``, …
    """

    def __init__(
        self,
        id: str,
        input: str | Mapping[str, Any],
        *,
        graders: Sequence[GraderReference] = (),
        bucket: str = "",
        **more: Any,
    ) -> None:
        self.id, self.input, self.graders = id, input, tuple(graders)
        self.bucket, self.more = bucket, more
        self.place = calling_place()

    def __repr__(self) -> str:
        return f"Task({self.id!r}, {self.input!r})"


class Suite:
    """Tasks with one agent, kind and gate, made by ``suite``."""

    def __init__(
        self,
        keys: Mapping[str, Any],
        agent: AgentReference | None,
        tasks: tuple[Task | Mapping[str, Any], ...],
        tables: tuple[Mapping[str, Any], ...],
        graders: tuple[GraderReference, ...],
        place: CodePlace,
    ) -> None:
        self.keys, self.agent, self.tasks, self.tables = keys, agent, tasks, tables
        self.graders, self.place = graders, place

    @property
    def name(self) -> str:
        """Its name in reports."""
        return str(self.keys["name"])

    def __repr__(self) -> str:
        return f"<Suite {self.name!r} of {self.place}>"


def suite(
    name: str,
    *,
    tasks: Iterable[Task | Mapping[str, Any]] | Mapping[str, Any],
    agent: AgentReference | None = None,
    graders: Sequence[GraderReference] = (),
    kind: Kind = "mixed",
    **more: Any,
) -> Suite:
    """Make a suite; pytest collects it from a variable in a ``test_*.py``.

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

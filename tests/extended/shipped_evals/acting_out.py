"""Acting out what somebody would do in the tasks of the card and PKM evals, on the real engine."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pytest_agenteval.records.plan import Model, Plan, PlannedTask
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.planning.planner import Planner
from tests.engine.executing import execute, registry

ROOT = Path(__file__).parents[3]
ORACLE = Model("oracle", "oracle", offline=True)
AT_ONCE = 200

Turns = list[dict[str, Any]]
FACT_MARK = "<!-- fact_id: {} -->"


@dataclass(frozen=True)
class Acted:
    """One task, and what is done in the place of its reference."""

    task: PlannedTask
    turns: Sequence[Mapping[str, Any]]

    @property
    def plan(self) -> Plan:
        """The trial that acts it out."""
        reference = {**(self.task.reference or {}), "turns": [_whole(turn) for turn in self.turns]}
        return Plan(replace(self.task, reference=reference, repetitions=1), ORACLE)


def _whole(turn: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": turn.get("text"), "calls": [dict(call) for call in turn.get("calls") or ()]}


@cache
def tasks(suite: str) -> tuple[PlannedTask, ...]:
    """Plan every task of a suite of ours, held-out ones too."""
    planner = Planner(registry(), ROOT)
    files = sorted((ROOT / "evals" / suite).rglob("task.json"))
    planned = (task for file in files for task, _ in planner.tasks(file, named=True))
    return tuple(replace(task, layers=tuple(map(str, task.layers))) for task in planned)


def acted_out(acted: Sequence[Acted]) -> list[Trial]:
    """Carry out these trials; a judge is not asked."""
    names, trials = registry(), []
    for start in range(0, len(acted), AT_ONCE):
        trials += execute(names, *(each.plan for each in acted[start : start + AT_ONCE]))
    return trials


def turns_of(task: PlannedTask) -> Turns:
    """Give a copy of the reference's turns, to be changed."""
    return copy.deepcopy([_whole(turn) for turn in (task.reference or {}).get("turns", ())])


def calls(turns: Turns, *tools: str) -> Iterator[dict[str, Any]]:
    """Give the calls of these tools."""
    return (call for turn in turns for call in turn["calls"] if call["tool"] in tools)


def fact_of(task: PlannedTask) -> str:
    """Give the id of the task's entry."""
    return str(task.input["fact_id"])


def call(tool: str, **args: Any) -> dict[str, Any]:
    """Write a call as a reference does."""
    return {"tool": tool, "args": args}


def new_text(tool_call: Mapping[str, Any]) -> str:
    """Give what an Edit or a Write brings in."""
    args = tool_call["args"]
    if tool_call["tool"] == "Write":
        return str(args["content"])
    old, new = args["old_string"], args["new_string"]
    return str(new.replace(old, "", 1)) if old.strip() and old in new else str(new)

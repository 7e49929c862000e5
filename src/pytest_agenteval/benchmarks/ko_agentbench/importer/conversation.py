"""Where a multi-turn task is evaluated, and what of its conversation is given before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import Fields, SourceTask, actions


def named_turn(task: SourceTask) -> int:
    """Give the turn at which the benchmark evaluates: the last one tested, else the last user turn."""
    tested = [int(test["turn"]) for test in task.context_tests if isinstance(test.get("turn"), int)]
    return max(tested) if tested else _last_user(task, len(task.turns))


def evaluated_turn(task: SourceTask) -> int:
    """Give the last user turn up to the named one: after an assistant's turn nothing is asked."""
    return _last_user(task, named_turn(task))


def turn_at(task: SourceTask, number: int) -> Fields | None:
    """Give the turn of that number, counted from 1."""
    return task.turns[number - 1] if 1 <= number <= len(task.turns) else None


def given(task: SourceTask, until: int) -> list[dict[str, Any]]:
    """Give the turns up to a number as a task of ours writes them, seeded calls with their results."""
    return [_turn(turn) for turn in task.turns[:until]]


def _turn(turn: Fields) -> dict[str, Any]:
    written: dict[str, Any] = {"role": turn.get("role")}
    calls = [_call(action) for action in actions(turn)] if turn.get("role") == "assistant" else []
    if calls:
        written["calls"] = calls
    written["content"] = turn.get("content") or ""
    return written


def _call(action: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool": action["tool"], "args": action.get("args") or {}, "result": action.get("result")}


def _last_user(task: SourceTask, until: int) -> int:
    numbers = [n for n, turn in enumerate(task.turns[:until], start=1) if turn.get("role") == "user"]
    return numbers[-1] if numbers else 0

"""Agents whose work has to come to a finish: attempts, reminders, and a model that goes round in circles."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.agents.loop import RepeatedCallGuard, run_until_complete
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import ToolResult


@pytest.mark.parametrize(("needed", "retries", "attempts"), [(1, 3, 1), (3, 3, 3), (9, 2, 3), (9, 0, 1)])
def test_attempts_end_when_complete_or_when_there_are_no_more(
    needed: int, retries: int, attempts: int
) -> None:
    """Each further attempt comes after a reminder of the state before it; the answer holds the last state."""
    made, reminded = list[int](), list[Mapping[str, Any]]()

    async def attempt() -> str:
        made.append(len(made) + 1)
        return f"word {made[-1]}"

    def state() -> dict[str, Any]:
        return {"is_complete": len(made) >= needed, "made": len(made)}

    answer = asyncio.run(run_until_complete(attempt, state, reminded.append, retries))

    assert (len(made), answer.text) == (attempts, f"word {attempts}")
    assert [one["made"] for one in reminded] == list(range(1, attempts))
    assert answer.state == {"is_complete": attempts >= needed, "made": attempts}


def call(tool: str, raw: str | None = None, **args: Any) -> tuple[ToolCall, ToolResult]:
    """Give an answered call."""
    return ToolCall("c", 1, 0, tool, args, raw), ToolResult("done")


def test_the_same_call_on_end_is_a_circle() -> None:
    """It counts within a reply and over several; another call between begins anew."""
    guard = RepeatedCallGuard(3)
    assert not guard.is_stuck([call("Read", path="a"), call("Read", path="a")])
    assert not guard.is_stuck([call("Read", path="b")])
    assert not guard.is_stuck([call("Read", path="a")])
    assert not guard.is_stuck([call("Read", path="a")])
    assert guard.is_stuck([call("Read", path="a")])


def test_arguments_that_are_no_json_tell_calls_apart() -> None:
    """Such calls have no arguments, and are not equal for that."""
    guard = RepeatedCallGuard(2)
    assert not guard.is_stuck([call("Read", "{oops"), call("Read", "{oh"), call("Read")])
    assert guard.is_stuck([call("Read")])

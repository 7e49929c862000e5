"""Faults: a tool that fails on purpose, at the calls that the task says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.tools.tool import Tool, ToolResult, planned_faults
from pytest_agenteval.tools.toolbox import ToolBox

FOUND = {"items": [{"n": 1, "tags": ["a", "b"]}, {"n": 2, "tags": []}, {"n": 3, "tags": ["c"]}], "total": 3}


def results_of(fault: dict[str, Any], *queries: str, tool: str = "search") -> list[ToolResult]:
    """Make calls of a tool, one after the other, in a trial with this fault."""
    answers: dict[str, Any] = {
        "search": lambda args: {**FOUND, "q": args["q"]},
        "text": lambda args: "abcdef",
    }
    box = ToolBox(Recorder(lambda: 0.0), faults=planned_faults([fault]))
    box.offer(*(Tool(ToolSpec(name, blocking=False), function) for name, function in answers.items()))

    async def all_of_them() -> list[ToolResult]:
        calls = (ToolCall(str(n), 1, n, tool, {"q": query}) for n, query in enumerate(queries))
        return [await box.call(call) for call in calls]

    return asyncio.run(all_of_them())


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("timeout", "Request timeout"),
        ("complete_unavailable", "Service completely unavailable"),
        ("data_not_available", "No data available"),
        ("rate_limited", "Too many requests (429): try again later"),
    ],
)
def test_an_error_is_shown_in_the_tools_place(type: str, message: str) -> None:
    """Every call of the tool fails with the fault's own type and words."""
    results = results_of({"tool": "search", "type": type}, "x", "y")
    assert results == [ToolResult(error=ToolError(type, message))] * 2


def test_only_the_named_tool_fails() -> None:
    """Another tool answers as ever."""
    assert results_of({"tool": "search", "type": "timeout"}, "x", tool="text")[0].value == "abcdef"


def test_after_and_times_say_which_calls_fail() -> None:
    """The first is let through, the next two fail, then all is well."""
    results = results_of({"tool": "search", "type": "timeout", "after": 1, "times": 2}, *"abcd")
    assert [result.error is None for result in results] == [True, False, False, True]


def test_a_malformed_answer_is_torn_json() -> None:
    """The call does not fail: what comes back cannot be read."""
    (result,) = results_of({"tool": "search", "type": "malformed"}, "x")
    assert result.error is None
    assert isinstance(result.value, str)
    assert result.value.startswith('{"items":[{"n":1')
    with pytest.raises(ValueError):
        __import__("json").loads(result.value)


def test_a_partial_answer_keeps_the_first_half_of_its_lists() -> None:
    """Single values stay, lists within lists are halved too; of a text the first half stays."""
    (result,) = results_of({"tool": "search", "type": "partial"}, "x")
    assert result.value == {"items": [{"n": 1, "tags": ["a"]}], "total": 3, "q": "x"}
    assert results_of({"tool": "text", "type": "partial"}, "x", tool="text")[0].value == "abc"


def test_a_stale_answer_is_the_first_one_again() -> None:
    """Whatever is asked later, the tool gives what it gave at first."""
    results = results_of({"tool": "search", "type": "stale", "after": 1}, "old", "new")
    assert [result.value["q"] for result in results] == ["old", "old"]


def test_a_slow_tool_takes_longer_and_answers() -> None:
    """Its time is the trial's: the answer comes all the same."""
    began = time.monotonic()
    (result,) = results_of({"tool": "search", "type": "slow", "seconds": 0.2}, "x")
    assert time.monotonic() - began >= 0.2
    assert result.value["total"] == 3


def test_each_trial_counts_for_itself() -> None:
    """Faults are made anew of the plan, so that what one trial called strikes no other."""
    planned = {"tool": "search", "type": "timeout", "times": 1}
    assert [results_of(planned, "x")[0].error is None for _ in range(2)] == [False, False]


def test_of_an_empty_text_nothing_is_left() -> None:
    """Half of nothing is nothing."""
    fault = planned_faults([{"tool": "t", "type": "partial"}])[0]
    assert fault.alter_result(ToolCall("1", 1, 0, "t", {}), 1, ToolResult("")) == ToolResult("")


def test_the_first_answer_is_that_of_the_first_call() -> None:
    """Also where calls run side by side and a later one ends sooner."""
    box = ToolBox(Recorder(lambda: 0.0), faults=planned_faults([{"tool": "wait", "type": "stale"}]))

    async def wait(args: Mapping[str, Any]) -> Any:
        await asyncio.sleep(args["s"])
        return args["s"]

    box.offer(Tool(ToolSpec("wait", blocking=False), wait))

    async def at_once() -> list[ToolResult]:
        calls = (ToolCall(str(n), 1, n, "wait", {"s": s}) for n, s in enumerate((0.05, 0.01, 0)))
        return await asyncio.gather(*map(box.call, calls))

    assert [result.value for result in asyncio.run(at_once())] == [0.05] * 3

"""The plain agent: what the suite says to it, and when it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.records.plan import PlannedGrader
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.tools.tool import Tool
from tests.engine.executing import execute, plan, registry

ANSWER = PlannedGrader("answer_contains", "answer", {"text": "18"})


def run_script(script: list[Mapping[str, Any]], tool: Tool, **settings: Any) -> Trial:
    """Carry out a trial whose model follows the script."""
    known = registry()
    known.tool(tool)
    asked = {"tools": [tool.spec.name], **settings}
    return execute(known, plan("t", ANSWER, script=tuple(script), settings=asked))[0]


def look(function: Any) -> Tool:
    """Give a tool that runs on the loop."""
    return Tool(ToolSpec("look", blocking=False), function)


def test_the_suites_system_prompt_comes_first_and_only_once() -> None:
    """It goes before what the user says, whatever is said after; without one there is none."""
    script = [{"calls": [{"tool": "look", "args": {}}]}, {"text": "18"}]
    trial = run_script(script, look(lambda args: 18), system="간결하게 답하세요.")
    assert [message.role for message in trial.transcript.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert trial.transcript.messages[0].content == "간결하게 답하세요."
    assert run_script([{"text": "18"}], look(lambda args: 18)).transcript.messages[0].role == "user"


@pytest.mark.parametrize("calls", [[], [{"tool": "look", "args": {}}]])
def test_an_empty_answer_is_not_asked_for_again(calls: list[Any]) -> None:
    """Who says nothing has said nothing: no second conversation is begun in silence."""
    before = [{"calls": calls}] if calls else []
    trial = run_script([*before, {"text": ""}, {"text": "18"}], look(lambda args: {"error": "no"}))
    assert trial.outcome.answer.text == ""
    assert len(trial.transcript.asks) == len(before) + 1
    assert trial.ending == "failed"


def test_the_calls_of_one_reply_are_under_way_together() -> None:
    """Each waits until all three have begun: one after the other they would wait for ever."""
    begun: list[int] = []

    async def meet(args: Mapping[str, Any]) -> int:
        begun.append(args["n"])
        async with asyncio.timeout(5):
            while len(begun) < 3:
                await asyncio.sleep(0)
        return 18

    calls = [{"tool": "look", "args": {"n": n}} for n in range(3)]
    trial = run_script([{"calls": calls}, {"text": "18"}], look(meet))
    assert trial.ending == "passed"
    assert [call.error for call in trial.transcript.calls] == [None] * 3

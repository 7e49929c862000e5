"""The loop that agents share: ask, call what was asked for, answer, until the model has no more calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatSettings, Reply
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import ToolResult

StopCondition = Callable[[Sequence[tuple[ToolCall, ToolResult]]], bool]
"""Says, of the calls of one reply and their results, whether the conversation is over."""


def until_no_calls(answered: Sequence[tuple[ToolCall, ToolResult]]) -> bool:
    """Go on until the model asks for no more calls."""
    return False


async def converse(
    ctx: AgentContext,
    messages: list[dict[str, Any]],
    *,
    finished: StopCondition = until_no_calls,
    most_asks: int | None = None,
    settings: ChatSettings = DEFAULT_SETTINGS,
) -> str:
    """Let the model speak and call tools until it is done; give its last words.

    ``messages`` grows by what was said. The calls of one reply run side by side; their results are
    answered in the order in which they were asked for. ``finished`` sees the answered calls of each reply.
    """
    asked, text = 0, ""
    while most_asks is None or asked < most_asks:
        reply = await ctx.chat.ask(messages, tools=ctx.tools.specs, settings=settings)
        asked += 1
        messages.append(reply.message())
        text = reply.text
        if not reply.calls:
            break
        answered = await call_all(ctx, reply)
        messages.extend(result.message(call) for call, result in answered)
        if finished(answered):
            break
    return text


async def call_all(ctx: AgentContext, reply: Reply) -> list[tuple[ToolCall, ToolResult]]:
    """Make every call of one reply, side by side; give calls and results in the reply's order."""
    turn = ctx.transcript.turn
    calls = [replace(call, turn=turn, index=index) for index, call in enumerate(reply.calls)]
    if len(calls) == 1:
        return [(calls[0], await ctx.tools.call(calls[0]))]
    # All of them come to their end, whatever one of them raises: nothing goes on behind the trial's back.
    results = await asyncio.gather(*(ctx.tools.call(call) for call in calls), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [
        (call, result) for call, result in zip(calls, results, strict=True) if isinstance(result, ToolResult)
    ]

"""The model that follows a script, and how what an author wrote of a turn becomes a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, Reply
from pytest_agenteval.errors import NothingToActOut, ScriptEnded
from pytest_agenteval.records.plan import Model, Plan
from pytest_agenteval.records.tool import ToolSpec, parse_arguments
from pytest_agenteval.records.transcript import ToolCall, Usage

Fill = Callable[[Any], Any]


def as_written(value: Any) -> Any:
    """Leave arguments as the author wrote them."""
    return value


class ScriptedReplies:
    """Speaks an author's turns; its calls are numbered through the whole chat, so that each id is its own."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def reply(self, turn: Mapping[str, Any], fill: Fill = as_written) -> Reply:
        """Give one turn as a reply; ``fill`` is applied to the arguments of each call."""
        calls = tuple(self._call(call, index, fill) for index, call in enumerate(turn.get("calls") or ()))
        return Reply(
            text=turn.get("text") or "",
            calls=calls,
            usage=Usage(
                int(turn.get("input_tokens") or 0), int(turn.get("output_tokens") or 0), asks=1, attempts=1
            ),
            finish="tool_calls" if calls else "stop",
        )

    def _call(self, call: Mapping[str, Any], index: int, fill: Fill) -> ToolCall:
        """Make one call; arguments written as text are sent as they are, like a model's malformed ones."""
        args, raw = call.get("args") or {}, None
        if isinstance(args, str):
            args, raw = parse_arguments(args)
        else:
            args = fill(args)
        return ToolCall(f"call_{next(self._numbers)}", 0, index, call["tool"], args, raw)


class Scripted:
    """Gives one entry of the script for each ask, after as many seconds as the entry says."""

    def __init__(self, script: Sequence[Mapping[str, Any]], file: str) -> None:
        self._script, self._file = script, file
        self._replies = ScriptedReplies()
        self._asks = 0

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the next entry; raises ScriptEnded beyond the last, NothingToActOut without a script."""
        entry = self._next()
        seconds = entry.get("seconds") or 0.0
        if seconds > 0:
            await asyncio.sleep(seconds)
        return self._replies.reply(entry)

    def _next(self) -> Mapping[str, Any]:
        if not self._script:
            raise NothingToActOut(f"nothing to act out: {self._file} has no script")
        self._asks += 1
        if self._asks > len(self._script):
            entries = "1 entry" if len(self._script) == 1 else f"{len(self._script)} entries"
            raise ScriptEnded(f"{self._file}: the script has {entries}, and was asked for one more")
        return self._script[self._asks - 1]


def scripted(model: Model, plan: Plan) -> Scripted:
    """Make a trial's chat, which follows the task's script."""
    return Scripted(plan.task.script or (), plan.task.file or plan.task.id)

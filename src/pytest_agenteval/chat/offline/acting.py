"""Turning what an author wrote of a turn into the reply that a model would have given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.records.tool import parse_args
from pytest_agenteval.records.transcript import ToolCall, Usage

Fill = Callable[[Any], Any]


def as_written(value: Any) -> Any:
    """Leave arguments as the author wrote them."""
    return value


class Actor:
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
            args, raw = parse_args(args)
        else:
            args = fill(args)
        return ToolCall(f"call_{next(self._numbers)}", 0, index, call["tool"], args, raw)

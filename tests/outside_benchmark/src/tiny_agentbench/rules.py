"""How the offline model ``rules`` plays here: it looks the name up, and greets."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_agenteval import ChatMessage, Move, ToolSpec


def play(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Move | None:
    """Give the next move."""
    last = messages[-1]
    if last["role"] == "tool":
        return Move(f"Hello, {last['content']}!")
    return Move(calls=(("look_up_name", {"number": 1}),))

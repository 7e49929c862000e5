"""The rule-based model as a chat: it sees messages and tools, and nothing of the task behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from pytest_agenteval.benchmarks.memex.rules import card, pkm
from pytest_agenteval.canonical import compact
from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.offline.rules import tool_calling
from pytest_agenteval.chat.offline.rules.move import Move, last_words, text_of
from pytest_agenteval.records.plan import Model, Plan
from pytest_agenteval.records.tool import ToolSpec
from pytest_agenteval.records.transcript import ToolCall, Usage

Player = Callable[[Sequence[ChatMessage], Sequence[ToolSpec]], Move | None]

PLAYERS: Mapping[str, Player] = {"save_timeline_card": card.play, "update_timeline_card_insight": pkm.play}
"""By the tool that tells what is being played."""


def rules(model: Model, plan: Plan) -> RulesChat:
    """Make the chat of one trial; neither the model's settings nor the task are looked at."""
    return RulesChat()


class RulesChat:
    """Plays by rules where it has tools, and repeats what the user said where it has none."""

    def __init__(self) -> None:
        self._numbers = count(1)

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the next reply; a token is taken to be four characters, and costs nothing."""
        move = _played(messages, tools) or Move(last_words(messages))
        calls = tuple(
            ToolCall(f"rules_{next(self._numbers)}", 0, index, tool, args)
            for index, (tool, args) in enumerate(move.calls)
        )
        said = move.text + "".join(compact(call.args) for call in calls)
        heard = sum(len(text_of(message)) for message in messages)
        usage = Usage(heard // 4, len(said) // 4, cost_usd=0.0, asks=1, attempts=1)
        return Reply(move.text, calls, usage, "tool_calls" if calls else "stop")


def _played(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Move | None:
    if not tools:
        return None
    player = next((PLAYERS[tool.name] for tool in tools if tool.name in PLAYERS), tool_calling.play)
    return player(messages, tools)

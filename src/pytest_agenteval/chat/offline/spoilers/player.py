"""The player that acts out a spoilt reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.offline.scripted import Oracle
from pytest_agenteval.chat.offline.spoilers.turns import EVERYTHING
from pytest_agenteval.records.plan import Model, Plan
from pytest_agenteval.records.tool import ToolSpec


class Spoiler(Oracle):
    """Acts out turns as the oracle does; what asks for everything becomes all that was said and found."""

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the next turn; raises NothingToActOut where there is none."""
        if self._turns:
            place = min(self._asks, len(self._turns) - 1)
            turn = _with_conversation(self._turns[place], "\n".join(_conversation_texts(messages)))
            self._turns = [*self._turns[:place], turn, *self._turns[place + 1 :]]
        return await super().ask(messages, tools=tools, response_schema=response_schema, settings=settings)


def _conversation_texts(messages: Sequence[ChatMessage]) -> list[str]:
    return [str(message.get("content") or "") for message in messages if message["role"] in ("user", "tool")]


def _with_conversation(turn: Mapping[str, Any], conversation: str) -> Mapping[str, Any]:
    # In arguments a dollar sign would refer to a result.
    calls = _filled(turn.get("calls") or (), conversation.replace("$", "$$"))
    return {**turn, "text": _filled(turn.get("text") or "", conversation), "calls": calls}


def _filled(value: Any, conversation: str) -> Any:
    if isinstance(value, str):
        return value.replace(EVERYTHING, conversation)
    if isinstance(value, Mapping):
        return {key: _filled(inner, conversation) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(inner, conversation) for inner in value]
    return value


def spoiler(model: Model, plan: Plan) -> Spoiler:
    """Make a trial's chat, which acts out the task's reference as it was spoilt."""
    return Spoiler((plan.task.reference or {}).get("turns") or (), plan.task.file or plan.task.id)

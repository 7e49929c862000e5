"""The model that does nothing: no task may pass with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, Reply
from pytest_agenteval.records.plan import Model, Plan
from pytest_agenteval.records.tool import ToolSpec

SILENCE = Reply()


class Nop:
    """Says nothing and calls nothing, however often it is asked."""

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give an empty reply."""
        return SILENCE


def nop(model: Model, plan: Plan) -> Nop:
    """Make a trial's chat."""
    return Nop()

"""A judge that needs no key, so that the benchmark's own tests do not either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval import Chat, ChatMessage, ChatSettings, Model, Plan, Reply, ToolSpec


class TinyJudge:
    """Finds whatever says hello warm."""

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings | None = None,
    ) -> Reply:
        """Give the verdict in JSON, as every judge is asked to."""
        warm = 1 if "Hello" in str(messages[-1]["content"]) else 0
        return Reply(f'{{"rationale": "by one word", "warmth": {warm}}}')


def tiny_judge(model: Model, plan: Plan) -> Chat:
    """Make the judge of one trial."""
    return TinyJudge()

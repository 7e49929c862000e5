"""The plain agent: user messages in, tool calls through the box, the model's last words out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.agents.loop import converse
from pytest_agenteval.records.outcome import Answer


@dataclass(frozen=True, slots=True)
class ToolCallingAgent:
    """An agent with no ways of its own: the suite says its system prompt and its tools.

    ``system`` is the system prompt, empty for none; a prompt template called ``system`` goes before it.
    ``tools`` names registered tools to offer.
    """

    system: str = ""
    tools: tuple[str, ...] = ()

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Answer each user message in turn; the answer is what was said last."""
        messages: list[dict[str, Any]] = []
        system = ctx.prompts.render("system") if "system" in ctx.prompts.texts else self.system
        if system:
            messages.append({"role": "system", "content": system})
        text = ""
        while (said := await ctx.turns()) is not None:
            messages.append({"role": "user", "content": said})
            text = await converse(ctx, messages)
        return Answer(text)

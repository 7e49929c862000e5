"""The agent that this benchmark tries, and a tool that every task is offered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pytest_agenteval import AgentContext, Answer, ChatMessage, tool_of


def tiny_clock() -> str:
    """Tell the time of day."""
    return "noon"


clock = tool_of(tiny_clock)


class Greeter:
    """Greets whom it is told to greet, and keeps a note of it."""

    templates: ClassVar[Mapping[str, str]] = {"system": "Greet people by their names."}

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Ask until no tool is called any more."""
        messages: list[ChatMessage] = [
            {"role": "system", "content": ctx.prompts.render("system")},
            {"role": "user", "content": str(task_input["content"])},
        ]
        while True:
            reply = await ctx.chat.ask(messages, tools=ctx.tools.specs)
            messages.append(reply.message())
            if not reply.calls:
                ctx.workspace.inside("greeting.txt").write_text(reply.text, encoding="utf-8")
                return Answer(reply.text)
            for call in reply.calls:
                messages.append((await ctx.tools.call(call)).message(call))

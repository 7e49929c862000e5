"""The plain agent: user messages in, tool calls through the box, the model's last words out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.agents.conversation import input_problems, last_user_turn, seed_conversation
from pytest_agenteval.agents.loop import converse
from pytest_agenteval.errors import KeyPath
from pytest_agenteval.records.evidence import Answer


@dataclass(frozen=True, slots=True)
class ToolCallingAgent:
    """An agent with no ways of its own: the suite says its system prompt and its tools.

    ``system`` is the system prompt, empty for none; a prompt template called ``system`` takes its place.
    ``tools`` names the tools to offer. Where the task's turns hold an assistant's, ``seed_replay`` takes what
    stands before the last user turn as said and done, and answers that one turn; ``full_rollout`` passes
    over the assistant's turns and answers every user turn itself.
    """

    system: str = ""
    tools: tuple[str, ...] = ()
    conversation: Literal["seed_replay", "full_rollout"] = "seed_replay"

    prompt_names: ClassVar[tuple[str, ...]] = ("system",)

    @staticmethod
    def input_problems(task_input: Mapping[str, Any]) -> list[tuple[KeyPath, str, str, str]]:
        """Say what is wrong with the turns of a task, each with its key below ``input``."""
        return input_problems(task_input)

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Answer each user message in turn; the answer is what was said last."""
        messages: list[dict[str, Any]] = []
        system = ctx.prompts.render("system") if "system" in ctx.prompts.texts else self.system
        if system:
            messages.append({"role": "system", "content": system})
        seeded = last_user_turn(task_input) if self.conversation == "seed_replay" else 0
        if seeded:
            for _ in range(seed_conversation(task_input["turns"][:seeded], messages, ctx.transcript)):
                await ctx.turns()
        text = ""
        while (said := await ctx.turns()) is not None:
            messages.append({"role": "user", "content": said})
            text = await converse(ctx, messages)
        return Answer(text)

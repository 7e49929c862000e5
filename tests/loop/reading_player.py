"""Models and an agent for projects whose prompts matter: copied into such a project as its conftest.

``rules.json`` beside it holds ``{"sentence": …, "masters": […], "breaks": […]}``: with the sentence in the
system message, tasks of the named buckets (or those very tasks) are solved, or spoilt. Everything else is
tried by rules, and solved by lot, as often as a mediocre model would.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_agenteval import (
    AgentContext,
    Chat,
    ChatMessage,
    ChatSettings,
    Model,
    Plan,
    Registry,
    Reply,
    ToolSpec,
)

HERE = Path(__file__).parent
RULES = json.loads((HERE / "rules.json").read_text(encoding="utf-8"))
LUCK = 0.25
"""The share of trials that is solved without any sentence."""


def pytest_agenteval_register(registry: Registry) -> None:
    """Offer the model that reads, and an agent whose prompt is a file of the tree it stands in."""

    def reader(model: Model, plan: Plan) -> Chat:
        chats = {name: registry.model_factory(name)(model, plan) for name in ("oracle", "rules", "nop")}
        return ReadingChat(plan, chats)

    registry.model("reader", reader)
    registry.agent("own_files", answer_by_own_file)


async def answer_by_own_file(task_input: Mapping[str, Any], ctx: AgentContext) -> str:
    """Answer in one reply; the prompt is no template and is asked for from nobody."""
    system = (HERE / "prompts" / "system.md").read_text(encoding="utf-8")
    messages = [{"role": "system", "content": system}, {"role": "user", "content": task_input["content"]}]
    return (await ctx.chat.ask(messages)).text


class ReadingChat:
    """Solves, spoils or tries a task, as the system message has it; the same message gives the same trial."""

    def __init__(self, plan: Plan, chats: Mapping[str, Chat]) -> None:
        self._plan, self._chats = plan, chats

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings | None = None,
    ) -> Reply:
        """Have the model answer that fits, after as many seconds as the environment says."""
        await asyncio.sleep(float(os.environ.get("READER_SECONDS", "0")))
        system = " ".join(str(messages[0]["content"]).split())
        return await self._chats[self._way(system)].ask(messages, tools=tools)

    def _way(self, system: str) -> str:
        names = {self._plan.task.bucket, self._plan.task.id}
        rules = [rule for rule in RULES if rule["sentence"] in system]
        if any(names & set(rule.get("breaks", ())) for rule in rules):
            return "nop"
        if any(names & set(rule.get("masters", ())) for rule in rules):
            return "oracle"
        lot = hashlib.sha256(f"{self._plan.task.id} {self._plan.key.repetition} {system}".encode()).digest()
        return "oracle" if lot[0] < LUCK * 256 else "rules"

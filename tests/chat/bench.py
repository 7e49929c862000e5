"""A trial's budget and transcript around a model on 127.0.0.1."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pytest_agenteval.chat.chat import Chat, Reply
from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.chat.retries import Retrying
from pytest_agenteval.limits import Budget
from pytest_agenteval.records.plan import Allowance, Model
from pytest_agenteval.records.recorder import Recorder
from tests.loopback.model_server import ModelServer, ReplyPlan

__all__ = ["QUESTION", "Bench", "ModelServer", "ReplyPlan"]

QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "What is 1 + 2?"}]
FREE = Allowance()
IDS = {"openai": "openai/gpt-5.5", "anthropic": "anthropic/claude-sonnet-4-5"}


@dataclass
class Bench:
    """A trial's budget and transcript around a model on the loopback server."""

    loop: asyncio.Runner
    wire: str
    slept: list[float] = field(default_factory=list)
    quiet: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recorder = Recorder(lambda: self.budget.at)
        self.begin()

    def begin(self, allowed: Allowance = FREE) -> Budget:
        """Begin the trial's time, now that everything is imported."""
        self.loop.run(LitellmChat(Model("m", IDS[self.wire])).prepare())
        self.budget = Budget(allowed)
        return self.budget

    async def sleep(self, seconds: float) -> None:
        """Sleep, and note for how long."""
        self.slept.append(seconds)
        await asyncio.sleep(seconds)

    def model(self, server: ModelServer, **params: Any) -> Model:
        """Give the server as a model; ``params`` are those of an alias."""
        base = server.openai_base if self.wire == "openai" else server.anthropic_base
        return Model("model-a", IDS[self.wire], params={"api_base": base, **params})

    def chat(self, server: ModelServer, **params: Any) -> LitellmChat:
        """Give a chat in which each ask is one request."""
        return LitellmChat(self.model(server, **params))

    def retrying(self, chat: LitellmChat, **said: Any) -> Retrying:
        """Put the retry layer around a chat."""
        usual: dict[str, Any] = {"first_wait_s": 0.01, "sleep": self.sleep, "quiet_until": self.quiet}
        return Retrying(chat, budget=self.budget, recorder=self.recorder, **{**usual, **said})

    def ask(self, chat: Chat, messages: list[dict[str, Any]] | None = None, **said: Any) -> Reply:
        """Ask, and wait for the reply."""
        reply: Reply = self.loop.run(chat.ask(messages or QUESTION, **said))
        return reply

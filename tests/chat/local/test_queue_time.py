"""What a request waits for the batch before it is not the trial's own time."""

from __future__ import annotations

import asyncio
from typing import Any

from pytest_agenteval.chat.chat import ProviderChat, Reply, Send
from pytest_agenteval.chat.rate_limiter import RateLimiters
from pytest_agenteval.chat.rate_shares import RateLimits
from pytest_agenteval.chat.retries import RetryingChat
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance, Model
from pytest_agenteval.records.recorder import Recorder


class Queued(ProviderChat):
    """Waits for ten seconds, and takes two."""

    model = Model("m", "hf/m")

    def __init__(self, clock: list[float], told: float | None) -> None:
        self._clock, self._told = clock, told

    async def prepare(self, *_: Any, **__: Any) -> Send:
        """Take seven seconds to be loaded."""
        self._clock[0] += 7
        return self._answer

    async def _answer(self) -> Reply:
        self._clock[0] += 12
        return Reply("a", seconds=self._told)


def _own_seconds(told: float | None) -> tuple[float, float | None]:
    clock = [100.0]
    budget = Budget(Allowance(seconds=60), now=lambda: clock[0])
    chat = RetryingChat(
        Queued(clock, told),
        budget=budget,
        recorder=Recorder(lambda: budget.at),
        limiter=RateLimiters().limiter("m", "m", RateLimits()),
    )
    reply = asyncio.run(chat.ask([{"role": "user", "content": "a"}]))
    return budget.seconds, reply.seconds


def test_a_reply_may_say_what_it_took_itself() -> None:
    """Loading and the queue are forgiven; where nothing is told, the whole request counts."""
    assert _own_seconds(2.0) == (2.0, 2.0)
    assert _own_seconds(None) == (12.0, 12.0)

"""The one retry layer: back-off that no trial pays for, and every failed attempt in the transcript."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from msgspec.structs import replace

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, Chat, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.failures import AttemptFailed
from pytest_agenteval.chat.models import TABLE, key_names
from pytest_agenteval.errors import ProviderDown
from pytest_agenteval.limits import Budget, CrossLoopSemaphore
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool import ToolSpec

SPREAD = 0.1
LONGEST_HOLD_UP_S = 3600.0

# Until when each model wants to be left alone, by the monotonic clock: what one trial is told, all heed.
_quiet_until: dict[str, float] = {}

_WHAT_TO_DO: Mapping[str, str] = {
    "unknown_model": "check the model's id",
    "bad_request": "the provider will not take this request, however often it is sent",
    "context_length": "the conversation is longer than the model can read",
    "content_policy": "the provider will not answer this conversation",
    "quota": "the account has no credit left",
    "rate_limit": "run fewer trials at once, or try again later",
    "timeout": "give the model more request_seconds, or try again later",
}


class ProviderChat(Chat, Protocol):
    """A model behind a network: each ask is one request, and a failing one raises AttemptFailed."""

    @property
    def model(self) -> Model:
        """Who is asked."""
        ...

    @property
    def longest_s(self) -> float:
        """How many seconds one request can take at most."""
        ...

    async def prepare(self, *, tools: bool = False) -> None:
        """Get ready to be asked, with ``tools`` too: what it takes is not the trial's own time."""
        ...


class RetryingChat:
    """Asks until there is a reply or no hope of one.

    Waits double from ``first_wait_s`` on, with jitter drawn from ``seed``; where the provider says how long
    to wait, that is what is waited; ``longest_wait_s`` caps both. Failed attempts and waits are forgiven
    while they last, so that no deadline falls into them, and a slow reply is charged when it is there. Each
    request holds one place of ``semaphore``; waiting for one is forgiven too.
    """

    def __init__(
        self,
        chat: ProviderChat,
        *,
        budget: Budget,
        recorder: Recorder,
        seed: int | str = 0,
        attempts: int = 4,
        first_wait_s: float = 1.0,
        longest_wait_s: float = 60.0,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        quiet_until: MutableMapping[str, float] = _quiet_until,
        semaphore: CrossLoopSemaphore | None = None,
    ) -> None:
        self._chat, self._budget, self._recorder = chat, budget, recorder
        self._random = random.Random(f"{seed} {chat.model.name}")
        self._attempts, self._first, self._longest = attempts, first_wait_s, longest_wait_s
        self._sleep, self._quiet_until = sleep, quiet_until
        self._semaphore = semaphore
        self._key = f"{chat.model.id} {chat.model.params.get('api_base', '')}"

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the model's next reply, with the number of attempts in its usage; raises ProviderDown."""
        with self._budget.held_up(LONGEST_HOLD_UP_S):
            await self._chat.prepare(tools=bool(tools))
        wait_s, attempt = 0.0, 0
        while True:
            await self._wait(wait_s)
            async with self._slot():
                attempt, began = attempt + 1, self._budget.at
                try:
                    with self._budget.held_up(self._chat.longest_s) as this:
                        reply = await self._chat.ask(
                            messages, tools=tools, response_schema=response_schema, settings=settings
                        )
                        if reply.seconds is None:
                            this.own = True
                        else:  # the rest was a queue's
                            self._budget.charge(reply.seconds)
                except AttemptFailed as failed:
                    self._recorder.pay(failed.usage)
                    wait_s = self._failed(failed, attempt, self._budget.at - began)
                else:
                    usage = replace(reply.usage, attempts=attempt)
                    seconds = self._budget.at - began if reply.seconds is None else reply.seconds
                    return replace(reply, usage=usage, seconds=seconds)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Hold one place among the requests that may be under way at once."""
        if self._semaphore is None:
            yield
            return
        async with AsyncExitStack() as held:
            with self._budget.held_up(LONGEST_HOLD_UP_S):
                await held.enter_async_context(self._semaphore)
            yield

    def _failed(self, failed: AttemptFailed, attempt: int, seconds: float) -> float:
        """Write a failed attempt down and give the seconds until the next; raises where there is none."""
        over = not failed.retryable or attempt >= self._attempts
        wait_s = 0.0 if over else self._wait_s(failed, attempt)
        details = {
            "model": self._chat.model.name,
            "attempt": attempt,
            "status": failed.status,
            "cause": failed.cause,
            "seconds": round(seconds, 3),
            "wait_s": round(wait_s, 3),
        }
        self._recorder.event(
            "chat_retry", f"attempt {attempt} of {self._attempts}: {failed.message}", details
        )
        if over:
            raise ProviderDown(self._message(failed, attempt)) from failed
        return wait_s

    def _wait_s(self, failed: AttemptFailed, attempt: int) -> float:
        retry_after_s = failed.retry_after_s
        if retry_after_s is None:
            doubled = self._first * 2.0 ** (attempt - 1)
            # Spread out: trials that were refused together would else come again together.
            wait_s = min(doubled, self._longest) * self._random.uniform(0.5, 1)
        else:
            # Never sooner than the provider said, though not all at its very moment.
            wait_s = min(retry_after_s, self._longest) * self._random.uniform(1, 1 + SPREAD)
        if failed.status == 429:
            until = time.monotonic() + wait_s
            self._quiet_until[self._key] = max(until, self._quiet_until.get(self._key, 0.0))
        return wait_s

    async def _wait(self, wait_s: float) -> None:
        """Wait for this trial's next attempt, and for the end of the quiet that any trial was asked for."""
        quiet = self._quiet_until.get(self._key, 0.0) - time.monotonic()
        if quiet > wait_s:
            wait_s = quiet * self._random.uniform(1, 1 + SPREAD)
        if wait_s > 0:
            with self._budget.held_up(wait_s):
                await self._sleep(wait_s)

    def _message(self, failed: AttemptFailed, attempts: int) -> str:
        model = self._chat.model
        name = model.name if model.name == model.id else f"{model.name} ({model.id})"
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        return f"{name}: no reply after {tries}; last error: {failed.message}; {_advice(failed, model)}"


def _advice(failed: AttemptFailed, model: Model) -> str:
    base = model.params.get("api_base")
    if failed.cause == "auth":
        names = " or ".join(key_names(model))
        return f"check the key in {names}" if names else f"name its key's variable: api_key_env in {TABLE}"
    if failed.cause == "connection" and base:
        return f"check that {base} can be reached"
    return _WHAT_TO_DO.get(failed.cause, "try again later")

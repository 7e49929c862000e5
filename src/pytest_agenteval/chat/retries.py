"""The one retry layer around real models: trials are not charged for back-off, and failures are recorded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, ProviderChat, Reply, Send
from pytest_agenteval.chat.models import DIRECT, TABLE, key_names, usual_transport
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.chat.rate_limiter import QueuedRequest, RateLimiter
from pytest_agenteval.chat.rate_shares import ModelFailure
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import NO_PRICES, Model, Prices
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.errors import ProviderDown
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.json_values import compact_json

if TYPE_CHECKING:
    from pytest_agenteval.chat.direct.direct_chat import DirectChat
    from pytest_agenteval.chat.litellm_chat import LitellmChat


SPREAD = 0.1
OVERLOADED = "overloaded"
# Causes that may mean that a provider is down for everyone.
OUTAGES = frozenset({"connection", "provider", "timeout"})

_WHAT_TO_DO: Mapping[str, str] = {
    "unknown_model": "check the model's id",
    "bad_request": "the provider rejects this request every time",
    "context_length": "the conversation is longer than the model can read",
    "content_policy": "the provider refuses to answer this conversation",
    "quota": "the account has no credit left",
    "rate_limit": "run fewer trials at once, or try again later",
    "timeout": "give the model more request_seconds, or try again later",
}


class RetryingChat:
    """Sends requests until there is a reply or no hope of one.

    Each request waits for its turn at the model's ``limiter``, which all trials share. A request that the
    provider refuses (429, overloaded) waits there for the next turn, ahead of the others. It counts against
    ``attempts`` only if others had replies meanwhile: while a model refuses everybody, one request probes it
    for all. After other failures an ask waits by itself: waits double from ``first_wait_s`` on, with jitter
    drawn from ``seed``, up to ``longest_wait_s``. Failed attempts and waits are not charged while they last,
    so that no deadline falls into them; a slow reply is charged when it is there. ``note_unanswered`` gets
    the number of requests that were sent for an ask without a reply.
    """

    def __init__(
        self,
        chat: ProviderChat,
        *,
        budget: Budget,
        recorder: Recorder,
        limiter: RateLimiter,
        seed: int | str = 0,
        attempts: int = 4,
        first_wait_s: float = 1.0,
        longest_wait_s: float = 60.0,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        note_unanswered: Callable[[int], None] = lambda requests: None,
    ) -> None:
        self._chat, self._budget, self._recorder, self._limiter = chat, budget, recorder, limiter
        # The seed makes the waits the same when a run is repeated.
        self._random = random.Random(f"{seed} {chat.model.name}")
        self._attempts, self._first, self._longest = attempts, first_wait_s, longest_wait_s
        self._sleep, self._note_unanswered = sleep, note_unanswered

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the model's next reply, with the number of attempts in its usage; raises ProviderDown."""
        ask = {"tools": tools, "response_schema": response_schema, "settings": settings}
        course, clock, sent = _AskProgress(self._limiter), self._budget.time, 0
        if self._limiter.limits.tokens_per_minute:  # an estimate: a token is about four bytes
            written = compact_json([list(messages), [spec.declaration() for spec in tools]])
            sent = len(written.encode("utf-8", "replace")) // 4
        try:
            while True:
                if course.wait_s > 0:
                    with clock.span("uncharged"):
                        await self._sleep(course.wait_s)
                # No limit of the trial may fall into the import of a library, nor into a queue.
                with clock.span("waiting"):
                    send = await self._chat.prepare(messages, **ask)
                    place = await self._limiter.enter(sent, settings.max_tokens, first=course.goes_first)
                if (reply := await self._attempt(send, place, course)) is not None:
                    return reply
        except BaseException:  # a limit that cuts the ask off, too
            if course.requests:
                self._note_unanswered(course.requests)
            raise

    async def _attempt(self, send: Send, place: QueuedRequest, course: _AskProgress) -> Reply | None:
        """Send one request; give the reply, or None where another one may bring it."""
        clock = self._budget.time
        began = clock.at
        try:
            with clock.span("uncharged") as span:
                reply = await send()
                if reply.seconds is None:
                    span.kind = "charged"
                else:  # the rest was a queue's
                    clock.charge(reply.seconds)
        except AttemptFailed as failed:
            self._recorder.pay(failed.usage)
            self._note_failed(failed, course, place, clock.at - began)
            return None
        except BaseException:
            course.requests += 1
            # A limit or a cancellation cut the request off: its end shows nothing about the model.
            self._limiter.drop(place)
            raise
        self._limiter.reply(place, reply.usage.tokens)
        usage, attempts = reply.usage, course.requests + 1
        if usage.attempts != attempts:
            usage = replace(usage, attempts=attempts)
        seconds = clock.at - began if reply.seconds is None else reply.seconds
        return replace(reply, usage=usage, seconds=seconds)

    def _note_failed(
        self, failed: AttemptFailed, course: _AskProgress, place: QueuedRequest, seconds: float
    ) -> None:
        """Record a failed attempt and report it to the limiter; raise after the last."""
        limiter, tries_for_all = self._limiter, course.note(failed)
        # These end every request to the model, however long it waits.
        lasts = failed.cause in ("auth", "unknown_model", "quota")
        failure = ModelFailure(failed.cause, self._message(failed, course.requests), lasts)
        is_over = not failed.retryable or course.tries >= self._attempts
        waits = False
        if failed.puts_off:
            status = "429" if failed.status == 429 else OVERLOADED
            limiter.refuse(place, failure, status, failed.retry_after_s or 0.0)
        elif failure.lasts or tries_for_all or (is_over and course.is_outage(failed)):
            limiter.fail(place, failure)
            waits = not failure.lasts
        elif failed.cause in OUTAGES:
            limiter.drop(place)
        else:
            # A refusal of this one conversation, such as one that
            # is too long, still shows that the model answers.
            limiter.reply(place)
        course.wait_s = 0.0 if is_over or waits or failed.puts_off else self._wait_s(failed, course.tries)
        details = {
            "model": self._chat.model.name,
            "attempt": course.requests,
            "status": failed.status,
            "cause": failed.cause,
            "seconds": round(seconds, 3),
            "wait_s": round(course.wait_s, 3),
        }
        text = f"attempt {course.tries} of {self._attempts}: {failed.message}"
        self._recorder.event("chat_retry", text, details)
        if is_over and not waits:
            raise ProviderDown(failure.message) from failed

    def _wait_s(self, failed: AttemptFailed, tries: int) -> float:
        if failed.retry_after_s is not None:
            # Never sooner than the provider wants, and not all requests at the same moment.
            return min(failed.retry_after_s, self._longest) * self._random.uniform(1, 1 + SPREAD)
        doubled = self._first * 2.0 ** (tries - 1)
        # With jitter: trials that failed together would else retry together.
        return min(doubled, self._longest) * self._random.uniform(0.5, 1)

    def _message(self, failed: AttemptFailed, attempts: int) -> str:
        model = self._chat.model
        name = model.name if model.name == model.id else f"{model.name} ({model.id})"
        variables, base = " or ".join(key_names(model)), model.params.get("api_base")
        if failed.cause == "auth" and variables:
            advice = f"check the key in {variables}"
        elif failed.cause == "auth":
            advice = f"name its key's variable: api_key_env in {TABLE}"
        elif failed.cause == "connection" and base:
            advice = f"check that {base} can be reached"
        else:
            advice = _WHAT_TO_DO.get(failed.cause, "try again later")
        return (
            f"{name}: no reply after {pluralize(attempts, 'attempt')}; last error: {failed.message}; {advice}"
        )


class _AskProgress:
    """How many requests one ask took so far, and how many of them count against it."""

    def __init__(self, limiter: RateLimiter) -> None:
        self._limiter = limiter
        self._replied_before = limiter.replied
        self._replied_when_put_off = -1
        self.requests = self.tries = 0
        self.wait_s = 0.0
        self.goes_first = False

    def note(self, failed: AttemptFailed) -> bool:
        """Count a failed attempt; give whether it was the probe of the model for all that wait."""
        self.requests += 1
        for_all = self._limiter.share.is_in_trouble and self.is_outage(failed)
        replied = self._limiter.replied
        # A request that probed in vain goes behind the others: it may be at fault itself.
        self.goes_first = not for_all and not (failed.puts_off and replied == self._replied_when_put_off)
        if self.goes_first:
            self.tries += 1
            if self.tries <= 2:  # after that, other processes too have surely reported earlier replies
                self._replied_before = replied
        if failed.puts_off:
            self._replied_when_put_off = replied
        return for_all

    def is_outage(self, failed: AttemptFailed) -> bool:
        """Whether nobody had a reply since the first attempts; this ask is not at fault then."""
        if failed.cause == "timeout" and not (self._limiter.in_flight > 1 or self._limiter.waiting):
            return False  # without other requests, this one itself may take too long
        return failed.cause in OUTAGES and self._limiter.replied == self._replied_before


def http_chat(model: Model, prices: Prices = NO_PRICES) -> DirectChat | LitellmChat:
    """Give the chat of a model behind HTTP, by the transport that the model names, else the usual one."""
    if (model.via or usual_transport(model)) == DIRECT:
        from pytest_agenteval.chat.direct.direct_chat import DirectChat

        return DirectChat(model, prices)
    from pytest_agenteval.chat.litellm_chat import LitellmChat

    return LitellmChat(model, prices)

"""Has the run's model answer what an agent's own client sends to another one.

The client's request is read as an ask, one of our chats answers it, with its retries, limits and prices, and
the reply is written in the client's format.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any
from uuid import uuid4

from msgspec.structs import replace

from pytest_agenteval.cassettes.http.scope import client_has_left, running_loop, untaped
from pytest_agenteval.cassettes.interaction import Request, Response
from pytest_agenteval.cassettes.wire.traffic import (
    Json,
    ModelReply,
    ModelRequest,
    UnreadableTraffic,
    as_map,
    json_object,
)
from pytest_agenteval.chat.bridge.client_ask import (
    ClientAsk,
    Earlier,
    Message,
    NotExpressible,
    not_passed,
    with_ids,
)
from pytest_agenteval.chat.bridge.client_reply import ClientReply, write_client_reply
from pytest_agenteval.chat.bridge.openai_requests import namespaced_tools, read_chat, read_responses
from pytest_agenteval.chat.bridge.other_requests import (
    read_anthropic,
    read_bedrock,
    read_gemini,
    read_ollama,
)
from pytest_agenteval.chat.chat import Chat, Reply
from pytest_agenteval.chat.model_prices import price_entry
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.replies import credible_usage
from pytest_agenteval.records.transcript import Usage

_READERS: Mapping[str, Callable[[Json, Earlier], ClientAsk]] = {
    "openai.chat": read_chat,
    "openai.responses": read_responses,
    "anthropic.messages": read_anthropic,
    "bedrock.converse": read_bedrock,
    "gemini": read_gemini,
    "ollama.chat": read_ollama,
}
# A body may hold anything: whatever a reader raises means that it is not in the format.
_STUMBLES = (TypeError, ValueError, LookupError, AttributeError, UnreadableTraffic)


def read_client_request(format: str, body: Json, earlier: Earlier = Earlier()) -> ClientAsk:  # noqa: B008  # frozen
    """Read the body of a client's request; raises NotExpressible."""
    try:
        return _READERS[format](body, earlier)
    except _STUMBLES as raised:
        text = f"a request that is not as {format} has it cannot be passed to another model: {raised!r}"
        raise NotExpressible(text) from raised


def status_of(down: BaseException) -> int:
    """Give the status with which a model's provider failed, or that of a gateway that reaches nobody."""
    return getattr(down.__cause__, "status", None) or 502


ANSWERED_BY = "answered_by"
"""The key of a recorded response that names the model that answered in another one's place."""


class AnsweredBy(FrozenValue, frozen=True):
    """Which model answered a client's request in another one's place, and what its provider counted."""

    model: str
    usage: Usage
    reasoning: str = ""
    left_out: tuple[str, ...] = ()

    def as_extra(self) -> dict[str, Any]:
        """Give it as the keys of a response in a cassette."""
        extra = {ANSWERED_BY: self.model, "usage": self.usage.to_json(), "reasoning": self.reasoning}
        extra["left_out"] = list(self.left_out)
        return {name: value for name, value in extra.items() if value}

    @staticmethod
    def of(response: Response) -> AnsweredBy | None:
        """Read it from a response; None where its own model answered."""
        extra = response.extra
        if ANSWERED_BY not in extra:
            return None
        usage = Usage(**{"asks": 1, "attempts": 1, **as_map(extra.get("usage"))})
        left_out = tuple(map(str, extra.get("left_out", ())))
        reasoning = str(extra.get("reasoning", ""))
        return AnsweredBy(str(extra[ANSWERED_BY]), credible_usage(usage), reasoning, left_out)


LOOK_S = 0.5
"""Seconds between two looks at whether a program has closed its connection."""

# Models that have no such mode.
_WITHOUT_JSON_MODE = ("anthropic/", "hf/")
# What ids of calls begin with; others begin as OpenAI's do.
_ID_PREFIXES = {"anthropic.messages": "toolu_", "bedrock.converse": "tooluse_"}


class BridgedReply(FrozenValue, frozen=True):
    """A reply in the client's format, and what our chat measured of it."""

    response: Response
    seconds: float | None = None
    first_token_s: float | None = None


class ModelBridge:
    """Answers the asks of one trial's agent with ``model``, by a chat that works on ``loop``."""

    def __init__(self, chat: Chat, model: Model, loop: asyncio.AbstractEventLoop) -> None:
        self._chat, self._model, self._loop, self.name = chat, model, loop, model.name
        self._conversations: dict[str, Sequence[Message]] = {}
        self._ids: dict[str, str] = {}
        self._waiting: dict[int, Future[Reply]] = {}
        self._lock = threading.Lock()
        self._ended = False

    def answer(self, request: Request, ask: ModelRequest, items: Mapping[str, Json]) -> BridgedReply | None:
        """Wait for the model's reply, in whichever thread; None where nobody needs it any more.

        Raises NotExpressible, or what ends an ask of our own agents.
        """
        if running_loop() is self._loop:
            raise NotExpressible(
                "a blocking client on the loop of all trials cannot wait for another model: "
                "use its async client, or `loop: own` in suite.yaml"
            )
        body = json_object(request.body)
        client_ask = self._for_model(self._read(ask.format, body, items))
        reply = self._wait(request, client_ask)
        if reply is None:
            return None
        reply = self._with_client_ids(ask.format, reply)
        name, id = self._model.id.partition("/")[2] or self._model.id, uuid4().hex
        counts = as_map(body.get("stream_options")).get("include_usage") is True
        spaces = namespaced_tools(body.get("tools"))
        written = ClientReply(reply, name, id, ask.streamed, counts, request.uri, spaces)
        response = write_client_reply(ask.format, written)
        by = AnsweredBy(self._model.id, reply.usage, reply.reasoning, tuple(client_ask.left_out))
        whole = Response(200, response.message, response.headers, response.body, by.as_extra())
        return BridgedReply(whole, reply.seconds, reply.first_token_s)

    def remember(self, request: Request, format: str, reply: ModelReply, items: Mapping[str, Json]) -> None:
        """Note a reply, replayed or not, that a later request may name in place of its messages."""
        if format == "openai.responses" and reply.id:
            body = json_object(request.body)
            with suppress(NotExpressible):
                # The later request repeats the instructions.
                spoken = self._read(format, {**body, "instructions": None}, items).messages
                self._conversations[reply.id] = (*spoken, dict(reply.message))

    def _read(self, format: str, body: Json, items: Mapping[str, Json]) -> ClientAsk:
        return read_client_request(format, body, Earlier(items, self._conversations))

    def _for_model(self, ask: ClientAsk) -> ClientAsk:
        """Give an ask as this trial's model can take it."""
        id, settings, left_out = self._model.id, ask.settings, list(ask.left_out)
        if ask.messages[-1:] and ask.messages[-1]["role"] == "assistant" and not id.startswith("anthropic/"):
            raise not_passed("content", "the beginning of a reply, for the model to continue")
        extra = dict(settings.extra)
        if id.startswith(_WITHOUT_JSON_MODE) and extra.pop("response_format", None):
            left_out.append("response_format")
        if id.startswith("anthropic/") and settings.seed is not None:
            left_out.append("seed")
        # Clients fill in the most that their own model writes.
        most = (price_entry(id) or NOTHING).get("max_output_tokens")
        limit = settings.max_tokens
        limit = min(limit, most) if limit and isinstance(most, int) else limit
        messages = [with_ids(message, self._ids) for message in ask.messages]
        settings = dataclasses.replace(settings, extra=extra, max_tokens=limit)
        return ask._replace(messages=messages, settings=settings, left_out=left_out)

    def _with_client_ids(self, format: str, reply: Reply) -> Reply:
        """Give calls ids like those of the client's own provider: some clients replace any others."""
        calls = []
        for call in reply.calls:
            id = f"{_ID_PREFIXES.get(format, 'call_')}{uuid4().hex[:24]}"
            # The model gets its own id back: its signed thoughts may be stored under that.
            self._ids[id] = call.id
            calls.append(replace(call, id=id))
        return replace(reply, calls=tuple(calls))

    def cancel(self, request: Request) -> None:
        """Stop waiting for a reply that the client no longer wants."""
        with self._lock:
            future = self._waiting.get(id(request))
        if future is not None:
            future.cancel()

    def close(self) -> None:
        """Stop waiting for all replies."""
        with self._lock:
            self._ended, waiting = True, list(self._waiting.values())
        for future in waiting:
            future.cancel()

    def _wait(self, request: Request, ask: ClientAsk) -> Reply | None:
        with self._lock:
            if self._ended:
                return None
            future = asyncio.run_coroutine_threadsafe(self._ask(ask), self._loop)
            self._waiting[id(request)] = future
        try:
            while True:
                try:
                    return future.result(LOOK_S)
                except TimeoutError:
                    # It may be the chat's own, or the reply may just have come.
                    if future.done():
                        return future.result()
                    if client_has_left():
                        future.cancel()
        except CancelledError:
            return None
        finally:
            with self._lock:
                self._waiting.pop(id(request), None)

    async def _ask(self, ask: ClientAsk) -> Reply:
        with untaped():
            return await self._chat.ask(
                ask.messages, tools=ask.tools, response_schema=ask.response_schema, settings=ask.settings
            )

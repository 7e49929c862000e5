"""A trial's budget and transcript around a model on 127.0.0.1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.chat.chat import Chat, ProviderChat, Reply
from pytest_agenteval.chat.rate_limiter import RateLimiters, limiter_of
from pytest_agenteval.chat.retries import RetryingChat, http_chat
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import NO_PRICES, Allowance, Model, Prices, Via
from pytest_agenteval.records.recorder import Recorder
from tests.loopback import anthropic_wire, openai_wire
from tests.loopback.model_server import ModelServer, ReplyPlan

__all__ = ["BREAK", "QUESTION", "Bench", "EventServer", "ModelServer", "ReplyPlan", "Script"]

QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "What is 1 + 2?"}]
FREE = Allowance()
IDS = {"openai": "openai/gpt-5.5", "anthropic": "anthropic/claude-sonnet-4-5"}
WIRES = {"openai": openai_wire, "anthropic": anthropic_wire}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

BREAK = None
Script: TypeAlias = Sequence[bytes | float | None]
"""What a stream holds: its events, seconds of silence between them, and BREAK where the line is cut."""


class EventServer:
    """A server that streams by script, one for each request; the last repeats."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._scripts = scripts
        self.bodies: list[Any] = []
        self.left = 0

    async def start(self) -> asyncio.Server:
        """Listen on the running loop."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.anthropic_base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.openai_base = f"{self.anthropic_base}/v1"
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split()[0])
        self.bodies.append(json.loads(await reader.readexactly(length)))
        script = self._scripts[min(len(self.bodies), len(self._scripts)) - 1]
        stream = asyncio.create_task(self._stream(script, writer))
        try:
            left = not await reader.read()
        except ConnectionError:  # it left while something was still on its way
            left = True
        if left:  # the client, or the line is cut
            self.left += 1
            stream.cancel()

    async def _stream(self, script: Script, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for step in script:
            if step is BREAK:
                writer.transport.abort()
            elif isinstance(step, bytes):
                writer.write(b"%x\r\n%b\r\n" % (len(step), step))
            else:
                await asyncio.sleep(step)
        writer.write(b"0\r\n\r\n")
        writer.close()


@dataclass
class Bench:
    """A trial's budget and transcript around a model on the loopback server."""

    loop: asyncio.Runner
    wire: str
    via: Via = "direct"
    slept: list[float] = field(default_factory=list)
    limiters: RateLimiters = field(default_factory=RateLimiters)
    limits: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recorder = Recorder(lambda: self.budget.at)
        self.begin()

    def begin(self, allowed: Allowance = FREE) -> Budget:
        """Begin the trial's time, now that everything is imported."""
        self.loop.run(self.chat_of(Model("m", IDS[self.wire])).prepare())
        self.budget = Budget(allowed)
        return self.budget

    async def sleep(self, seconds: float) -> None:
        """Sleep, and note for how long."""
        self.slept.append(seconds)
        await asyncio.sleep(seconds)

    def events(self, plan: ReplyPlan, *, usage: bool = True) -> list[bytes]:
        """Give the events of a streamed reply; OpenAI counts the tokens only where it is asked to."""
        asked = {"model": IDS[self.wire].partition("/")[2], "stream_options": {"include_usage": usage}}
        return list(WIRES[self.wire].stream(plan, asked, 0))

    @contextmanager
    def streaming(self, *scripts: Script) -> Iterator[EventServer]:
        """Serve streams on the loop of the asks."""
        server = EventServer(scripts)
        listening = self.loop.run(server.start())
        yield server
        listening.close()

    def model(self, server: ModelServer | EventServer, **params: Any) -> Model:
        """Give the server as a model; ``params`` are those of an alias."""
        base = server.openai_base if self.wire == "openai" else server.anthropic_base
        return Model("model-a", IDS[self.wire], params={"api_base": base, **params})

    def chat_of(self, model: Model, prices: Prices = NO_PRICES) -> ProviderChat:
        """Give a chat in which each ask is one request, made in this bench's way."""
        return http_chat(replace(model, via=self.via), prices)

    def chat(self, server: ModelServer | EventServer, **params: Any) -> ProviderChat:
        """Give a chat of the server."""
        return self.chat_of(self.model(server, **params))

    def retrying(self, chat: ProviderChat, **said: Any) -> RetryingChat:
        """Put the retry layer around a chat."""
        usual: dict[str, Any] = {"first_wait_s": 0.01, "sleep": self.sleep}
        usual["limiter"] = limiter_of(self.limiters, chat.model, {"": self.limits})
        return RetryingChat(chat, budget=self.budget, recorder=self.recorder, **{**usual, **said})

    def ask(self, chat: Chat, messages: list[dict[str, Any]] | None = None, **said: Any) -> Reply:
        """Ask, and wait for the reply."""
        reply: Reply = self.loop.run(chat.ask(messages or QUESTION, **said))
        return reply

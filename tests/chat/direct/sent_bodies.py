"""Asks, and the bodies that litellm and the direct formats send for them."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatSettings, Reply
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.chat.model_prices import price_entry
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.tool_spec import ToolSpec

OWN_HOST = "loopback.api.openai.com"
"""A host that litellm takes for OpenAI's own; the tests answer for it."""
USER = [{"role": "user", "content": "What is 1 + 2?"}]
SYSTEM = [{"role": "system", "content": "Be brief."}, *USER]
CALL = {"id": "call_a", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
CALLED = [
    *SYSTEM,
    {"role": "assistant", "content": "I add.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_a", "content": "3"},
]
PARTS = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": "data:image/png;base64,AA"},
            {"type": "image_url", "image_url": {"url": "https://x.test/y.png", "detail": "low"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"}},
        ],
    }
]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
ADD = ToolSpec("add", "Adds.", {**SCHEMA, "properties": {"a": {"type": "integer"}}})
ALL = ChatSettings(temperature=0.0, top_p=0.9, seed=3, max_tokens=100, tool_choice="required")

_CHAT_REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "3"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
_SAID = {"type": "output_text", "text": "3", "annotations": []}
_MESSAGE = {"type": "message", "id": "m_1", "status": "completed", "role": "assistant", "content": [_SAID]}
_RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "output": [_MESSAGE],
    "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


@dataclass(frozen=True)
class Case:
    """One ask of a model; ``own`` says that OpenAI's own host is asked, ``params`` are those of an alias."""

    label: str
    id: str
    own: bool = True
    messages: Sequence[Mapping[str, Any]] = field(default_factory=lambda: USER)
    tools: tuple[ToolSpec, ...] = ()
    schema: Mapping[str, Any] | None = None
    settings: ChatSettings = DEFAULT_SETTINGS
    params: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Give what names the case in a test's id."""
        return f"{self.id.replace('/', '.')}-{self.label}-{'own' if self.own else 'elsewhere'}"

    def ask(self) -> ModelAsk:
        """Give the ask as the direct formats get it."""
        params = {**self.settings.as_params(), **self.params}
        extra, streamed = params.pop("extra_body", {}), params.pop("stream", False)
        return ModelAsk(
            self.id.partition("/")[2],
            self.messages,
            [spec.declaration() for spec in self.tools],
            self.schema,
            params,
            extra,
            streamed,
            abilities=price_entry(self.id) or {},
            own_host=self.own,
        )


@dataclass
class Sent:
    """What one request was: where it went, its headers and its body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Listener:
    """A server that takes down each request, and answers it in a word."""

    loop: asyncio.Runner
    sent: list[Sent] = field(default_factory=list)
    port: int = 0
    answer: Mapping[str, Any] | None = None

    def by_litellm(self, case: Case) -> Sent:
        """Give what litellm sends for a case."""
        base = f"http://{OWN_HOST if case.own else '127.0.0.1'}:{self.port}/v1"
        params = dict(case.params) if case.own else {"api_base": base, **case.params}
        environ = {"OPENAI_BASE_URL": base, "OPENAI_API_KEY": "sk-test"} if case.own else {}
        with patch.dict(os.environ, environ):
            chat = LitellmChat(Model("m", case.id, params=params))
            self.loop.run(
                chat.ask(case.messages, tools=case.tools, response_schema=case.schema, settings=case.settings)
            )
        return self.sent[-1]

    def read_by_litellm(self, case: Case, answer: Mapping[str, Any]) -> Reply:
        """Give what litellm makes of an answer."""
        params = {"api_base": f"http://127.0.0.1:{self.port}/v1", **case.params}
        self.answer = answer
        try:
            reply: Reply = self.loop.run(LitellmChat(Model("m", case.id, params=params)).ask(USER))
        finally:
            self.answer = None
        return reply

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one request."""
        first, *rows = (await reader.readuntil(b"\r\n\r\n")).decode().strip().splitlines()
        headers = {name.lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.sent.append(Sent(first.split()[1], headers, body))
        kind, answer = _answer(self.sent[-1])
        if self.answer is not None:
            answer = json.dumps(self.answer).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " + kind + b"\r\n\r\n" + answer)
        await writer.drain()
        writer.close()


def _answer(sent: Sent) -> tuple[bytes, bytes]:
    responses = sent.path.endswith("/responses")
    if not sent.body.get("stream"):
        return b"application/json", json.dumps(_RESPONSE if responses else _CHAT_REPLY).encode()
    chunk = {"delta": {"role": "assistant", "content": "3"}, "index": 0, "finish_reason": "stop"}
    event: Mapping[str, Any] = {"type": "response.completed", "response": _RESPONSE}
    if not responses:
        event = {**_CHAT_REPLY, "object": "chat.completion.chunk", "choices": [chunk]}
    return b"text/event-stream", b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n"


@contextmanager
def listening(loop: asyncio.Runner) -> Iterator[Listener]:
    """Serve on the loop of the asks, for OpenAI's own host too."""
    listener = Listener(loop)
    server = loop.run(asyncio.start_server(listener.serve, "127.0.0.1", 0))
    listener.port = server.sockets[0].getsockname()[1]
    found: Callable[..., Any] = socket.getaddrinfo

    def loopback(host: Any, *args: Any, **said: Any) -> Any:
        return found("127.0.0.1" if host == OWN_HOST else host, *args, **said)

    with patch.object(socket, "getaddrinfo", loopback):
        yield listener
    server.close()

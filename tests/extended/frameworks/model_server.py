"""A model provider of seven wire formats and a tool's API on one loopback address; it counts requests."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import parse_qs, urlsplit

from tests.extended.frameworks.weather_model import WEATHER, Prompt, next_move, read_prompt
from tests.extended.frameworks.wires import (
    bedrock_wire,
    cohere_wire,
    gemini_wire,
    ollama_wire,
    responses_wire,
)
from tests.loopback import anthropic_wire, openai_wire
from tests.loopback.replies import Json, ReplyPlan


class Wire(Protocol):
    """How one provider writes a reply; each wire module is one."""

    def reply(self, plan: ReplyPlan, request: Json, n: int) -> Json:
        """Give the body of a whole reply."""

    def stream(self, plan: ReplyPlan, request: Json, n: int) -> Iterable[bytes]:
        """Give the pieces of a streamed reply."""


class Format(NamedTuple):
    """A wire format, known by its path; ``streamed`` is the type of content of its streams."""

    path: re.Pattern[str]
    wire: Wire
    streamed: str = "text/event-stream"


Move = Callable[[Json, Prompt], ReplyPlan]
"""Decides what the model answers to a request and what the request says of itself."""

FORMATS = {
    "openai.chat": Format(re.compile(r"/chat/completions$"), openai_wire),
    "openai.responses": Format(re.compile(r"/responses$"), responses_wire),
    "anthropic.messages": Format(re.compile(r"/v1/messages$"), anthropic_wire),
    "gemini": Format(re.compile(r":(streamG|g)enerateContent$"), gemini_wire),
    "ollama.chat": Format(re.compile(r"/api/chat$"), ollama_wire, "application/x-ndjson"),
    "bedrock.converse": Format(
        re.compile(r"/model/.+/converse(-stream)?$"), bedrock_wire, "application/vnd.amazon.eventstream"
    ),
    "cohere.chat": Format(re.compile(r"/v2/chat$"), cohere_wire),
}


class Ask(NamedTuple):
    """One request: to the model in a wire format, or to the ``tool``; ``at`` is the epoch's seconds."""

    format: str
    task: str
    streamed: bool
    tokens: int
    at: float


@dataclass
class Traffic:
    """Every request so far, in the order of arrival; several threads add to it."""

    asks: list[Ask] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    numbering: threading.Lock = field(default_factory=threading.Lock)
    serial: int = 0
    remembered: dict[str, Json] = field(default_factory=dict)

    def add(self, ask: Ask) -> int:
        """Count a request in; give its number, from 1, which none before or after it has."""
        with self.numbering:
            self.asks.append(ask)
            self.serial += 1
            return self.serial

    def clear(self) -> None:
        """Forget what was asked; numbers go on."""
        with self.numbering:
            self.asks.clear()
            self.others.clear()

    @property
    def models(self) -> list[Ask]:
        """Requests to the model."""
        return [ask for ask in self.asks if ask.format != "tool"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # a whole reply leaves in one segment: else Nagle's algorithm costs 40 ms
    disable_nagle_algorithm = True

    @property
    def traffic(self) -> Traffic:
        return cast("_Server", self.server).traffic

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Tell the weather, as the tool's API."""
        url = urlsplit(self.path)
        city = parse_qs(url.query).get("city", [""])[0]
        if url.path != "/weather" or city not in WEATHER:
            self.traffic.others.append(self.path)
            self._whole(404, {"error": f"nothing at {self.path}"})
            return
        self.traffic.add(Ask("tool", city, False, 0, time.time()))
        self._whole(200, {"city": city, "degrees": WEATHER[city]})

    def do_POST(self) -> None:
        """Reply as the model, in the format that the path names."""
        body = json.loads(self._body() or b"{}")
        path = urlsplit(self.path).path
        name = next((name for name, each in FORMATS.items() if each.path.search(path)), None)
        if name is None:
            self.traffic.others.append(self.path)
            self._whole(404, {"error": f"nothing at {self.path}"})
            return
        self._reply(name, path, body)

    def _reply(self, name: str, path: str, body: Json) -> None:
        said = {"before": self.traffic.remembered.get(body.get("previous_response_id") or ""), **body}
        prompt = read_prompt(said)
        plan = cast("_Server", self.server).move(said, prompt)
        streamed = _is_streamed(name, path, body)
        n = self.traffic.add(Ask(name, prompt.task, streamed, _tokens(name, plan, body), time.time()))
        self.traffic.remembered[f"resp_{n}"] = said
        kind = FORMATS[name]
        if plan.status >= 400:
            self._whole(plan.status, {"error": {"type": "api_error", "message": plan.text}})
        elif streamed:
            self._streamed(kind.streamed, list(kind.wire.stream(plan, body, n)), prompt.delay_s)
        else:
            time.sleep(prompt.delay_s)
            self._whole(200, kind.wire.reply(plan, body, n))

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _whole(self, status: int, body: Json) -> None:
        content = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def _streamed(self, content_type: str, pieces: list[bytes], delay_s: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.flush()
            time.sleep(delay_s / len(pieces))
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, move: Move) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.traffic, self.move = Traffic(), move

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up: trials end in the middle of streams."""


def _is_streamed(name: str, path: str, body: Json) -> bool:
    if name == "gemini":
        return path.endswith(":streamGenerateContent")
    if name == "bedrock.converse":
        return path.endswith("-stream")
    return bool(body.get("stream", name == "ollama.chat"))


def _tokens(name: str, plan: ReplyPlan, body: Json) -> int:
    """Count what the reply will tell: a streamed chat of OpenAI's tells it only to those who ask."""
    asked_for = (body.get("stream_options") or {}).get("include_usage")
    if name == "openai.chat" and body.get("stream") and not asked_for:
        return 0
    return plan.input_tokens + plan.output_tokens


class Serving:
    """A server that listens: its address without a slash at the end, and what it has been asked."""

    def __init__(self, move: Move = next_move) -> None:
        self._server = _Server(move)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self.traffic = self._server.traffic
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Listen no more: a replay finds no server."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(move: Move = next_move) -> Iterator[Serving]:
    """Serve in threads of this process for as long as the block lasts, or until it is stopped."""
    server = Serving(move)
    try:
        yield server
    finally:
        server.stop()

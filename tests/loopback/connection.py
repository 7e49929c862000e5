"""Just enough HTTP/1.1 to answer many keep-alive connections cheaply."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from .replies import RawReply


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived; the names of its headers are in lower case.

    ``body`` is the parsed JSON, or ``None`` when there was none or it could not be parsed.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    received_at: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The bytes that answer a request, and when; no bytes means that the connection is closed instead.

    ``cut`` says that it is closed behind them.
    """

    payload: bytes | None
    delay_s: float = 0.0
    counted: bool = True
    cut: bool = False


class Traffic:
    """What the connections count; only the thread of the server writes here."""

    def __init__(self) -> None:
        self.open: set[asyncio.Transport] = set()
        self.in_flight = 0
        self.reset()

    def reset(self) -> None:
        """Start counting again; what is in flight stays so."""
        self.requests = 0
        self.connections = 0
        self.peak_in_flight = self.in_flight
        self.first_request: float | None = None

    def request_arrived(self, at: float) -> None:
        """Count a request in."""
        self.requests += 1
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        if self.first_request is None:
            self.first_request = at

    def request_left(self) -> None:
        """Count a request out, be it answered, dropped, or given up by the client."""
        self.in_flight -= 1

    def as_json(self) -> dict[str, float]:
        """Give every counter under its name; the first request by the clock that all processes share."""
        return {
            "requests": self.requests,
            "connections": self.connections,
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "first_request_at": self.first_request or 0.0,
        }


class Connection(asyncio.Protocol):
    """Reads the requests of one client and answers them one after the other."""

    def __init__(self, answer: Callable[[Request], Answer], traffic: Traffic) -> None:
        self._answer = answer
        self._traffic = traffic
        self._unread = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._pending: Answer | None = None
        self._close_after = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._traffic.connections += 1
        self._traffic.open.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._traffic.open.discard(self._transport)
        if self._timer is not None and self._pending is not None:
            self._timer.cancel()
            self._count_out(self._pending)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._serve()

    def _serve(self) -> None:
        while self._timer is None and not self._transport.is_closing():
            request = self._next_request()
            if request is None:
                return
            self._respond(request)

    def _next_request(self) -> Request | None:
        """Take one whole request off the unread bytes; ``None`` while it is incomplete."""
        head_end = self._unread.find(b"\r\n\r\n")
        if head_end < 0:
            return None
        method, path, headers = _parse_head(self._unread[:head_end].decode("latin-1"))
        if "transfer-encoding" in headers:
            self._transport.write(http_reply(411, {"error": "send a Content-Length"}))
            self._transport.close()
            return None
        body_start = head_end + 4
        body_end = body_start + int(headers.get("content-length", 0))
        if len(self._unread) < body_end:
            return None
        body = _parse_body(self._unread[body_start:body_end])
        del self._unread[:body_end]
        return Request(method, path, headers, body, time.monotonic())

    def _respond(self, request: Request) -> None:
        answer = self._answer(request)
        self._close_after = request.headers.get("connection", "").lower() == "close"
        if answer.counted:
            self._traffic.request_arrived(request.received_at)
        if answer.delay_s > 0:
            self._pending = answer
            self._timer = asyncio.get_running_loop().call_later(answer.delay_s, self._resume)
        else:
            self._finish(answer)

    def _resume(self) -> None:
        answer, self._pending, self._timer = self._pending, None, None
        assert answer is not None
        self._finish(answer)
        self._serve()

    def _finish(self, answer: Answer) -> None:
        self._count_out(answer)
        if answer.payload is not None:
            self._transport.write(answer.payload)
        if answer.payload is None or answer.cut or self._close_after:
            self._transport.close()

    def _count_out(self, answer: Answer) -> None:
        if answer.counted:
            self._traffic.request_left()


def http_reply(status: int, body: Any, headers: Mapping[str, str] | None = None) -> bytes:
    """Give the bytes of a reply whose body is JSON."""
    content = json.dumps(body, ensure_ascii=False).encode()
    lengths = f"Content-Type: application/json\r\nContent-Length: {len(content)}"
    return _head(status, lengths, headers or {}) + content


def http_event_stream(events: Iterable[bytes], headers: Mapping[str, str]) -> bytes:
    """Give the bytes of a reply whose body is server-sent events, one chunk for each."""
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)
    form = "Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked"
    return _head(200, form, headers) + chunks + b"0\r\n\r\n"


def http_raw(raw: RawReply) -> bytes:
    """Give the bytes of a reply whose body is given; what is not to be whole says no length, or too much."""
    form = f"Content-Type: {raw.content_type}\r\n"
    if raw.streamed:
        end = b"0\r\n\r\n" if raw.ending == "whole" else b""
        chunk = b"%x\r\n%b\r\n" % (len(raw.body), raw.body) if raw.body else b""
        return _head(raw.status, f"{form}Transfer-Encoding: chunked", raw.headers) + chunk + end
    missing = 0 if raw.ending == "whole" else 100
    length = f"Content-Length: {len(raw.body) + missing}"
    return _head(raw.status, form + length, raw.headers) + raw.body


def _head(status: int, form: str, headers: Mapping[str, str]) -> bytes:
    extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {_phrase(status)}\r\n{form}\r\n{extra}\r\n".encode("latin-1")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Overloaded" if status == 529 else "Unknown"


def _parse_head(head: str) -> tuple[str, str, dict[str, str]]:
    request_line, *lines = head.split("\r\n")
    method, path, _ = request_line.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    return method, path, {name.lower(): value.strip() for name, _, value in pairs}


def _parse_body(body: bytearray) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None

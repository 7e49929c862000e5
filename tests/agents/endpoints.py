"""A small HTTP server on loopback that stands for somebody's agent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    """One request: path, headers with small names, and the JSON body."""

    path: str
    headers: Mapping[str, str]
    body: Any


class Reply(NamedTuple):
    """What is answered: a JSON value, or a text as it is."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = {}


class AgentServer(NamedTuple):
    """A running server: its address, and what it has been sent so far."""

    url: str
    received: list[Received]
    close: Callable[[], None]


@contextmanager
def serving(answer: Callable[[Received], Reply]) -> Iterator[AgentServer]:
    """Answer every POST by the function, from as many threads as there are requests."""
    received: list[Received] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received.append(Received(self.path, headers, json.loads(raw)))
            reply = answer(received[-1])
            text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            with suppress(ConnectionError):  # whoever asked may wait no longer
                self.end_headers()
                self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()

    def close() -> None:
        server.shutdown()
        server.server_close()

    try:
        yield AgentServer(f"http://127.0.0.1:{server.server_port}", received, close)
    finally:
        close()

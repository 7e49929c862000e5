"""A server that plays providers on loopback, and keeps what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: str


Answer = tuple[int, Any]
Play = Callable[[Asked], Answer]


@dataclass(slots=True)
class Provider:
    """Where the server is, and what it was asked."""

    base: str = ""
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def playing(play: Play) -> Iterator[Provider]:
    """Serve for as long as the block lasts; ``play`` gives a status and a body, JSON unless it is a text."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            address = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, address.path, dict(parse_qsl(address.query, True)), headers, body)
            provider.asked.append(asked)
            status, content = play(asked)
            data = (content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("X-Request-Id", "17")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    provider.base = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()

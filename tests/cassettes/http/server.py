"""A loopback server that HTTP libraries are tried on: echoes, redirects, zips, sets cookies."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Answers(BaseHTTPRequestHandler):
    """One answer for each path; any other path is told back."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer by path."""
        length = int(self.headers.get("Content-Length") or 0)
        body = (
            self.rfile.read(length)
            if "chunked" not in str(self.headers["Transfer-Encoding"])
            else self._chunks()
        )
        self.server.asked.append(self.path)  # type: ignore[attr-defined]  # a list of ours
        place = urlsplit(self.path).path
        if place == "/redirect":
            self._answer(302, b"", {"Location": "/landed?n=1"})
        elif place == "/zipped":
            self._answer(200, gzip.compress(b'{"zipped": true}'), {"Content-Encoding": "gzip"})
        elif place == "/binary":
            self._answer(200, bytes(range(256)) * 40)
        elif place == "/broken":
            self._answer(503, b"down", {"Retry-After": "1"})
        elif place == "/cookie":
            self._answer(200, b"{}", {"Set-Cookie": "flavour=oat; Path=/"})
        elif place == "/nothing":
            self._answer(204, b"")
        else:
            echo = {"path": self.path, "method": self.command, "body": body.decode("utf-8", "replace")}
            self._answer(200, json.dumps(echo).encode(), {"Content-Type": "application/json"})

    do_POST = do_PUT = do_HEAD = do_GET

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Remembers what it was asked."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: list[str] = []
        self.base = f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving() -> Iterator[Server]:
    """Serve on a free port."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()

"""Records the samples beside it, with the vcrpy of the interpreter that runs it.

They were made once for each release, in an environment that has it, with the requests, httpx, aiohttp and
brotli of its time: ``python tests/cassettes/vcrpy/record.py tests/cassettes/vcrpy/9.4.2``. What each client
was given is the same for all of them, and stands in ``CLIENT.json``. pytest-recording 0.14.1 made the one
in its folder, of a test ``test_today`` in ``test_weather.py`` that asks for ``/json?q=today`` with
requests.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import sys
import threading
import urllib.request
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PORT = 8931
BASE = f"http://127.0.0.1:{PORT}"
PNG = b"\x89PNG\r\n\x1a\n\xff\x00"
TEXT = json.dumps({"place": "서울역", "near": ["카페", "약국"]}, ensure_ascii=False).encode()


def brotli(raw: bytes) -> bytes:
    """Compress as no library of the standard one does."""
    import brotli as library

    return bytes(library.compress(raw))


PAGES: dict[str, tuple[int, dict[str, str], Callable[[], bytes]]] = {
    "/json": (200, {"Content-Type": "application/json"}, lambda: TEXT),
    "/gzip": (
        200,
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        lambda: gzip.compress(TEXT, mtime=0),
    ),
    "/deflate": (
        200,
        {"Content-Type": "application/json", "Content-Encoding": "deflate"},
        lambda: zlib.compress(TEXT),
    ),
    "/br": (200, {"Content-Type": "application/json", "Content-Encoding": "br"}, lambda: brotli(TEXT)),
    "/png": (200, {"Content-Type": "image/png"}, lambda: PNG),
    "/moved": (302, {"Location": "/json?moved=1"}, lambda: b""),
    "/none": (204, {}, lambda: b""),
    "/lost": (404, {"Content-Type": "text/plain", "Set-Cookie": "a=1"}, lambda: "없음".encode()),
}


class Handler(BaseHTTPRequestHandler):
    """Gives the page of the path, or says what was sent."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(*PAGES[self.path.partition("?")[0]])

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            while length := int(self.rfile.readline(), 16):
                self.rfile.read(length + 2)
            self.rfile.readline()
        else:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(
            200, {"Content-Type": "application/json"}, lambda: json.dumps({"sent": self.path}).encode()
        )

    def answer(self, status: int, headers: dict[str, str], body: Callable[[], bytes]) -> None:
        raw = body()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


Seen = list[tuple[str, int, str]]
GETS = ("/json?q=서울&n=1", "/gzip", "/deflate", "/br", "/moved", "/none", "/lost")


def with_requests() -> Seen:
    """Ask with requests: every kind of body that it sends."""
    import requests

    seen = []
    for path in GETS:
        got = requests.get(BASE + path, timeout=60)
        seen.append((path, got.status_code, got.text))
    seen.append(("/png", 200, requests.get(BASE + "/png", timeout=60).content.hex()))
    for name, sent in {
        "json": {"json": {"word": "서울", "n": 1}},
        "form": {"data": {"word": "서울", "n": 1}},
        "upload": {"files": {"file": ("a.txt", b"hello"), "png": ("a.png", PNG)}},
        "file": {"data": io.BytesIO(b"from a file")},
        "parts": {"data": iter([b"one", b"two"])},
    }.items():
        got = requests.post(f"{BASE}/{name}", timeout=60, **sent)  # type: ignore[arg-type]
        seen.append((name, got.status_code, got.text if name != "upload" else ""))
    return seen


def with_httpx() -> Seen:
    """Ask with httpx."""
    import httpx

    seen = []
    with httpx.Client(follow_redirects=True, timeout=60, verify=False) as client:
        for path in GETS:
            got = client.get(BASE + path)
            seen.append((path, got.status_code, got.text))
        got = client.post(f"{BASE}/json", json={"word": "서울", "n": 1})
        seen.append(("json", got.status_code, got.text))
        got = client.post(f"{BASE}/form", data={"word": "서울", "n": "1"})
        seen.append(("form", got.status_code, got.text))
    return seen


def with_aiohttp() -> Seen:
    """Ask with aiohttp."""
    import aiohttp

    async def ask() -> Seen:
        seen = []
        async with aiohttp.ClientSession() as session:
            for path in GETS:
                async with session.get(BASE + path) as got:
                    seen.append((path, got.status, await got.text()))
            async with session.post(f"{BASE}/json", json={"word": "서울", "n": 1}) as got:
                seen.append(("json", got.status, await got.text()))
            async with session.post(f"{BASE}/form", data={"word": "서울", "n": "1"}) as got:
                seen.append(("form", got.status, await got.text()))
        return seen

    return asyncio.run(ask())


def with_urllib() -> Seen:
    """Ask with the standard library, which decodes nothing by itself."""
    seen = []
    for path in ("/json", "/gzip", "/png"):
        with urllib.request.urlopen(BASE + path, timeout=60) as got:
            raw = got.read()
            zipped = got.headers.get("Content-Encoding") == "gzip"
            seen.append((path, got.status, (gzip.decompress(raw) if zipped else raw).hex()))
    request = urllib.request.Request(f"{BASE}/json", b'{"n": 1}', {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as got:
        seen.append(("json", got.status, got.read().decode()))
    return seen


def with_requests_as_json() -> Seen:
    """Ask with requests for what JSON can hold."""
    import requests

    seen = []
    for path in ("/json", "/moved", "/lost"):
        got = requests.get(BASE + path, timeout=60)
        seen.append((path, got.status_code, got.text))
    return seen


CLIENTS: dict[str, Callable[[], Seen]] = {
    "requests": with_requests,
    "httpx": with_httpx,
    "aiohttp": with_aiohttp,
    "urllib": with_urllib,
    "requests_as_json": with_requests_as_json,
}


def main(folder: Path) -> None:
    """Record a cassette for each client that is there, and write down what it was given."""
    import vcr

    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    folder.mkdir(parents=True, exist_ok=True)
    for name, ask in CLIENTS.items():
        form = "json" if name.endswith("json") else "yaml"
        with vcr.use_cassette(str(folder / f"{name}.cassette.{form}"), record_mode="all", serializer=form):
            seen = ask()
        told = json.dumps(seen, ensure_ascii=False, indent=0)
        (folder.parent / f"{name}.json").write_text(told + "\n", encoding="utf-8")
    server.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

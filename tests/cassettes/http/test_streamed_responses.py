"""Streamed responses reach who asked as they come, also while they are recorded, and are played in parts."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from pytest_agenteval.cassettes.cassette import RecordMode
from pytest_agenteval.cassettes.http.messages import split_events
from pytest_agenteval.cassettes.http.patches import taped_http
from pytest_agenteval.cassettes.http.scope import Scope
from pytest_agenteval.cassettes.interaction import text_of
from pytest_agenteval.cassettes.tape import Library

httpx = pytest.importorskip("httpx")
aiohttp = pytest.importorskip("aiohttp")
urllib3 = pytest.importorskip("urllib3")
requests = pytest.importorskip("requests")

EVENTS = [b"data: one\n\n", b"data: two\n\n", b"data: three\n\n"]
OnPart = Callable[[bytes], bool]
"""Is given each part as it comes; says whether to go on."""
PATIENCE_S = 20


class Answers(BaseHTTPRequestHandler):
    """Sends the next event only when whoever asked has had the one before."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer in the way that the path says."""
        kind = self.path.strip("/")
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson" if kind == "lines" else "text/event-stream")
        if kind == "zipped":
            self.send_header("Content-Encoding", "gzip")
        if kind == "sized":
            self.send_header("Content-Length", str(len(b"".join(EVENTS))))
        elif kind == "until_closed":
            self.close_connection = True
        else:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        zipping = zlib.compressobj(wbits=31)
        for number, event in enumerate(EVENTS):
            if number and not self.server.seen.acquire(timeout=PATIENCE_S):  # type: ignore[attr-defined]
                self.server.kept_waiting.append(kind)  # type: ignore[attr-defined]
                self.close_connection = True
                return
            part = zipping.compress(event) + zipping.flush(zlib.Z_SYNC_FLUSH) if kind == "zipped" else event
            self._send(part, chunked=kind not in ("sized", "until_closed"))
        if kind == "zipped":
            self._send(zipping.flush(), chunked=True)
        if kind not in ("sized", "until_closed"):
            self.wfile.write(b"0\r\n\r\n")

    def _send(self, part: bytes, *, chunked: bool) -> None:
        try:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
            self.wfile.flush()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Knows which of its answers nobody took in parts."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.kept_waiting: list[str] = []
        self.seen = threading.Semaphore(0)
        self.base = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that is really asked."""
    started = Server()
    threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield started
    started.shutdown()
    started.server_close()


async def by_httpx(url: str, on_part: OnPart) -> None:
    """Stream with httpx, on the loop."""
    async with httpx.AsyncClient(verify=False) as client, client.stream("GET", url) as got:
        async for part in got.aiter_bytes():
            if not on_part(part):
                break


def in_a_thread(read: Callable[[str, OnPart], None]) -> Callable[[str, OnPart], Awaitable[None]]:
    """Have a blocking client stream in a thread."""

    async def streaming(url: str, on_part: OnPart) -> None:
        await asyncio.to_thread(read, url, on_part)

    return streaming


@in_a_thread
def by_blocking_httpx(url: str, on_part: OnPart) -> None:
    """Stream with httpx, blocking."""
    with httpx.Client(verify=False) as client, client.stream("GET", url) as got:
        for part in got.iter_bytes():
            if not on_part(part):
                break


async def by_aiohttp(url: str, on_part: OnPart) -> None:
    """Stream with aiohttp."""
    async with aiohttp.ClientSession() as session, session.get(url) as got:
        async for part in got.content.iter_any():
            if not on_part(part):
                break


@in_a_thread
def by_requests(url: str, on_part: OnPart) -> None:
    """Stream with requests: of what has a length or no end in itself, byte by byte."""
    with requests.get(url, stream=True) as got:
        chunked = "Transfer-Encoding" in got.headers
        for part in got.iter_content(None if chunked else 1) if chunked else by_line(got.iter_content(1)):
            if not on_part(part):
                break


@in_a_thread
def by_urllib3(url: str, on_part: OnPart) -> None:
    """Stream with urllib3."""
    got = urllib3.PoolManager().request("GET", url, preload_content=False)
    chunked = "Transfer-Encoding" in got.headers
    for part in got.stream(decode_content=True) if chunked else by_line(iter(lambda: got.read(1), b"")):
        if not on_part(part):
            break
    got.close()


@in_a_thread
def by_urllib(url: str, on_part: OnPart) -> None:
    """Stream with the standard library."""
    with urlopen(url) as got:
        for part in by_line(_unzipped(got)):
            if not on_part(part):
                break


@in_a_thread
def by_http_client(url: str, on_part: OnPart) -> None:
    """Stream with what the standard library's client stands on."""
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.netloc)) as connection:
        connection.request("GET", parts.path)
        with connection.getresponse() as got:
            for part in by_line(_unzipped(got)):
                if not on_part(part):
                    break


def by_line(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Put bytes together to events."""
    line = b""
    for piece in pieces:
        line += piece
        if line.endswith(b"\n\n"):
            yield line
            line = b""


def _unzipped(got: Any) -> Iterator[bytes]:
    unzip = zlib.decompressobj(wbits=31) if got.headers["Content-Encoding"] == "gzip" else None
    while piece := got.read(1):
        yield unzip.decompress(piece) if unzip else piece


LIBRARIES = {
    "httpx": by_httpx,
    "httpx in threads": by_blocking_httpx,
    "aiohttp": by_aiohttp,
    "requests": by_requests,
    "urllib3": by_urllib3,
    "urllib": by_urllib,
    "http.client": by_http_client,
}
each_library = pytest.mark.parametrize("stream", LIBRARIES.values(), ids=LIBRARIES)


def read(
    folder: Path, mode: RecordMode, stream: Any, url: str, on_part: OnPart
) -> tuple[Scope, list[bytes], Library]:
    """Stream in a scope; give it with what came."""
    library, came = Library(folder), list[bytes]()

    def on_each(part: bytes) -> bool:
        if part:
            came.append(part)
        return on_part(part)

    with taped_http(library.open(Path("t.yaml"), mode, "tool")) as scope:
        asyncio.run(stream(url, on_each))
    library.save()
    return scope, came, library


@each_library
@pytest.mark.parametrize("kind", ["chunked", "lines", "sized", "until_closed", "zipped"])
def test_parts_come_as_they_are_sent_while_they_are_recorded_and_are_played_in_parts(
    tmp_path: Path, server: Server, stream: Any, kind: str
) -> None:
    """The server sends an event only once the last one has been read; the whole is recorded at its end."""

    def seen(part: bytes) -> bool:
        if part:
            server.seen.release()
        return True

    url = f"{server.base}/{kind}"
    live, came, _ = read(tmp_path, "once", stream, url, seen)

    assert server.kept_waiting == []
    assert b"".join(came) == b"".join(EVENTS)
    assert (live.recorded, live.cuts) == (1, [])

    server.shutdown()
    played, again, library = read(tmp_path, "none", stream, url, lambda part: True)

    assert (played.played, played.missed) == (1, [])
    assert b"".join(again) == b"".join(EVENTS)
    assert len(again) >= len(EVENTS)
    (held,) = next(iter(library.cassettes)).interactions
    assert text_of(held.response.body) == b"".join(EVENTS).decode()
    assert not {"content-encoding", "Content-Encoding", "Transfer-Encoding"} & set(held.response.headers)


@each_library
def test_a_stream_that_is_closed_early_is_no_recording(tmp_path: Path, server: Server, stream: Any) -> None:
    """Half of an answer would be played as if it were the whole."""
    scope, came, library = read(
        tmp_path, "once", stream, f"{server.base}/chunked", lambda part: len(part) == 0
    )

    assert came == EVENTS[:1]
    assert (scope.recorded, [request.uri for request in scope.cuts]) == (0, [f"{server.base}/chunked"])
    assert len(next(iter(library.cassettes))) == 0
    server.seen.release()


STATUS = {
    "httpx": lambda url: httpx.stream("GET", url, verify=False),
    "requests": lambda url: requests.get(url, stream=True),
    "urllib3": lambda url: urllib3.PoolManager().request("GET", url, preload_content=False),
    "urllib": urlopen,
}


@pytest.mark.parametrize("library", STATUS)
def test_an_answer_of_which_only_the_status_is_read_is_recorded_whole(tmp_path: Path, library: str) -> None:
    """It is closed unread, and yet no stream that somebody broke off."""
    from tests.cassettes.http.server import serving

    with serving() as plain:
        own = Library(tmp_path)
        with taped_http(own.open(Path("t.yaml"), "once", "tool")) as scope:
            got = STATUS[library](f"{plain.base}/zipped")
            if hasattr(got, "__enter__"):
                with got:
                    pass
            got.close() if hasattr(got, "close") else None
    assert (scope.recorded, scope.cuts) == (1, [])
    (held,) = next(iter(own.cassettes)).interactions
    assert text_of(held.response.body) == '{"zipped": true}'


FRAME = (24).to_bytes(4, "big") + bytes(20)


@pytest.mark.parametrize(
    ("kind", "body", "parts"),
    [
        ("text/event-stream; charset=utf-8", b"a: 1\r\n\r\nb\r\n\r\n", [b"a: 1\r\n\r\n", b"b\r\n\r\n"]),
        ("text/event-stream", b"data: one\n\ndata: cut", [b"data: one\n\n", b"data: cut"]),
        ("application/x-ndjson", b'{"a": 1}\n{}\n', [b'{"a": 1}\n', b"{}\n"]),
        ("application/vnd.amazon.eventstream", FRAME + FRAME, [FRAME, FRAME]),
        ("application/vnd.amazon.eventstream", FRAME + b"\0\0", [FRAME, b"\0\0"]),
        ("application/json", b'{"a": 1}\n\n{}', [b'{"a": 1}\n\n{}']),
        ("text/event-stream", b"", []),
    ],
)
def test_bodies_are_told_apart_into_events(kind: str, body: bytes, parts: list[bytes]) -> None:
    """Put together they are the body again, whatever it is."""
    assert split_events([("Content-Type", kind)], body) == parts
    assert b"".join(parts) == body
    assert split_events([("content-type", kind)], gzip.compress(body))[:1] != [b""]

"""A replay gives a client that decodes by itself the encoded bytes that it was written for."""

from __future__ import annotations

import asyncio
import gzip
import threading
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pytest_agenteval.cassettes.cassette_files import CassetteContent, write_cassette
from pytest_agenteval.cassettes.http.patches import taped_http
from pytest_agenteval.cassettes.interaction import Interaction, Request, Response
from pytest_agenteval.cassettes.tape import Library

httpx = pytest.importorskip("httpx")
aiohttp = pytest.importorskip("aiohttp")
urllib3 = pytest.importorskip("urllib3")
requests = pytest.importorskip("requests")

BODY = '{"이름": "홍길동"}'.encode() * 9
Received = tuple[str | None, str | None, bytes]


def _by_package(name: str, function: str) -> Callable[[bytes], bytes]:
    def call(data: bytes) -> bytes:
        done: bytes = getattr(import_module(name), function)(data)
        return done

    return call


def _bare_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return encoder.compress(data) + encoder.flush()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress, gzip.decompress),
    "deflate": ("deflate", zlib.compress, zlib.decompress),
    "bare deflate": ("deflate", _bare_deflate, lambda raw: zlib.decompress(raw, -zlib.MAX_WBITS)),
    "br": ("br", _by_package("brotli", "compress"), _by_package("brotli", "decompress")),
    "zstd": ("zstd", _by_package("zstandard", "compress"), _by_package("zstandard", "decompress")),
}
PACKAGES = {"br": "brotli", "zstd": "zstandard"}


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name, encode, _ = CODINGS[self.path[1:].replace("_", " ")]
        body = encode(BODY)
        self.send_response(200)
        self.send_header("Content-Encoding", name)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def base() -> Iterator[str]:
    """A server that encodes its body as its path says."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def _received(headers: Any, raw: bytes) -> Received:
    return headers.get("Content-Encoding"), headers.get("Content-Length"), raw


def by_urllib(url: str, coding: str) -> Received:
    """Ask with urllib, which decodes nothing."""
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept-Encoding": coding})) as got:
        return _received(got.headers, got.read())


def by_client(url: str, coding: str) -> Received:
    """Ask with http.client, which decodes nothing; this one does not even say what it takes."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port)
    connection.request("GET", parts.path)
    got = connection.getresponse()
    return _received(got.headers, got.read())


def by_urllib3(url: str, coding: str) -> Received:
    """Ask with urllib3, told not to decode."""
    got = urllib3.PoolManager().request("GET", url, headers={"Accept-Encoding": coding}, decode_content=False)
    return _received(got.headers, got.data)


def by_requests(url: str, coding: str) -> Received:
    """Ask with requests, and read the stream below it."""
    got = requests.get(url, headers={"Accept-Encoding": coding}, stream=True)
    return _received(got.headers, got.raw.read())


def by_httpx(url: str, coding: str) -> Received:
    """Ask with httpx, and read what travels."""
    with httpx.stream("GET", url, headers={"Accept-Encoding": coding}, verify=False) as got:
        return _received(got.headers, b"".join(got.iter_raw()))


def by_aiohttp(url: str, coding: str) -> Received:
    """Ask with aiohttp, told not to decode."""

    async def ask() -> Received:
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.get(url, headers={"Accept-Encoding": coding}) as got,
        ):
            return _received(got.headers, await got.read())

    return asyncio.run(ask())


CLIENTS = [by_urllib, by_client, by_urllib3, by_requests, by_httpx, by_aiohttp]


def replayed(folder: Path, url: str, ask: Callable[[str, str], Received], coding: str) -> Received:
    """Give what a client gets of a recording."""
    with taped_http(Library(folder).open(Path("t.yaml"), "none", "tool")) as scope:
        played = ask(url, coding)
    assert scope.tape_status == "hit"
    return played


@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("ask", CLIENTS, ids=lambda ask: ask.__name__)
def test_who_reads_what_travels_reads_it_in_a_replay(
    tmp_path: Path, base: str, ask: Callable[[str, str], Received], name: str
) -> None:
    """Encoded as the headers say, and as long; the cassette holds it as text."""
    pytest.importorskip(PACKAGES.get(name, "gzip"))
    coding, _, decode = CODINGS[name]
    url = f"{base}/{name.replace(' ', '_')}"
    library = Library(tmp_path)
    with taped_http(library.open(Path("t.yaml"), "once", "tool")):
        live = ask(url, coding)
    library.save()

    played = replayed(tmp_path, url, ask, coding)

    for header, length, raw in (live, played):
        assert (header, length, decode(raw)) == (coding, str(len(raw)), BODY)
    assert "홍길동" in (tmp_path / "t.yaml").read_text("utf-8")


def test_who_takes_no_encoding_gets_none(tmp_path: Path, base: str) -> None:
    """A client in place of the one that was recorded says what it can read."""
    library = Library(tmp_path)
    with taped_http(library.open(Path("t.yaml"), "once", "tool")):
        by_httpx(f"{base}/gzip", "gzip")
    library.save()

    assert replayed(tmp_path, f"{base}/gzip", by_urllib, "identity") == (None, str(len(BODY)), BODY)


def test_a_recording_of_before_is_played_as_it_stands(tmp_path: Path) -> None:
    """It does not say how its body was encoded."""
    held = Interaction(Request("GET", "http://x.test/a"), Response(200, "OK", body="text"))
    write_cassette(tmp_path / "t.yaml", CassetteContent((held,)))

    for ask in CLIENTS:
        assert replayed(tmp_path, "http://x.test/a", ask, "gzip") == (None, "4", b"text")


@pytest.mark.parametrize("body", [BODY.decode(), BODY])
def test_a_body_that_was_decoded_beneath_its_header_is_encoded_again(
    tmp_path: Path, body: str | bytes
) -> None:
    """vcrpy and earlier versions recorded a decoded body beneath the header: the replay encodes it."""
    response = Response(200, "OK", {"Content-Encoding": ("gzip",)}, body)
    write_cassette(
        tmp_path / "t.yaml", CassetteContent((Interaction(Request("GET", "http://x.test/a"), response),))
    )

    for ask in CLIENTS:
        header, length, raw = replayed(tmp_path, "http://x.test/a", ask, "gzip")
        assert (header, length, gzip.decompress(raw)) == ("gzip", str(len(raw)), BODY)

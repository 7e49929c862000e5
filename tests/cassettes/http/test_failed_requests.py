"""A request that failed while it was recorded fails in a replay, by the same exception of its client."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from pytest_agenteval.cassettes.cassette_files import CassetteContent, write_cassette
from pytest_agenteval.cassettes.http.patches import taped_http
from pytest_agenteval.cassettes.interaction import Interaction, Request, Response
from pytest_agenteval.cassettes.tape import Library

httpx = pytest.importorskip("httpx")
aiohttp = pytest.importorskip("aiohttp")
urllib3 = pytest.importorskip("urllib3")
requests = pytest.importorskip("requests")

TIMEOUT_S = 0.3
TRUST = httpx.create_ssl_context()  # made once: it takes longer than a request
CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbut"
Port = Callable[[bytes | None], int]


@pytest.fixture
def port() -> Iterator[Port]:
    """Give a function that makes a port at which a server says no more than this, then closes, or hangs."""
    with_ends: list[socket.socket] = []

    def make(words: bytes | None) -> int:
        listening = socket.create_server(("127.0.0.1", 0))
        with_ends.append(listening)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                if words is None:
                    with_ends.append(connection)
                else:
                    connection.recv(65536)
                    connection.sendall(words)
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        return int(listening.getsockname()[1])

    yield make
    for each in with_ends:
        each.close()


def by_httpx(url: str) -> Any:
    """Ask with httpx."""
    return httpx.get(url, timeout=TIMEOUT_S, verify=TRUST).text


async def by_async_httpx(url: str) -> Any:
    """Ask with httpx, on a loop."""
    async with httpx.AsyncClient(timeout=TIMEOUT_S, verify=TRUST) as client:
        return (await client.get(url)).text


async def by_aiohttp(url: str) -> Any:
    """Ask with aiohttp, which has a time for all of a request."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as got:
        return await got.text()


async def by_aiohttp_read(url: str) -> Any:
    """Ask with aiohttp, which has a time for each read."""
    timeout = aiohttp.ClientTimeout(sock_read=TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as got:
        return await got.text()


def by_requests(url: str) -> Any:
    """Ask with requests."""
    return requests.get(url, timeout=TIMEOUT_S).text


def by_urllib3(url: str) -> Any:
    """Ask with urllib3."""
    return urllib3.PoolManager(retries=False, timeout=TIMEOUT_S).request("GET", url).data


def by_urllib(url: str) -> Any:
    """Ask with urllib."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as got:
        return got.read()


def by_client(url: str) -> Any:
    """Ask with http.client."""
    connection = HTTPConnection("127.0.0.1", int(url.rpartition(":")[2].strip("/")), timeout=TIMEOUT_S)
    connection.request("GET", "/")
    return connection.getresponse().read()


CLIENTS = [
    by_httpx,
    by_async_httpx,
    by_aiohttp,
    by_aiohttp_read,
    by_requests,
    by_urllib3,
    by_urllib,
    by_client,
]
FAILURES: dict[str, Callable[[Port], str]] = {
    "refused": lambda port: "http://127.0.0.1:9/",
    "unknown": lambda port: "http://nobody.invalid/",
    "tls": lambda port: f"https://127.0.0.1:{port(b'HTTP/1.1 400 No')}/",
    "hangs": lambda port: f"http://127.0.0.1:{port(None)}/",
    "closes": lambda port: f"http://127.0.0.1:{port(b'')}/",
    "breaks off": lambda port: f"http://127.0.0.1:{port(CUT)}/",
}


def outcome(ask: Callable[[str], Any], url: str) -> type[BaseException] | str:
    """Give the class of what an agent's client raises."""
    try:
        given = ask(url)
        return str(asyncio.run(given) if asyncio.iscoroutine(given) else given)
    except Exception as raised:
        str(raised)  # it can be printed
        return type(raised)


@pytest.mark.parametrize("ask", CLIENTS, ids=lambda ask: ask.__name__)
def test_a_failure_is_recorded_and_raised_again(
    tmp_path: Path, port: Port, ask: Callable[[str], Any]
) -> None:
    """Of the client's own class, and nothing is sent; a body that broke off fails from the start."""
    for failure, make_url in FAILURES.items():
        if ask is by_client and failure in ("unknown", "tls"):
            continue  # it has no such address here
        url, file = make_url(port), Path(f"{failure}.yaml")
        library = Library(tmp_path)
        with taped_http(library.open(file, "once", "tool")) as scope:
            live = outcome(ask, url)
        assert not isinstance(live, str), failure
        assert scope.recorded, failure
        assert scope.cuts == [], failure
        library.save()

        with taped_http(Library(tmp_path).open(file, "none", "tool")) as scope:
            played = outcome(ask, url)

        assert (failure, scope.tape_status, scope.missed) == (failure, "hit", [])
        if failure == "breaks off":  # a body of which nothing is played is refused where it would begin
            assert not isinstance(played, str)
        else:
            assert (failure, played) == (failure, live)


@pytest.mark.parametrize("ask", CLIENTS, ids=lambda ask: ask.__name__)
def test_a_failure_that_another_client_recorded_is_one_of_this_client(tmp_path: Path, ask: Any) -> None:
    """Each raises what it raises where nobody listens."""
    url = "http://127.0.0.1:9/"
    library = Library(tmp_path)
    with taped_http(library.open(Path("t.yaml"), "once", "tool")):
        outcome(by_httpx if ask is not by_httpx else by_aiohttp, url)
    library.save()
    expected = outcome(ask, url)

    with taped_http(Library(tmp_path).open(Path("t.yaml"), "none", "tool")) as scope:
        played = outcome(ask, url)

    assert scope.missed == []
    assert isinstance(expected, type)
    assert isinstance(played, type)
    assert issubclass(played, expected) or issubclass(expected, played)


EDITED_FAILURES = [
    "nonsense",
    "aiohttp.client_exceptions.ClientResponseError: 1",
    "ssl.SSLCertVerificationError: bad",
    "urllib3.exceptions.MaxRetryError: x",
    "http.client.IncompleteRead: x",
    "UnicodeDecodeError: x",
    "ValueError: x",
    "httpx.ReadTimeout",
    "aiohttp.client_exceptions.SocketTimeoutError: x",
    "TimeoutError",
]
TIMEOUTS = (
    TimeoutError,
    httpx.TimeoutException,
    requests.Timeout,
    urllib3.exceptions.TimeoutError,
)
ERRORS_OF_CLIENTS = (
    OSError,
    httpx.TransportError,
    aiohttp.ClientError,
    urllib3.exceptions.HTTPError,
    HTTPException,
)


@pytest.mark.parametrize("ask", CLIENTS, ids=lambda ask: ask.__name__)
def test_a_failure_written_by_hand_is_one_of_the_client(tmp_path: Path, ask: Any) -> None:
    """A failure whose class cannot be made is a failure to connect; a timeout is one for every client."""
    for number, failure in enumerate(EDITED_FAILURES):
        response = Response(599, "no response", extra={"failure": failure})
        held = Interaction(Request("GET", "http://127.0.0.1:9/"), response)
        write_cassette(tmp_path / f"{number}.yaml", CassetteContent((held,)))

        tape = Library(tmp_path).open(Path(f"{number}.yaml"), "none", "tool")
        with taped_http(tape) as scope, pytest.raises(ERRORS_OF_CLIENTS) as raised:
            response_or_coroutine = ask("http://127.0.0.1:9/")
            if asyncio.iscoroutine(response_or_coroutine):
                asyncio.run(response_or_coroutine)

        assert scope.missed == []
        error = raised.value
        reason = error.reason if isinstance(error, URLError) else error
        if "timeout" in failure.lower():
            assert isinstance(reason, TIMEOUTS), failure
        elif ask is by_urllib and not failure.startswith("http.client"):
            assert isinstance(error, URLError), failure

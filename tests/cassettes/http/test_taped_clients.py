"""What user code asks over HTTP is taped, by whichever library, each trial on its own tape."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from pytest_agenteval.cassettes.cassette import RecordMode
from pytest_agenteval.cassettes.cassette_files import CassetteContent, write_cassette
from pytest_agenteval.cassettes.http import patches
from pytest_agenteval.cassettes.http.patches import remove, taped_http
from pytest_agenteval.cassettes.http.scope import NotRecorded, untaped
from pytest_agenteval.cassettes.interaction import Interaction, Request, Response
from pytest_agenteval.cassettes.tape import Library, Tape
from tests.cassettes.http.server import Server

httpx = pytest.importorskip("httpx")
aiohttp = pytest.importorskip("aiohttp")
urllib3 = pytest.importorskip("urllib3")
requests = pytest.importorskip("requests")

TRUST = httpx.create_ssl_context()  # made once: it takes longer than a request
Seen = tuple[int, str, dict[str, str], bytes]
Get = Callable[..., Awaitable[Seen]]


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Give a function after which nothing can be reached."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(f"something opens a connection: {args[1:]}")

    def block() -> None:
        for name in ("connect", "connect_ex", "sendto"):
            monkeypatch.setattr(socket.socket, name, refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)

    return block


def lower(headers: Any) -> dict[str, str]:
    """Give headers by name in small letters."""
    return {name.lower(): value for name, value in headers.items()}


async def by_httpx(url: str, method: str = "GET", body: str | None = None) -> Seen:
    """Ask with httpx, on the loop."""
    async with httpx.AsyncClient(follow_redirects=True, verify=TRUST) as client:
        got = await client.request(method, url, content=body)
        return got.status_code, str(got.url), lower(got.headers), got.content


async def by_blocking_httpx(url: str, method: str = "GET", body: str | None = None) -> Seen:
    """Ask with httpx, in a thread."""

    def ask() -> Seen:
        got = httpx.request(method, url, content=body, follow_redirects=True, verify=TRUST)
        return got.status_code, str(got.url), lower(got.headers), got.content

    return await asyncio.to_thread(ask)


async def by_aiohttp(url: str, method: str = "GET", body: str | None = None) -> Seen:
    """Ask with aiohttp."""
    async with aiohttp.ClientSession() as session, session.request(method, url, data=body) as got:
        return got.status, str(got.url), lower(got.headers), await got.read()


async def by_requests(url: str, method: str = "GET", body: str | None = None) -> Seen:
    """Ask with requests, in a thread."""

    def ask() -> Seen:
        got = requests.request(method, url, data=body)
        return got.status_code, got.url, lower(got.headers), got.content

    return await asyncio.to_thread(ask)


async def by_urllib3(url: str, method: str = "GET", body: str | None = None) -> Seen:
    """Ask with urllib3, in a thread."""

    def ask() -> Seen:
        got = urllib3.PoolManager().request(
            method, url, body=body, retries=urllib3.Retry(3, respect_retry_after_header=False)
        )
        path = got.geturl() or ""
        return got.status, path if "://" in path else url, lower(got.headers), got.data

    return await asyncio.to_thread(ask)


async def by_urllib(url: str, method: str = "GET", body: str | None = None) -> Seen:
    """Ask with the standard library, in a thread of a pool that copies no context itself."""

    def ask() -> Seen:
        asked = urllib.request.Request(url, body.encode() if body else None, method=method)
        try:
            with urllib.request.urlopen(asked) as got:
                raw, zipped = got.read(), got.headers["Content-Encoding"] == "gzip"
                return got.status, got.url, lower(got.headers), gzip.decompress(raw) if zipped else raw
        except urllib.error.HTTPError as failed:
            with failed:
                return failed.code, failed.url, lower(failed.headers), failed.read()

    with ThreadPoolExecutor(1) as pool:
        return await asyncio.wrap_future(pool.submit(ask))


LIBRARIES: dict[str, Get] = {
    "httpx": by_httpx,
    "httpx in threads": by_blocking_httpx,
    "aiohttp": by_aiohttp,
    "requests": by_requests,
    "urllib3": by_urllib3,
    "urllib": by_urllib,
}
each_library = pytest.mark.parametrize("get", LIBRARIES.values(), ids=LIBRARIES)


def tape_of(folder: Path, mode: RecordMode = "none", name: str = "t.yaml") -> tuple[Tape, Library]:
    """Open a tape in a library of its own, as another run would."""
    library = Library(folder)
    return library.open(Path(name), mode, "tool"), library


async def recorded_and_played(
    folder: Path, server: Server, block: Callable[[], None], ask: Callable[[], Awaitable[Any]]
) -> tuple[Any, Any, Tape]:
    """Do the same with a server and without one; give both outcomes."""
    tape, library = tape_of(folder, "once")
    with taped_http(tape) as scope:
        live = await ask()
    assert scope.tape_status == "live"
    library.save()
    request_count = len(server.asked)
    block()
    again, _ = tape_of(folder)
    with taped_http(again) as scope:
        played = await ask()
    assert (scope.tape_status, scope.missed, len(server.asked)) == ("hit", [], request_count)
    return live, played, again


ANSWERS: dict[str, tuple[int, bytes | None]] = {
    "/echo?q=%EC%84%9C%EC%9A%B8": (200, None),
    "/zipped": (200, b'{"zipped": true}'),
    "/binary": (200, bytes(range(256)) * 40),
    "/broken": (503, b"down"),
    "/nothing": (204, b""),
}


@each_library
def test_what_is_played_is_what_was_received(
    tmp_path: Path, server: Server, no_sockets: Callable[[], None], get: Get
) -> None:
    """Status, headers and body, decoded once, whether it was sent or played.

    What is sent has its encoding still, and what is played none: each says so in its headers.
    """

    async def ask() -> list[Seen]:
        return [await get(server.base + path) for path in ANSWERS]

    live, played, tape = asyncio.run(recorded_and_played(tmp_path, server, no_sockets, ask))
    for seen in (*live, *played):
        if seen[2].get("content-length"):
            seen[2].pop("content-encoding", None)
            seen[2].pop("content-length")

    assert live == played
    for (path, (status, body)), seen in zip(ANSWERS.items(), played, strict=True):
        assert (path, seen[0]) == (path, status)
        assert seen[3] == body if body is not None else json.loads(seen[3])["path"] == path
    assert len(tape.cassette) == len(ANSWERS)


@each_library
def test_each_step_of_a_redirect_is_taped(
    tmp_path: Path, server: Server, no_sockets: Callable[[], None], get: Get
) -> None:
    """The library follows it by itself, on the tape as on the network."""
    live, played, tape = asyncio.run(
        recorded_and_played(tmp_path, server, no_sockets, lambda: get(f"{server.base}/redirect"))
    )

    assert json.loads(live[3])["path"] == json.loads(played[3])["path"] == "/landed?n=1"
    assert [it.response.status for it in tape.cassette.interactions] == [302, 200]


@each_library
def test_a_request_that_was_not_recorded_is_refused_even_if_the_error_is_swallowed(
    tmp_path: Path, server: Server, get: Get
) -> None:
    """Nothing is sent; who swallows the error does not hide it from the scope."""

    tape, _ = tape_of(tmp_path)
    with taped_http(tape) as scope, suppress(BaseException):
        asyncio.run(get(f"{server.base}/echo?api_key=abcdefgh1234&q=1"))

    assert server.asked == []
    assert [request.uri for request in scope.missed] == [f"{server.base}/echo?api_key=<redacted>&q=1"]
    assert (scope.tape_status, tape.misses) == ("miss", 1)


@each_library
def test_the_error_says_what_was_not_recorded(tmp_path: Path, get: Get) -> None:
    """It comes through every library as it is, so that none takes it for a failed connection and retries."""
    tape, _ = tape_of(tmp_path)
    with taped_http(tape), pytest.raises(NotRecorded) as refused:
        asyncio.run(get("https://x.test/echo?q=1"))
    assert str(refused.value) == (
        "GET https://x.test/echo(q='1') is not recorded in t.yaml, and nothing may be sent"
    )


def test_what_somebody_else_has_put_back_is_patched_again(tmp_path: Path, server: Server) -> None:
    """Other recorders (vcrpy's, for one) restore what they met when they began, which may be before us."""
    pool = urllib3.connectionpool.HTTPConnectionPool
    real = pool._make_request
    for mode in ("once", "none"):
        tape, library = tape_of(tmp_path, mode)
        with taped_http(tape) as scope:
            urllib3.request("GET", f"{server.base}/echo")
        library.save()
        pool._make_request = real

    assert scope.played == len(server.asked) == 1


@each_library
def test_outside_a_scope_requests_go_out_as_they_are(tmp_path: Path, server: Server, get: Get) -> None:
    """Before, after, beside it, and for requests of ours within it."""
    tape, _ = tape_of(tmp_path)
    with taped_http(tape) as scope, untaped():
        asyncio.run(get(f"{server.base}/echo"))
    asyncio.run(get(f"{server.base}/echo"))

    assert (len(server.asked), scope.missed, len(tape.cassette)) == (2, [], 0)


ASKS = 2


async def a_trial(tape: Tape, base: str, me: int) -> None:
    """Ask by every library in turn, and check that the answers are this trial's."""
    with taped_http(tape) as scope:
        for n in range(ASKS):
            for library, get in LIBRARIES.items():
                path = f"/of-{me}/{library.replace(' ', '-')}/{n}"
                assert json.loads((await get(base + path))[3])["path"] == path
                await asyncio.sleep(0.001)
    assert scope.missed == []


def test_trials_on_one_loop_and_in_threads_never_get_each_others_requests(
    tmp_path: Path, server: Server, no_sockets: Callable[[], None]
) -> None:
    """8 trials on a loop and 4 in threads, six libraries each; then again with nobody to ask."""

    def run(mode: RecordMode) -> list[Tape]:
        library = Library(tmp_path)
        tapes = [library.open(Path(f"{me}.yaml"), mode, "tool") for me in range(12)]

        async def on_one_loop() -> None:
            await asyncio.gather(*(a_trial(tapes[me], server.base, me) for me in range(8)))

        with ThreadPoolExecutor(4) as pool:
            others = [pool.submit(asyncio.run, a_trial(tapes[me], server.base, me)) for me in range(8, 12)]
            asyncio.run(on_one_loop())
            for other in others:
                other.result()
        library.save()
        return tapes

    each = ASKS * len(LIBRARIES)
    for me, tape in enumerate(run("once")):
        uris = [it.request.uri for it in tape.cassette.interactions]
        assert len(uris) == each
        assert all(f"/of-{me}/" in uri for uri in uris)
    server.shutdown()
    server.server_close()
    no_sockets()
    assert [(tape.hits, tape.misses, tape.recorded) for tape in run("none")] == [(each, 0, 0)] * 12


def test_shared_tapes_are_asked_after_the_own(tmp_path: Path) -> None:
    """They are played, never recorded into."""
    request = Request("GET", "https://x.test/find?q=1")
    write_cassette(
        tmp_path / "s.yaml", CassetteContent((Interaction(request, Response(200, "OK", body="found")),))
    )
    library = Library(tmp_path)
    shared = library.open_shared(Path("s.yaml"), "find")
    assert shared is not None

    with taped_http(library.open(Path("t.yaml"), "once", "tool"), shared=[shared]) as scope:
        assert httpx.get("https://x.test/find?q=1", verify=TRUST).text == "found"
    assert scope.tape_status == "hit"


def test_a_form_with_files_is_found_again(
    tmp_path: Path, server: Server, no_sockets: Callable[[], None]
) -> None:
    """Its boundary is another each time, and is no part of the question."""

    async def upload() -> list[int]:
        files = {"f": ("a.txt", b"some text")}
        form = aiohttp.FormData()
        form.add_field("f", b"some text", filename="b.txt")
        async with aiohttp.ClientSession() as session, session.post(f"{server.base}/a", data=form) as third:
            await third.read()
        return [
            httpx.post(f"{server.base}/h", files=files, verify=TRUST).status_code,
            requests.post(f"{server.base}/r", files=files).status_code,
            third.status,
        ]

    live, played, _ = asyncio.run(recorded_and_played(tmp_path, server, no_sockets, upload))
    assert live == played == [200, 200, 200]


def test_bodies_that_are_sent_and_read_in_parts(
    tmp_path: Path, server: Server, no_sockets: Callable[[], None]
) -> None:
    """Generators are sent whole, and responses can be streamed, line by line or piece by piece."""

    async def parts() -> Any:
        yield b"one "
        yield b"two"

    async def ask() -> list[Any]:
        seen: list[Any] = []
        async with httpx.AsyncClient(verify=TRUST) as client:
            seen.append((await client.post(f"{server.base}/h", content=parts())).json()["body"])
            async with client.stream("GET", f"{server.base}/binary") as got:
                seen.append(b"".join([piece async for piece in got.aiter_bytes(999)]))
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{server.base}/a", data=parts()) as got:
                seen.append((await got.json())["body"])
            async with session.get(f"{server.base}/binary") as got:
                seen.append(b"".join([piece async for piece in got.content.iter_chunked(999)]))
        with requests.get(f"{server.base}/binary", stream=True) as got:
            seen.append(b"".join(got.iter_content(999)))
        seen.append(requests.post(f"{server.base}/r", data=iter([b"one ", b"two"])).json()["body"])
        raw = urllib3.PoolManager().request("GET", f"{server.base}/binary", preload_content=False)
        seen.append(b"".join(raw.stream(999)))
        raw.release_conn()
        return seen

    live, played, _ = asyncio.run(recorded_and_played(tmp_path, server, no_sockets, ask))
    binary = bytes(range(256)) * 40
    assert live == played == ["one two", binary, "one two", binary, binary, "one two", binary]


def test_cookies_and_failures_are_each_librarys_own(
    tmp_path: Path, server: Server, no_sockets: Callable[[], None]
) -> None:
    """Sessions keep what a server sets, and raise_for_status raises what it always raises."""

    async def ask() -> list[Any]:
        session = requests.Session()
        session.get(f"{server.base}/cookie?by=requests")
        with pytest.raises(requests.HTTPError):
            session.get(f"{server.base}/broken?by=requests").raise_for_status()
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as second:
            async with second.get(f"{server.base}/cookie?by=aiohttp"):
                pass
            with pytest.raises(aiohttp.ClientResponseError):
                await second.get(f"{server.base}/broken?by=aiohttp", raise_for_status=True)
            cookies = [cookie.key for cookie in second.cookie_jar]
        with httpx.Client(verify=TRUST) as third:
            third.get(f"{server.base}/cookie?by=httpx")
            with pytest.raises(httpx.HTTPStatusError):
                third.get(f"{server.base}/broken?by=httpx").raise_for_status()
            return [list(session.cookies.keys()), cookies, list(third.cookies.keys())]

    live, played, _ = asyncio.run(recorded_and_played(tmp_path, server, no_sockets, ask))
    assert live == [["flavour"], ["flavour"], ["flavour"]]
    assert played == [[], [], []]  # what a cookie held is never kept


def test_the_patch_is_made_once_and_can_be_removed(tmp_path: Path) -> None:
    """Any number of scopes later, removing gives back what was there before the first."""
    places = [
        (httpx.HTTPTransport, "handle_request"),
        (httpx.AsyncHTTPTransport, "handle_async_request"),
        (aiohttp.BaseConnector, "connect"),
        (urllib3.connectionpool.HTTPConnectionPool, "_make_request"),
        (urllib.request.AbstractHTTPHandler, "do_open"),
        (ThreadPoolExecutor, "submit"),
    ]
    before = [getattr(*place) for place in places]
    tape, _ = tape_of(tmp_path)
    with taped_http(tape):
        during = [getattr(*place) for place in places]
        with taped_http(tape):
            assert [getattr(*place) for place in places] == during
    remove()

    assert all(there is not here for there, here in zip(before, during, strict=True))
    assert [getattr(*place) for place in places] == before


def test_a_patch_that_cannot_be_imported_is_no_reason_to_leave_a_library_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its requests would go past the tapes, and nobody would know."""
    remove()
    monkeypatch.setitem(cast("dict[str, str]", patches.LIBRARIES), "urllib3", "no_such_module:points")
    tape, _ = tape_of(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), taped_http(tape):
        pass
    remove()


def test_through_a_proxy_nothing_is_opened_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_sockets: Callable[[], None]
) -> None:
    """The tunnel to an https address is a connection too."""
    held = Interaction(Request("GET", "https://x.test/a"), Response(200, "OK", body="text"))
    write_cassette(tmp_path / "t.yaml", CassetteContent((held,)))
    tape, _ = tape_of(tmp_path)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    no_sockets()

    with taped_http(tape):
        for get in (by_httpx, by_blocking_httpx, by_requests, by_urllib):
            assert asyncio.run(get("https://x.test/a"))[3] == b"text"


@pytest.mark.parametrize("begin", ["install(); import httpx2", "import httpx2; install()"])
def test_httpx_is_imported_beside_httpx2(begin: str) -> None:
    """OpenAI's client looks for it at each reply: half of it, while another trial imports it, is a crash."""
    pytest.importorskip("httpx2")
    begins = "import sys; from pytest_agenteval.cassettes.http.patches import install"
    program = f"{begins}; assert 'httpx' not in sys.modules; {begin}; assert 'httpx' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)

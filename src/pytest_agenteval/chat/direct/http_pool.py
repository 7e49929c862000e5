"""One pool of HTTP connections for the direct requests of a loop: the one file that uses aiohttp's client."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from pytest_agenteval.cassettes.wire.traffic import Json, as_map, maps_in

# How long an unused connection stays open.
IDLE_S = 60.0
# Gateways write policies and traces into headers; aiohttp's own limit is 8,190 bytes.
LONGEST_HEADER = 65_536
# Misleading parts of aiohttp's messages: its own settings, and a status that no server sent.
_INNER = re.compile(r" ssl:(?:default|<[^>]*>)|<\w+: 400, message=([^>]*)>|^400, message=")

_aiohttp: Any = None
_tls: ssl.SSLContext | None = None
_sessions: dict[asyncio.AbstractEventLoop, Any] = {}
_proxies: dict[str, tuple[Any, Any]] = {}


class NoConnection(OSError):
    """A request or its response was lost, or no server listens."""


def is_loaded(secure: bool) -> bool:
    """Whether a request needs no more imports or certificates."""
    return _aiohttp is not None and (_tls is not None or not secure)


def load() -> None:
    """Import what a request needs, which takes a tenth of a second."""
    global _aiohttp
    import aiohttp

    _aiohttp = aiohttp


def load_secure() -> None:
    """Import what an encrypted request needs, and read the certificates.

    They are the user's own file, else those of the system and of certifi: a Python without the system's
    certificates, as on macOS, has those of certifi.
    """
    global _tls
    load()
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        with suppress(ImportError, OSError):
            import certifi

            context.load_verify_locations(certifi.where())
    _tls = context


class HttpReply(NamedTuple):
    """A response that is read; ``first_token_s`` is None where it was no stream, or no token came."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    first_token_s: float | None


async def post(url: str, body: bytes, headers: Mapping[str, str], *, streamed: bool = False) -> HttpReply:
    """Send a request and read the response; raises NoConnection.

    What is ``streamed`` is read to the end of the reply, and not until the server closes the connection.
    """
    began = time.perf_counter()
    try:
        async with await _answer(url, body, headers) as response:
            first_token_s = None
            if streamed and response.status < 300:
                content, first_token_s = await read_event_stream(response, began)
            else:
                content = await response.read()
        return HttpReply(response.status, response.reason or "", response.headers, content, first_token_s)
    except (_aiohttp.ClientError, ConnectionError, ssl.SSLError) as lost:
        raise NoConnection(_words(lost)) from lost


async def _answer(url: str, body: bytes, headers: Mapping[str, str]) -> Any:
    """Send a request and give the response; a request on a reused connection may be sent again."""
    proxy, proxy_auth = _proxy_of(url)
    options = {"ssl": _tls if url.startswith("https:") else True, "allow_redirects": False}
    options |= {"proxy": proxy, "proxy_auth": proxy_auth}
    # The server may have closed a reused connection as the request arrived, which costs no attempt. On a new
    # connection nobody knows whether the request was read, so the retry layer decides.
    for _ in range(100):  # as many reused connections may be closed, one after the other
        reused: list[bool] = []
        try:
            return await _session().post(url, data=body, headers=headers, trace_request_ctx=reused, **options)
        except (_aiohttp.ServerDisconnectedError, _aiohttp.ClientOSError) as lost:
            if not reused:
                raise NoConnection(_words(lost) + (f", by the proxy {proxy.host}" if proxy else "")) from lost
        except ValueError as refused:  # an invalid address, which aiohttp reports late
            raise NoConnection(f"{url}: {_words(refused)}") from refused
    raise NoConnection("the server closes each connection before it answers")


async def _note_reuse(session: Any, context: Any, params: Any) -> None:
    context.trace_request_ctx.append(True)


async def close() -> None:
    """Close the running loop's connections, and drop those of closed loops."""
    _proxies.clear()
    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()
    for loop in [loop for loop in _sessions if loop.is_closed()]:
        _sessions.pop(loop).detach()


def _session() -> Any:
    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is None or session.closed:
        # The rate limiter limits the number of requests at once, and the chat their duration.
        connector = _aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S)
        reuse = _aiohttp.TraceConfig()
        reuse.on_connection_reuseconn.append(_note_reuse)
        session = _sessions[loop] = _aiohttp.ClientSession(
            connector=connector,
            trace_configs=[reuse],
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
            timeout=_aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=_aiohttp.DummyCookieJar(),
            headers={"User-Agent": "pytest-agenteval", "Content-Type": "application/json"},
        )
    return session


def _proxy_of(url: str) -> tuple[Any, Any]:
    """Give the environment's proxy for an address, and the credentials; looked up once for a pool.

    Not by aiohttp's ``trust_env``: with it, a line of ``.netrc`` replaces the provider's key.
    """
    if url not in _proxies:
        from aiohttp.helpers import get_env_proxy_for_url
        from yarl import URL

        try:
            _proxies[url] = get_env_proxy_for_url(URL(url))
        except LookupError:
            _proxies[url] = (None, None)
        except ValueError as refused:
            raise NoConnection(f"{url}, or the proxy for it, is no address: {refused}") from refused
    proxy = _proxies[url][0]
    if proxy is not None and proxy.scheme not in ("http", "https"):
        raise NoConnection(f"the environment's proxy is {proxy.scheme}://…: expected http:// or https://")
    return _proxies[url]


def _words(lost: BaseException) -> str:
    """Give aiohttp's message without the parts that mislead."""
    text: str = _INNER.sub(lambda found: found[1] or "", " ".join(str(lost).split()))
    return text or type(lost).__name__


_DELTA_FIELDS = ("content", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call")
# Found in the bytes of every event that ends a stream.
_ENDING_WORDS = (b"message_stop", b'"error"')


def _has_content(event: Json) -> bool:
    """Whether an event of a stream holds a part of the text, the thoughts or a call."""
    for choice in maps_in(event.get("choices")):
        if any(as_map(choice.get("delta")).get(field) for field in _DELTA_FIELDS):
            return True
    delta = as_map(event.get("delta"))  # Anthropic's
    is_call = as_map(event.get("content_block")).get("type") == "tool_use"
    return is_call or any(delta.get(field) for field in ("text", "thinking", "partial_json"))


async def read_event_stream(response: Any, began: float) -> tuple[bytes, float | None]:
    """Read a response to its reply's end; give its body, and the seconds from ``began`` to the first token.

    They are None if no token came.
    """
    body, open_line = list[bytes](), list[bytes]()
    first_token_s, has_ended = None, False

    def add(piece: bytes) -> None:
        nonlocal open_line, first_token_s, has_ended
        body.append(piece)
        if b"\r" in piece:  # also ends a line; one more empty line changes nothing
            piece = piece.replace(b"\r", b"\n")
        open_line.append(piece)
        if b"\n" not in piece:  # a long line is joined once, and not for each piece
            return
        *lines, rest = b"".join(open_line).split(b"\n")
        open_line = [rest]
        for data in (line[5:].strip() for line in lines if line.startswith(b"data:")):
            has_ended |= data == b"[DONE]"
            # Decoding is slow: once the first token is there, only an event that may be the end is decoded.
            if first_token_s is None or any(word in data for word in _ENDING_WORDS):
                with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                    event = as_map(msgspec.json.decode(data))
                    has_ended |= event.get("type") in ("message_stop", "error") or bool(event.get("error"))
                    if first_token_s is None and _has_content(event):
                        first_token_s = time.perf_counter() - began

    try:
        async for piece in response.content.iter_any():
            add(piece)
            # A server may keep the connection open after a whole reply.
            if has_ended:
                break
    except Exception:
        # An error after the reply's end is raised before what has arrived already is read.
        add(b"".join(getattr(response.content, "_buffer", ())))
        if not has_ended:
            raise
    # If the response ends here, too, its connection can be used again.
    with suppress(Exception):
        async with asyncio.timeout(0.05):  # seconds; the reply is whole, only its stream may not have ended
            await response.content.read()
    return b"".join(body), first_token_s

"""One pool of HTTP connections for the direct asks of a loop: the one file that opens a client of aiohttp."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urljoin, urlsplit

IDLE_S = 60.0
"""For how long a connection is kept that nobody uses."""
MOST_REDIRECTS = 5
MOST_STALE = 100
"""How many connections one request may find closed that were kept."""
LONGEST_HEADER = 65_536
_KEEPS_METHOD = (307, 308)

_INNER = re.compile(r" ssl:(?:default|<[^>]*>)|<\w+: 400, message=([^>]*)>|^400, message=")
"""What aiohttp puts among its words: its own settings, and a status that no server sent."""

_aiohttp: Any = None
_tls: ssl.SSLContext | None = None
_sessions: dict[asyncio.AbstractEventLoop, Any] = {}
_proxies: dict[str, tuple[Any, Any]] = {}


class NoConnection(OSError):
    """A request or its response got lost, or nobody is there."""


def is_loaded(secure: bool) -> bool:
    """Whether a request would import nothing more, nor read certificates."""
    return _aiohttp is not None and (_tls is not None or not secure)


def load() -> None:
    """Import what a request needs, which takes a tenth of a second."""
    global _aiohttp
    import aiohttp

    _aiohttp = aiohttp


def load_secure() -> None:
    """Import what a request needs that is encrypted, and read the certificates."""
    global _tls
    load()
    _tls = _certificates()


@asynccontextmanager
async def post(url: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[Any]:
    """Send a request and give aiohttp's response, whose body has still to be read; raises NoConnection.

    A redirect is followed where it stays with the same host, which has got the key already.
    """
    secure = url.startswith("https:")
    if not is_loaded(secure):
        (load_secure if secure else load)()
    try:
        for _ in range(MOST_REDIRECTS):
            response = await _answer(url, body, headers)
            async with response:
                moved = _moved_to(url, response)
                if not moved:
                    yield response
                    return
                url = moved
        raise NoConnection(f"{url}: redirected more than {MOST_REDIRECTS} times")
    except (_aiohttp.ClientError, ConnectionError, ssl.SSLError) as lost:
        raise NoConnection(_words(lost)) from lost


async def _answer(url: str, body: bytes, headers: Mapping[str, str]) -> Any:
    """Send a request and give the response.

    A connection that is used again may be one that the server has just closed: what was sent on it is sent
    again at once, until it is lost on a new one.
    """
    proxy, proxy_auth = _proxy_of(url)
    options = {"ssl": _tls if url.startswith("https:") else True, "allow_redirects": False}
    options |= {"proxy": proxy, "proxy_auth": proxy_auth}
    for _ in range(MOST_STALE):
        reused: list[bool] = []
        try:
            return await _session().post(url, data=body, headers=headers, trace_request_ctx=reused, **options)
        except (_aiohttp.ServerDisconnectedError, _aiohttp.ClientOSError) as lost:
            if not reused:
                raise NoConnection(_words(lost) + (f", by the proxy {proxy.host}" if proxy else "")) from lost
        except ValueError as odd:  # an address that is none, as aiohttp says late
            raise NoConnection(f"{url}: {_words(odd)}") from odd
    raise NoConnection("the server closes each connection before it answers")


async def _note_reuse(session: Any, context: Any, params: Any) -> None:
    context.trace_request_ctx.append(True)


async def close() -> None:
    """Close the running loop's connections, and forget those of loops that are over."""
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
        # How much is asked at once is the gate's concern, how long it may take the chat's.
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


def _certificates() -> ssl.SSLContext:
    """Give what vouches for servers: the user's own file, else all that the system and certifi know.

    A Python without certificates of the system's, as on macOS, has those of certifi.
    """
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        with suppress(ImportError, OSError):
            import certifi

            context.load_verify_locations(certifi.where())
    return context


def _proxy_of(url: str) -> tuple[Any, Any]:
    """Give the environment's proxy for an address, and who one is there; looked up once for a pool.

    Not aiohttp's ``trust_env``: with it a line of ``.netrc`` takes the place of the provider's key.
    """
    if url not in _proxies:
        from aiohttp.helpers import get_env_proxy_for_url
        from yarl import URL

        try:
            _proxies[url] = get_env_proxy_for_url(URL(url))
        except LookupError:
            _proxies[url] = (None, None)
        except ValueError as odd:
            raise NoConnection(f"{url}, or the proxy for it, is no address: {odd}") from odd
    proxy = _proxies[url][0]
    if proxy is not None and proxy.scheme not in ("http", "https"):
        raise NoConnection(f"the environment's proxy is {proxy.scheme}://…: expected http:// or https://")
    return _proxies[url]


def _moved_to(url: str, response: Any) -> str:
    location = response.headers.get("Location") if response.status in _KEEPS_METHOD else None
    if not location:
        return ""
    with suppress(ValueError):
        target: str = urljoin(url, location)
        if urlsplit(target)[:2] == urlsplit(url)[:2]:
            return target
    return ""


def _words(lost: BaseException) -> str:
    """Give what happened in aiohttp's words, without its own settings among them."""
    text: str = _INNER.sub(lambda found: found[1] or "", " ".join(str(lost).split()))
    return text or type(lost).__name__

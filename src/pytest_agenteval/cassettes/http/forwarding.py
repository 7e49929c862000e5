"""Requests that a server of ours sends on to where they really go, their responses read as they come."""

from __future__ import annotations

import socket
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

if TYPE_CHECKING:
    from ssl import SSLContext

    from pytest_agenteval.cassettes.http.messages import Pairs

SECONDS = 600.0
"""Seconds of silence after which a provider is taken for gone, as with the clients of the large ones."""

CHUNK = 65536
# What holds for one connection only, or is said anew for the next one.
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate"}
    | {"te", "trailer", "transfer-encoding", "upgrade"}
)
_SAID_ANEW = HOP_BY_HOP | {"host", "content-length", "expect", "accept-encoding"}
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# What a connection says that the other side has closed while nobody looked.
_STALE = (HTTPException, ConnectionError)

Unanswered = (OSError, HTTPException, ValueError)
"""What is raised where a request gets no response, or no whole one; ValueError by what was shut meanwhile."""


class IncomingResponse:
    """A request that was sent, and the response that has begun to come."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self.status, self.reason = response.status, response.reason
        self.headers = response.getheaders()
        self._connection, self._response = connection, response

    @property
    def sized(self) -> bool:
        """Whether the response has said how long it is: one that comes bit by bit has not."""
        return self._response.length is not None

    def whole(self) -> bytes:
        """Give all of the body; raises one of ``Unanswered`` where it ends too early."""
        return self._response.read()

    def chunks(self) -> Iterator[bytes]:
        """Give the body as it comes; raises one of ``Unanswered`` where it ends too early."""
        while chunk := self._response.read1(CHUNK):
            yield chunk


class Connections:
    """The connections of one thread to where requests really go, one for each host, kept open."""

    def __init__(self) -> None:
        self._connections: dict[tuple[str, str], HTTPConnection] = {}
        self._socket: socket.socket | None = None

    def send(
        self, method: str, url: str, headers: Pairs, body: bytes | None, *, is_awaited: Callable[[], bool]
    ) -> IncomingResponse:
        """Send a request and give the response that begins; raises one of ``Unanswered``.

        What the other side closed while it was idle is opened again, once, if that is still ``is_awaited``.
        """
        parts = urlsplit(url)
        connection = self._connections.pop((parts.scheme, parts.netloc), None)
        if connection is not None and connection.sock is not None:
            with suppress(*_STALE):
                return self._exchange(connection, method, parts, headers, body)
        connection = _connection(parts)
        connection.connect()
        if not is_awaited():  # a host that is slow to be reached, or that is asked once more
            connection.close()
            raise ConnectionAbortedError("nobody waits for the response any more")
        return self._exchange(connection, method, parts, headers, body)

    def cut(self) -> None:
        """Let whoever waits for a response wait no longer; may be called from any thread."""
        if (waited_for := self._socket) is not None:
            with suppress(OSError):
                # Not SSLSocket's own, which takes away what another thread is just reading with.
                socket.socket.shutdown(waited_for, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close what is open."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _exchange(
        self, connection: HTTPConnection, method: str, parts: SplitResult, headers: Pairs, body: bytes | None
    ) -> IncomingResponse:
        try:
            self._socket = connection.sock
            _write_request(connection, method, parts, headers, body)
            response = connection.getresponse()
        except BaseException:
            connection.close()
            raise
        self._connections[parts.scheme, parts.netloc] = connection
        return IncomingResponse(connection, response)


def _write_request(
    connection: HTTPConnection, method: str, parts: SplitResult, headers: Pairs, body: bytes | None
) -> None:
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    absolute = parts.scheme == "http" and _proxy(parts) is not None
    target = f"http://{parts.netloc}{target}" if absolute else target
    # Not encoded: what passes through is read, recorded and handed on bit by bit.
    connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
    own = [("Host", parts.netloc.rpartition("@")[2]), ("Accept-Encoding", "identity")]
    if absolute and (proxy := _proxy(parts)) is not None:
        own += _proxy_credentials(proxy)
    if body is not None or method in ("POST", "PUT", "PATCH"):
        own.append(("Content-Length", str(len(body or b""))))
    for name, value in (*own, *onward_headers(headers)):
        connection.putheader(name, value)
    connection.endheaders(body)


def onward_headers(headers: Pairs) -> Iterable[tuple[str, str]]:
    """Give the headers that are sent on: without those of the connection they came by."""
    return [(name, value) for name, value in headers if name.lower() not in _SAID_ANEW]


def _connection(parts: SplitResult) -> HTTPConnection:
    """Give a connection to a host, through the user's proxy where the environment names one."""
    host, port, proxy = parts.hostname or "", parts.port, _proxy(parts)
    if parts.scheme != "https":
        return (
            HTTPConnection(host, port or 80, timeout=SECONDS)
            if proxy is None
            else HTTPConnection(proxy.hostname or "", proxy.port or 80, timeout=SECONDS)
        )
    if proxy is None:
        return HTTPSConnection(host, port or 443, timeout=SECONDS, context=_tls())
    connection = HTTPSConnection(proxy.hostname or "", proxy.port or 80, timeout=SECONDS, context=_tls())
    connection.set_tunnel(host, port or 443, dict(_proxy_credentials(proxy)))
    return connection


def _proxy(parts: SplitResult) -> SplitResult | None:
    """Give the user's proxy for a host; none for one of this machine."""
    if (parts.hostname or "") in _LOOPBACK:
        return None
    from urllib.request import getproxies, proxy_bypass

    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _proxy_credentials(proxy: SplitResult) -> list[tuple[str, str]]:
    if proxy.username is None:
        return []
    signed_in = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [("Proxy-Authorization", f"Basic {b64encode(signed_in.encode()).decode()}")]


@cache
def _tls() -> SSLContext:
    """Give what certificates are checked with: the same that other clients of this process do."""
    import httpx

    return httpx.create_ssl_context()

"""The addresses that one trial has on this machine, and the connections by which requests are sent on."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Protocol
from urllib.parse import SplitResult, quote, unquote, urlsplit

from pytest_agenteval.cassettes.http.patch_system import without_socket_guard
from pytest_agenteval.records.record import NOTHING, FrozenValue

if TYPE_CHECKING:
    from ssl import SSLContext

    from pytest_agenteval.cassettes.http.messages import Pairs
    from pytest_agenteval.cassettes.http.scope import Scope
    from pytest_agenteval.cassettes.interaction import Response


SILENCE_S = 600.0
"""Seconds of silence after which a provider counts as gone, as with OpenAI's and Anthropic's own clients."""

CHUNK = 65536
# These headers hold for one connection only, or are written anew for the next one.
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate"}
    | {"te", "trailer", "transfer-encoding", "upgrade"}
)
_REWRITTEN_HEADERS = HOP_BY_HOP | {"host", "content-length", "expect", "accept-encoding"}
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# Raised by a connection that the other side has closed while it was idle.
_STALE = (HTTPException, ConnectionError)

Unanswered = (OSError, HTTPException, ValueError)
"""What is raised where a request gets no response, or no whole one; ValueError by a file closed meanwhile."""


class IncomingResponse:
    """A request that was sent, and the response whose head has arrived."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self.status, self.reason = response.status, response.reason
        self.headers = response.getheaders()
        self._connection, self._response = connection, response

    @property
    def sized(self) -> bool:
        """Whether the response states its length: one that comes bit by bit does not."""
        return self._response.length is not None

    def whole(self) -> bytes:
        """Give all of the body; raises one of ``Unanswered`` where it ends too early."""
        return self._response.read()

    def chunks(self) -> Iterator[bytes]:
        """Give the body as it comes; raises one of ``Unanswered`` where it ends too early."""
        while chunk := self._response.read1(CHUNK):
            yield chunk


class Connections:
    """The open connections of one thread to where requests really go, one for each host."""

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
        # Reaching a host may take long, and the trial may have ended meanwhile. Nobody could cut a connection
        # that did not exist yet.
        if not is_awaited():
            connection.close()
            raise ConnectionAbortedError("the client closed the connection before the response")
        return self._exchange(connection, method, parts, headers, body)

    def cut(self) -> None:
        """End the wait for a response; may be called from any thread."""
        if (waited_for := self._socket) is not None:
            with suppress(OSError):
                # Not SSLSocket's own method, which drops the TLS state that another thread is reading with.
                socket.socket.shutdown(waited_for, socket.SHUT_RDWR)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _exchange(
        self, connection: HTTPConnection, method: str, parts: SplitResult, headers: Pairs, body: bytes | None
    ) -> IncomingResponse:
        try:
            self._socket = connection.sock
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            # By a proxy, requests of plain HTTP go with the whole address; those of HTTPS through a tunnel.
            proxy = _proxy(parts) if parts.scheme == "http" else None
            target = target if proxy is None else f"http://{parts.netloc}{target}"
            # Requested without encoding: the response is read, recorded and handed on part by part.
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            own = [("Host", parts.netloc.rpartition("@")[2]), ("Accept-Encoding", "identity")]
            own += [] if proxy is None else _proxy_credentials(proxy)
            # Servers may refuse a POST without a length, even one without a body.
            if body is not None or method in ("POST", "PUT", "PATCH"):
                own.append(("Content-Length", str(len(body or b""))))
            for name, value in (*own, *headers):
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
        # It may hold half of a response, which is no beginning of the next one.
        except BaseException:
            connection.close()
            raise
        self._connections[parts.scheme, parts.netloc] = connection
        return IncomingResponse(connection, response)


def forwarded_headers(headers: Pairs) -> Iterable[tuple[str, str]]:
    """Give the headers that are sent on: without those of the connection they came by."""
    return [(name, value) for name, value in headers if name.lower() not in _REWRITTEN_HEADERS]


def _connection(parts: SplitResult) -> HTTPConnection:
    """Give a connection to a host, through the user's proxy where the environment names one."""
    host, port, proxy = parts.hostname or "", parts.port, _proxy(parts)
    if parts.scheme != "https":
        if proxy is not None:
            host, port = proxy.hostname or "", proxy.port
        return HTTPConnection(host, port or 80, timeout=SILENCE_S)
    if proxy is None:
        return HTTPSConnection(host, port or 443, timeout=SILENCE_S, context=client_tls())
    connection = HTTPSConnection(
        proxy.hostname or "", proxy.port or 80, timeout=SILENCE_S, context=client_tls()
    )
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
def client_tls() -> SSLContext:
    """Give what certificates are checked with: made once, since that takes longer than many requests."""
    import httpx

    return httpx.create_ssl_context()


HOST = "127.0.0.1"
USER = "agenteval"
GRACE_S = 2.0
"""Seconds that a response which is arriving when its trial ends has to come to its own end."""
CUT_S, CUTTING_S = 0.05, 5.0
MOST_REFUSED = 20
"""How many more requests a program may make after a limit of its trial was reached."""


class Upstream(FrozenValue, frozen=True):
    """Where the requests of one address really go, and how they are signed there.

    ``name`` is its part of the path, ``base`` what the rest of the path is put behind. The value of the
    environment variable ``key_env`` is sent as the header ``header``, behind ``prefix``; it is read when a
    request is sent, and held nowhere. Where it is ``needed`` and not set, nothing is sent. The headers and
    parameters of ``dummies`` are a program's own words for a key, and left out. ``version`` is what the
    address ends with, as ``base`` does.
    """

    name: str
    base: str
    header: str = ""
    prefix: str = ""
    key_env: str = ""
    needed: bool = False
    dummies: tuple[str, ...] = ()
    version: str = ""

    def signature(self) -> Mapping[str, str]:
        """Give the header that signs a request; none where there is no key."""
        key = os.environ.get(self.key_env, "") if self.header and self.key_env else ""
        return {self.header: f"{self.prefix}{key}"} if key else NOTHING

    def without_dummies(self, headers: Pairs) -> list[tuple[str, str]]:
        return [pair for pair in headers if pair[0].lower() not in self.dummies]

    def url_of(self, path: str) -> str:
        """Give the real address of a path and its query, as they follow the address that stands for it."""
        path, _, query = path.partition("?")
        if self.version and f"{path}/".startswith(f"/{self.version}/"):
            path = path.removeprefix(f"/{self.version}")
        pairs = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in self.dummies]
        return f"{self.base.rstrip('/')}{path}" + (f"?{'&'.join(pairs)}" if pairs else "")


ANY_UPSTREAM = "model"
"""The name of the address that stands for all upstreams: a request's path says which one it is for."""


class Mounted(Protocol):
    """What answers requests itself, at an address of a trial: they go nowhere else."""

    def answer(self, method: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        """Answer a request, in a thread of its connection; names of ``headers`` are in small letters."""

    def close(self) -> None:
        """Cut off what is under way: the trial ends."""


class TrialAddress:
    """The addresses that one trial has: among those ``served`` by their tokens, as long as it lasts.

    ``around`` holds the host of each request that went past these addresses and was refused;
    ``failures`` a line for each request whose provider did not answer; ``broken`` what of ours raised.
    """

    def __init__(
        self,
        scope: Scope,
        upstreams: Mapping[str, Upstream],
        served: dict[str, TrialAddress],
        *,
        port: int,
        ignored: Sequence[str] = (),
        named_by: Callable[[str], str] = str,
    ) -> None:
        self.scope, self.upstreams, self.port = scope, upstreams, port
        self.token = secrets.token_urlsafe(18)
        self.around: list[str] = []
        self.failures: list[str] = []
        self.broken: list[BaseException] = []
        self.closed, self._limited = False, 0
        self.on_broken: Callable[[], object] = list
        self._ignored, self._named_by, self._served = ignored, named_by, served
        self.mounted: dict[str, Mounted] = {}
        self._under_way: dict[Connections, bool] = {}
        self._changed = threading.Condition()
        served[self.token] = self

    def upstream(self, name: str, path: str) -> Upstream | None:
        return self.upstreams.get(self._named_by(path) if name == ANY_UPSTREAM else name)

    @property
    def any_url(self) -> str:
        """Give the address that stands for every upstream: the path of a request tells them apart."""
        return self._root(ANY_UPSTREAM)

    def url(self, name: str) -> str:
        version = self.upstreams[name].version
        root = self._root(name)
        return f"{root}/{version}" if version else root

    def mount(self, name: str, mounted: Mounted) -> str:
        """Have requests answered at an address of the trial; give it. A name is no upstream's too."""
        self.mounted[name] = mounted
        return self._root(name)

    def _root(self, name: str) -> str:
        return f"http://{HOST}:{self.port}/t/{self.token}/{quote(name, safe='')}"

    @property
    def refusing_proxy(self) -> str:
        """Give the address of a proxy that refuses every request, and counts it for this trial."""
        return f"http://{USER}:{self.token}@{HOST}:{self.port}"

    def connect(self) -> socket.socket:
        """Open a connection to these addresses, for a program that cannot open it itself."""
        with without_socket_guard():
            return socket.create_connection((HOST, self.port))

    def note_broken(self, broken: BaseException) -> None:
        """Note what keeps the trial from going on, and call ``on_broken``."""
        self.broken.append(broken)
        self.on_broken()

    def note_limit(self, reached: BaseException) -> None:
        """Note that a limit refused a request; a program that goes on with requests is to be ended."""
        self._limited += 1
        if self._limited > MOST_REFUSED:
            self.note_broken(reached)

    def note_around(self, host: str) -> None:
        """Count a request that went past these addresses, unless its host is an ignored one."""
        if not any(fnmatch(host.rpartition(":")[0] or host, pattern) for pattern in self._ignored):
            self.around.append(host)

    @contextmanager
    def under_way(self, connections: Connections) -> Iterator[None]:
        """Count a request as under way within the block."""
        with self._changed:
            self._under_way[connections] = False
        try:
            yield
        finally:
            with self._changed:
                del self._under_way[connections]
                self._changed.notify_all()

    def note_response(self, connections: Connections) -> None:
        """Note that a response is arriving, for which the end of the trial waits ``GRACE_S`` seconds."""
        with self._changed:
            self._under_way[connections] = True

    def close(self, grace_s: float = GRACE_S) -> None:
        """Refuse every further request, and wait until nothing is under way.

        A response that is arriving has ``grace_s`` seconds to come to its end, and to be recorded: a program
        may have ended as soon as it read the last word. All else is cut.
        """
        self.cut(also_responding=False)
        # Counted from here: a mounted server, which was closed just now, may have been slow.
        end = time.monotonic() + grace_s + CUTTING_S
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, grace_s)
            # Repeated, as a request may be about to open the connection by which it can be cut.
            while self._under_way and time.monotonic() < end:
                self._cut(also_responding=True)
                self._changed.wait(CUT_S)

    def cut(self, *, also_responding: bool = True) -> None:
        """Refuse every further request, and cut off what is under way, without waiting."""
        self.closed = True
        self._served.pop(self.token, None)
        for mounted in self.mounted.values():
            mounted.close()
        with self._changed:
            self._cut(also_responding=also_responding)

    def _cut(self, *, also_responding: bool) -> None:
        for connections, is_responding in tuple(self._under_way.items()):
            if also_responding or not is_responding:
                connections.cut()

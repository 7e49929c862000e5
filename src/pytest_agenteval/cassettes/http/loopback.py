"""A server on this machine, one for the process, with a path of its own for each trial.

Programs in other languages and processes get its addresses in place of a provider's: what they request is
replayed, recorded or refused by the trial's scope, like requests of this process."""

from __future__ import annotations

import contextvars
import os
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from select import select
from socket import MSG_PEEK
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin, urlsplit

from pytest_agenteval.cassettes.http.exchange import failed_response, failure_text, is_failure
from pytest_agenteval.cassettes.http.loopback_address import (
    HOP_BY_HOP,
    HOST,
    Connections,
    IncomingResponse,
    TrialAddress,
    Unanswered,
    Upstream,
    forwarded_headers,
)
from pytest_agenteval.cassettes.http.messages import on_the_wire, recordable_request, recordable_response
from pytest_agenteval.cassettes.http.scope import (
    BROKE_OFF,
    GIVEN_UP,
    OWN_ADDRESSES,
    NothingSent,
    Scope,
    untaped,
)
from pytest_agenteval.cassettes.interaction import Request, Response
from pytest_agenteval.processes.threads import close_at_end, in_daemon_thread
from pytest_agenteval.text.errors import RequestRefused, exception_text
from pytest_agenteval.text.secret_forms import MARK, worth_hiding

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.http.messages import Pairs


class LoopbackExchange:
    """What a program asks at one of its trial's addresses, and what it is answered."""

    def __init__(
        self,
        address: TrialAddress,
        upstream: Upstream,
        method: str,
        path: str,
        headers: Pairs,
        body: bytes | None,
    ) -> None:
        self._address, self._upstream, self._method, self._body = address, upstream, method, body
        self._url = upstream.url_of(path)
        self._headers = upstream.without_dummies(forwarded_headers(headers))
        self._signature = upstream.signature()
        self._began = 0.0
        self._first_byte_s: float | None = None
        self._upgrades = any(name.lower() == "upgrade" for name, _ in headers)
        self.request = recordable_request(method, self._url, self._headers, body)

    def unsent(self) -> Response | None:
        """Give what is answered without sending anything, be it recorded or a refusal; None to send it."""
        address, scope = self._address, self._address.scope
        if address.closed or scope.closed:
            return refusal(403, "trial_ended", "the trial has ended: nothing more is sent", self.request)
        try:
            if self._upgrades and not scope.live:  # a WebSocket is no request with a response
                raise scope.refusal(self.request)
            response = scope.play(self.request)
        except (RequestRefused, NothingSent) as refused:
            return refusal(400, "not_recorded", exception_text(refused), self.request)
        except Exception as broken:  # nobody is above us: whoever runs the program is told
            address.note_broken(broken)
            line = "the trial is broken: nothing more is answered"
            return refusal(400, "trial_broken", line, self.request)
        except BaseException as reached:  # what ends an agent in this process
            address.note_limit(reached)
            return refusal(400, "limit_reached", exception_text(reached), self.request)
        if response is None and self._upstream.needed and not self._signature:
            missing = (
                f"{self._upstream.key_env} is not set where pytest runs, and requests are signed with it"
            )
            unsigned = refusal(401, "no_key", missing, self.request)
            scope.record(self.request, unsigned)  # as a provider's word: it is no reply, and is not played
            return unsigned
        if response is not None and is_failure(response):
            host = urlsplit(self._url).netloc.rpartition("@")[2]
            return self._unreachable(f"{host} did not answer: {failure_text(response)}")
        return None if response is None else self.with_own_address(response)

    def send(self, connections: Connections) -> IncomingResponse:
        """Send it, signed, and give the response that begins; raises one of ``Unanswered``."""
        headers = [*self._headers, *self._signature.items()]
        self._began = time.monotonic()
        incoming = connections.send(
            self._method, self._url, headers, self._body, is_awaited=lambda: not self._address.closed
        )
        self._address.note_response(connections)
        cleaned = [(name, self.clean(value.encode("latin-1", "replace"))) for name, value in incoming.headers]
        incoming.headers = [(name, value.decode("latin-1")) for name, value in cleaned]
        return incoming

    def note_part(self) -> None:
        """Note that some of the response's body has come."""
        if self._first_byte_s is None:
            self._first_byte_s = time.monotonic() - self._began

    def record(self, incoming: IncomingResponse, raw: bytes) -> Response:
        """Record what was really answered, and give it."""
        response = recordable_response(self._method, incoming.status, incoming.reason, incoming.headers, raw)
        if not self._address.scope.closed:
            try:
                self._address.scope.record(self.request, response, self._first_byte_s)
            except BaseException as broken:
                self._address.note_broken(broken)
        return self.with_own_address(response)

    def clean(self, data: bytes) -> bytes:
        """Give a body without the key that was sent: a provider may say it again."""
        for key in self._keys:
            data = data.replace(key, MARK.encode())
        return data

    def clean_parts(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Give the parts of a body without it; what may be a key's beginning waits for the next part."""
        rest = b""
        for part in parts:
            data = self.clean(rest + part)
            partial_key = max((_partial_key_length(data, key) for key in self._keys), default=0)
            data, rest = data[: len(data) - partial_key], data[len(data) - partial_key :]
            if data:
                yield data
        if rest:
            yield rest

    @cached_property
    def _keys(self) -> Sequence[bytes]:
        # One that a client only wants to have, such as `none`, is a word of replies too.
        keys = (key.removeprefix(self._upstream.prefix) for key in self._signature.values())
        return [key.encode() for key in keys if worth_hiding(key)]

    def unanswered(self, failed: BaseException) -> Response:
        """Say that nobody answered, in the way in which providers do: it may be tried again."""
        host = urlsplit(self._url).netloc.rpartition("@")[2]
        line = f"{host} did not answer: {type(failed).__name__}: {exception_text(failed)}"
        self._address.failures.append(line)
        if self._address.closed:
            self.cut(Response(0, GIVEN_UP))
        else:
            self.fail(Response(0, line), failed)
        return self._unreachable(line)

    def _unreachable(self, line: str) -> Response:
        response = refusal(502, "unreachable", line, self.request)
        return replace(response, headers={"Content-Type": "application/json"})

    def fail(self, cut: Response, failed: BaseException) -> None:
        """Record that no whole response came: ``cut`` is what came of it."""
        if not self._address.scope.closed:
            self._address.scope.fail(self.request, cut, failed_response(failed))

    def cut(self, response: Response) -> None:
        """Note that no whole response came; status 0 is that of none at all."""
        if not self._address.scope.closed:
            self._address.scope.cut(self.request, response)

    def with_own_address(self, response: Response) -> Response:
        """Give a response that leads nowhere else: to where it redirects, the program comes back to us."""
        headers = dict(response.headers)
        for name, values in response.headers.items():
            if name.lower() == "location":
                headers[name] = list(map(self._own, values))
        return replace(response, headers=headers)

    def _own(self, location: str) -> str:
        target, base = urljoin(self._url, location), self._upstream.base.rstrip("/")
        if target.startswith((f"{base}/", f"{base}?")) or target == base:
            return self._address.url(self._upstream.name) + target.removeprefix(base)
        return location


def _partial_key_length(data: bytes, key: bytes) -> int:
    """Give how many bytes at the end of the data are a key's beginning."""
    longest = min(len(data), len(key) - 1)
    return next((length for length in range(longest, 0, -1) if data.endswith(key[:length])), 0)


def refusal(status: int, kind: str, message: str, request: Request | None = None) -> Response:
    """Give a response that refuses a request for good, in the words of the provider that it was meant for."""
    from pytest_agenteval.cassettes.wire.classification import classify
    from pytest_agenteval.cassettes.wire.response_bodies import error_response

    return error_response("" if request is None else classify(request).format, status, kind, message)


LONGEST_LINE = 65536
MOST_BYTES = 1_000_000_000
"""The longest body that is taken, or part of one: it is held in memory."""
AROUND = (
    "this goes around the addresses that agenteval gives, and is refused; "
    "`proxy: {VARIABLE: base}` in suite.yaml gives a tool's one"
)


class LoopbackRequests(BaseHTTPRequestHandler):
    """Answers the requests that come by one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Any

    def setup(self) -> None:
        """Begin."""
        super().setup()
        self._connections = Connections()

    def finish(self) -> None:
        """Close what was opened for this connection."""
        self._connections.close()
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Answer a request, whatever its method."""
        with untaped():
            if (response := self._response()) is not None:
                self._send(response)

    do_GET = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_POST

    def do_CONNECT(self) -> None:
        """Refuse a tunnel: what goes through it cannot be read."""
        self._send(self._refusal_around(self.path))

    def _response(self) -> Response | None:
        """Give what is to be sent; None where it was sent as it came."""
        try:
            place = urlsplit(self.path)
            if place.scheme and place.port != self.server.server_port:  # as it is asked of a proxy
                return self._refusal_around(place.netloc)
            body = self._body()
        except ValueError as bad:
            self.close_connection = True
            return refusal(400, "bad_request", f"the request is not as HTTP has it: {bad}")
        _, _, token, name, rest = (*place.path.split("/", 4), "", "", "", "")[:5]
        address: TrialAddress | None = self.server.addresses.get(token)
        if address is not None and (mounted := address.mounted.get(unquote(name))) is not None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            return mounted.answer(self.command, headers, body)
        upstream = None if address is None else address.upstream(unquote(name), f"/{rest}")
        if address is None or upstream is None:
            line = "no trial has this address: it has ended, or the path is not whole"
            return refusal(403, "no_address", line)
        query = f"?{place.query}" if place.query else ""
        path = f"/{rest}{query}" if place.path.count("/") > 3 else query
        with address.under_way(self._connections):
            return self._exchange(
                LoopbackExchange(address, upstream, self.command, path, self.headers.items(), body)
            )

    def _exchange(self, exchange: LoopbackExchange) -> Response | None:
        """Play, or send on; what is sent on is recorded before the last of its response is handed on."""
        if (response := exchange.unsent()) is not None:
            return response
        try:
            incoming = exchange.send(self._connections)
            if incoming.sized or self.request_version != self.protocol_version:
                body = incoming.whole()
                if self._is_left:
                    exchange.cut(Response(0, GIVEN_UP))
                    return None
                return exchange.record(incoming, exchange.clean(body))
        except Unanswered as failed:
            return exchange.unanswered(failed)
        self._hand_on(exchange, incoming)
        return None

    def _hand_on(self, exchange: LoopbackExchange, incoming: IncomingResponse) -> None:
        """Hand on a response as it comes, also its headers: nobody knows how long the first word takes.

        A program that reads no further does not end it: what was paid for is recorded.
        """
        head = f"HTTP/1.1 {incoming.status} {incoming.reason}\r\n"
        for name, value in incoming.headers:
            if name.lower() not in HOP_BY_HOP and name.lower() != "content-length":
                head += f"{name}: {value}\r\n"
        self._write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode("latin-1", "replace"))
        whole = bytearray()
        try:
            for chunk in exchange.clean_parts(incoming.chunks()):
                exchange.note_part()
                whole += chunk
                self._write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        except Unanswered as failed:
            cut = recordable_response(
                self.command, incoming.status, BROKE_OFF, incoming.headers, bytes(whole), whole=False
            )
            exchange.fail(cut, failed)
            self.close_connection = True  # so it is seen that there should be more
            return
        exchange.record(incoming, bytes(whole))
        self._write(b"0\r\n\r\n")

    def _send(self, response: Response) -> None:
        """Send a response in one piece: in several, each would wait for a word that the last has arrived."""
        self._write(on_the_wire(response, self.command))

    @property
    def _is_left(self) -> bool:
        """Whether the program waits no longer, as where its client has timed out."""
        try:
            readable, _, _ = select([self.connection], [], [], 0)
            return bool(readable) and not self.connection.recv(1, MSG_PEEK)
        except ValueError:  # more files are open than can be looked at
            return False
        except OSError:
            return True

    def _write(self, data: bytes) -> None:
        try:
            self.wfile.write(data)
        except OSError:  # nobody listens any more
            self.close_connection = True

    def _body(self) -> bytes | None:
        """Read the body of a request; raises ValueError where it is cut or misspelt."""
        if "chunked" in str(self.headers.get("Transfer-Encoding", "")).lower():
            return b"".join(iter(self._chunk, b""))
        length = self.headers.get("Content-Length")
        return None if length is None else self._read(int(length))

    def _chunk(self) -> bytes:
        """Read one chunk of a body; the last is empty, and lines that follow it are passed over."""
        size = int(self.rfile.readline(LONGEST_LINE).partition(b";")[0], 16)
        chunk = self._read(size)
        while self.rfile.readline(LONGEST_LINE).strip() and not size:
            pass
        return chunk

    def _read(self, size: int) -> bytes:
        if not 0 <= size <= MOST_BYTES:
            raise ValueError(f"a body of {size} bytes; expected 0 to {MOST_BYTES}")
        data = self.rfile.read(size)
        if len(data) != size:
            raise ValueError("the body was cut")
        return data

    def _refusal_around(self, host: str) -> Response:
        """Refuse a request that takes us for a proxy, and count it for the trial that signs it so."""
        self.close_connection = True
        token = ""
        with suppress(ValueError):
            credentials = b64decode(self.headers.get("Proxy-Authorization", "").partition(" ")[2])
            token = credentials.decode().rpartition(":")[2]
        if not token:
            challenge = {"Proxy-Authenticate": 'Basic realm="agenteval"'}
            return replace(refusal(407, "no_trial", AROUND), headers=challenge)
        address: TrialAddress | None = self.server.addresses.get(token)
        if address is not None:
            address.note_around(host.rpartition("@")[2])
        return refusal(403, "around_the_tapes", AROUND)


POLL_S = 0.1


def open_address(
    scope: Scope,
    upstreams: Iterable[Upstream],
    ignored: Sequence[str] = (),
    named_by: Callable[[str], str] = str,
) -> TrialAddress:
    """Give a trial's addresses, one for each name; who closes them may wait for seconds.

    What went around them is not counted for hosts that fit a pattern of ``ignored``. ``named_by`` gives, of
    a path at the address that stands for all upstreams, the name of the one that it is for.
    """
    server = _serving()
    named = {upstream.name: upstream for upstream in upstreams}
    address = TrialAddress(
        scope, named, port=server.server_port, ignored=ignored, leave=server.forget, named_by=named_by
    )
    server.addresses[address.token] = address
    return address


class _Server(ThreadingHTTPServer):
    """The server, and which trial has which path."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256  # every agent of a run may open some connections at once

    def __init__(self) -> None:
        super().__init__((HOST, 0), LoopbackRequests)
        self.addresses: dict[str, TrialAddress] = {}
        self.base = f"http://{HOST}:{self.server_port}"
        self.process = os.getpid()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that somebody dropped; what matters is noted with its trial."""

    def forget(self, token: str) -> None:
        self.addresses.pop(token, None)

    def end(self) -> None:
        OWN_ADDRESSES.discard(self.base)
        self.shutdown()
        self.server_close()


_servers: list[_Server] = []
_starting = threading.Lock()


def _serving() -> _Server:
    """Give the server of this process, started for the first trial that needs it."""
    with _starting:
        if not _servers or _servers[0].process != os.getpid():
            _servers[:] = [_Server()]
            OWN_ADDRESSES.add(_servers[0].base)
            # It serves all trials, and is no part of the one that happens to be the first.
            contextvars.Context().run(_start_server, _servers[0])
            close_at_end(close_server)
        return _servers[0]


def _start_server(server: _Server) -> None:
    with untaped():
        threading.Thread(
            target=server.serve_forever, args=(POLL_S,), name="agenteval-loopback", daemon=True
        ).start()


async def close_server() -> None:
    """End the server of this process."""
    with _starting:
        ended, _servers[:] = tuple(_servers), []
    for server in ended:
        if server.process == os.getpid():
            with suppress(OSError):
                await in_daemon_thread(server.end)

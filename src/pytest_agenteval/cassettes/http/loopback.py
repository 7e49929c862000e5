"""A server on this machine, one for the process, with a path of its own for each trial.

Programs in other languages and processes get its addresses in place of a provider's: what they request is
replayed, recorded or refused by the trial's scope, like requests of this process."""

from __future__ import annotations

import contextvars
import os
import threading
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from select import select
from socket import MSG_PEEK
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from pytest_agenteval.cassettes.http.exchange import Exchange, failure_text, is_failure
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
from pytest_agenteval.cassettes.http.messages import OF_BODY, on_the_wire, recordable_request
from pytest_agenteval.cassettes.http.scope import (
    CLIENT_LEFT,
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


PROXIED = "proxied"
"""The name of an upstream on this machine that a program reaches by the trial's proxy."""
BROKEN = "the trial is broken: nothing more is answered"


class LoopbackExchange:
    """A request that a program makes at one of its trial's addresses, and the response to it."""

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
        self._upgrades = any(name.lower() == "upgrade" for name, _ in headers)
        self.request = recordable_request(method, self._url, self._headers, body)
        self.sent: Exchange

    def unsent(self) -> Response | None:
        """Give the response that needs no sending, be it recorded or a refusal; None to send the request."""
        address, scope = self._address, self._address.scope
        if address.closed or scope.closed:
            return refusal(403, "trial_ended", "the trial has ended: nothing more is sent", self.request)
        try:
            # A WebSocket is no request with one response, and cannot be recorded.
            if self._upgrades and not scope.live:
                raise scope.refusal(self.request)
            self.request, changed = scope.with_prompts(self.request)
            if changed is not None:
                self._body = changed
                self._headers = [pair for pair in self._headers if pair[0].lower() not in OF_BODY]
            response = scope.play(self.request)
        except (RequestRefused, NothingSent) as refused:
            return refusal(400, "not_recorded", exception_text(refused), self.request)
        # No caller in this thread handles it: it is passed to the code that runs the program.
        except Exception as broken:
            address.note_broken(broken)
            return refusal(400, "trial_broken", BROKEN, self.request)
        # A limit of the trial is a BaseException, which ends an agent that runs in this process.
        except BaseException as reached:
            address.note_limit(reached)
            return refusal(400, "limit_reached", exception_text(reached), self.request)
        if response is None and self._upstream.needed and not self._signature:
            missing = (
                f"{self._upstream.key_env} is not set where pytest runs, and requests are signed with it"
            )
            unsigned = refusal(401, "no_key", missing, self.request)
            # Recorded as if the provider had refused it: that is no reply of a model, and is not replayed.
            scope.record(self.request, unsigned)
            return unsigned
        if response is not None and is_failure(response):
            host = urlsplit(self._url).netloc.rpartition("@")[2]
            return self._unreachable(f"{host} did not answer: {failure_text(response)}")
        return None if response is None else self.with_own_address(response)

    def send(self, connections: Connections) -> IncomingResponse:
        """Send it with the real key, and give the response that begins; raises one of ``Unanswered``."""
        headers = [*self._headers, *self._signature.items()]
        self.sent = Exchange(self._address.scope, self.request, self._method)
        incoming = connections.send(
            self._method, self._url, headers, self._body, is_awaited=lambda: not self._address.closed
        )
        self._address.note_response(connections)
        cleaned = [(name, self.clean(value.encode("latin-1", "replace"))) for name, value in incoming.headers]
        incoming.headers = [(name, value.decode("latin-1")) for name, value in cleaned]
        self.sent.begin(incoming.status, incoming.reason, incoming.headers)
        return incoming

    def record(self, raw: bytes) -> Response:
        """Record the response, which is whole, and give it as the program gets it."""
        try:
            return self.with_own_address(self.sent.end(raw))
        except BaseException as broken:
            self._address.note_broken(broken)
            return refusal(400, "trial_broken", BROKEN, self.request)

    def clean(self, data: bytes) -> bytes:
        """Give a body without the key that was sent: a provider may repeat it."""
        for key in self._keys:
            data = data.replace(key, MARK.encode())
        return data

    def clean_parts(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Give the parts of a body without the key; what may be its beginning waits for the next part."""
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
        # A local server may take any word for a key, such as ``none``, and that word is one of replies too.
        keys = (key.removeprefix(self._upstream.prefix) for key in self._signature.values())
        return [key.encode() for key in keys if worth_hiding(key)]

    def unanswered(self, failed: BaseException) -> Response:
        """Report that the provider did not answer, with a status after which clients try again."""
        host = urlsplit(self._url).netloc.rpartition("@")[2]
        line = f"{host} did not answer: {type(failed).__name__}: {exception_text(failed)}"
        self._address.failures.append(line)
        # The end of the trial cuts its requests: that is no failure of the provider's.
        if self._address.closed:
            self.sent.cut(GIVEN_UP)
        else:
            self.sent.fail(failed)
        return self._unreachable(line)

    def _unreachable(self, line: str) -> Response:
        # Without the headers of a refusal, which tell clients not to try again.
        response = refusal(502, "unreachable", line, self.request)
        return replace(response, headers={"Content-Type": "application/json"})

    def with_own_address(self, response: Response) -> Response:
        """Give a response whose redirects lead back to the trial's own address."""
        headers = dict(response.headers)
        for name, values in response.headers.items():
            if name.lower() == "location":
                headers[name] = list(map(self._own, values))
        return replace(response, headers=headers)

    def _own(self, location: str) -> str:
        if self._upstream.name == PROXIED:
            return location
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
"""The longest body, or part of one, that is read, in bytes: it is held in memory."""
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
        super().setup()
        self._connections = Connections()
        CLIENT_LEFT.set(lambda: self._is_left)  # in this thread's own context

    def finish(self) -> None:
        self._connections.close()
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: the base class would print each request to standard error."""

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
        """Give the response that is to be sent; None where it was handed on as it arrived."""
        try:
            place = urlsplit(self.path)
            # A proxy is requested with whole addresses: this program obeys HTTP_PROXY.
            if place.scheme and place.port != self.server.server_port:
                return self._proxied(place)
            body = self._body()
        # Answered all the same: a client tries again and again where a connection is dropped without a word.
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
        """Replay a request, or send it on.

        A response is recorded before its last part is handed on: the program may end as soon as it has that.
        """
        if (response := exchange.unsent()) is not None:
            return response
        try:
            incoming = exchange.send(self._connections)
            if incoming.sized or self.request_version != self.protocol_version:
                body = incoming.whole()
                # A program that no longer waits got no reply: its client has timed out.
                if self._is_left:
                    exchange.sent.cut(GIVEN_UP)
                    return None
                return exchange.record(exchange.clean(body))
        except Unanswered as failed:
            return exchange.unanswered(failed)
        self._hand_on(exchange, incoming)
        return None

    def _hand_on(self, exchange: LoopbackExchange, incoming: IncomingResponse) -> None:
        """Hand on a response as it arrives, the headers before any of the body, and record it at its end.

        A program that stops reading does not end it: a response that was paid for is recorded.
        """
        head = f"HTTP/1.1 {incoming.status} {incoming.reason}\r\n"
        for name, value in incoming.headers:
            if name.lower() not in HOP_BY_HOP and name.lower() != "content-length":
                head += f"{name}: {value}\r\n"
        self._write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode("latin-1", "replace"))
        whole = bytearray()
        try:
            for chunk in exchange.clean_parts(incoming.chunks()):
                exchange.sent.note_part(chunk)
                whole += chunk
                self._write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        except Unanswered as failed:
            exchange.sent.fail(failed, bytes(whole))
            # The last chunk is missing: by the closed connection the client sees that the body is not whole.
            self.close_connection = True
            return
        exchange.record(bytes(whole))
        self._write(b"0\r\n\r\n")

    def _send(self, response: Response) -> None:
        # In one piece: each of several would wait until the one before was acknowledged.
        self._write(on_the_wire(response, self.command))

    @property
    def _is_left(self) -> bool:
        """Whether the program has closed its connection, as a client does that has timed out."""
        try:
            readable, _, _ = select([self.connection], [], [], 0)
            return bool(readable) and not self.connection.recv(1, MSG_PEEK)
        # ``select`` takes no file descriptor above 1,023.
        except ValueError:
            return False
        except OSError:
            return True

    def _write(self, data: bytes) -> None:
        try:
            self.wfile.write(data)
        # The program has closed its end.
        except OSError:
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

    @property
    def _proxy_token(self) -> str:
        """The credentials of a request that takes us for a proxy: they name its trial."""
        with suppress(ValueError):
            credentials = b64decode(self.headers.get("Proxy-Authorization", "").partition(" ")[2])
            return credentials.decode().rpartition(":")[2]
        return ""

    def _proxied(self, place: SplitResult) -> Response | None:
        """Send on what a trial may send to this machine; refuse any other request to a proxy."""
        address: TrialAddress | None = self.server.addresses.get(self._proxy_token)
        if address is None or not address.scope.reaches(self.path):
            return self._refusal_around(place.netloc)
        base = f"{place.scheme}://{place.netloc}"
        path, body = self.path.removeprefix(base), self._body()
        with address.under_way(self._connections):
            return self._exchange(
                LoopbackExchange(
                    address, Upstream(PROXIED, base), self.command, path, self.headers.items(), body
                )
            )

    def _refusal_around(self, host: str) -> Response:
        """Refuse a request that takes us for a proxy, and count it for the trial named by its credentials."""
        self.close_connection = True
        token = self._proxy_token
        # Some clients send credentials only once a proxy has requested them.
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
    return TrialAddress(
        scope, named, server.addresses, port=server.server_port, ignored=ignored, named_by=named_by
    )


class _Server(ThreadingHTTPServer):
    """The server, and which trial has which path."""

    daemon_threads = True
    block_on_close = False
    # All agents of a run may open connections at once.
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__((HOST, 0), LoopbackRequests)
        self.addresses: dict[str, TrialAddress] = {}
        self.base = f"http://{HOST}:{self.server_port}"
        self.process = os.getpid()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write nothing about a dropped connection; failures that matter are noted with their trial."""

    def end(self) -> None:
        OWN_ADDRESSES.discard(self.base)
        self.shutdown()
        self.server_close()


_servers: list[_Server] = []
_starting = threading.Lock()


def _serving() -> _Server:
    """Give the server of this process, started for the first trial that needs it."""
    # A forked copy of the process has the object and not the serving thread: it gets a server of its own.
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
    with _starting:
        ended, _servers[:] = tuple(_servers), []
    for server in ended:
        if server.process == os.getpid():
            with suppress(OSError):
                await in_daemon_thread(server.end)

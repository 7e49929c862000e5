"""One connection to the server on this machine: HTTP as programs speak it, and who they are."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from select import select
from socket import MSG_PEEK
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pytest_agenteval.cassettes.http.forwarding import HOP_BY_HOP, Connections, IncomingResponse, Unanswered
from pytest_agenteval.cassettes.http.loopback_exchange import Exchange, refusal
from pytest_agenteval.cassettes.http.messages import on_the_wire, recordable_response
from pytest_agenteval.cassettes.http.scope import BROKE_OFF, GIVEN_UP, untaped
from pytest_agenteval.cassettes.interaction import Response

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.http.loopback_address import TrialAddress

LONGEST_LINE = 65536
MOST_BYTES = 1_000_000_000
"""The longest body that is taken, or part of one: it is held in memory."""
NO_ADDRESS = "no trial has this address: it has ended, or the path is not whole"
AROUND = (
    "this goes around the addresses that agenteval gives, and is refused; "
    "`proxy: {VARIABLE: base}` in suite.yaml gives a tool's one"
)
CHALLENGE = {"Proxy-Authenticate": 'Basic realm="agenteval"'}
_OF_BODY = frozenset({"content-length", *HOP_BY_HOP})


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
            return refusal(403, "no_address", NO_ADDRESS)
        query = f"?{place.query}" if place.query else ""
        path = f"/{rest}{query}" if place.path.count("/") > 3 else query
        with address.under_way(self._connections):
            return self._exchange(Exchange(address, upstream, self.command, path, self.headers.items(), body))

    def _exchange(self, exchange: Exchange) -> Response | None:
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

    def _hand_on(self, exchange: Exchange, incoming: IncomingResponse) -> None:
        """Hand on a response as it comes, also its headers: nobody knows how long the first word takes.

        A program that reads no further does not end it: what was paid for is recorded.
        """
        headers = [pair for pair in incoming.headers if pair[0].lower() not in _OF_BODY]
        lines = [
            f"HTTP/1.1 {incoming.status} {incoming.reason}",
            *(f"{name}: {value}" for name, value in headers),
        ]
        self._write(f"{_lines(lines)}Transfer-Encoding: chunked\r\n\r\n".encode("latin-1", "replace"))
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
        token = _password(self.headers.get("Proxy-Authorization", ""))
        if not token:
            return replace(refusal(407, "no_trial", AROUND), headers=CHALLENGE)
        address: TrialAddress | None = self.server.addresses.get(token)
        if address is not None:
            address.note_around(host.rpartition("@")[2])
        return refusal(403, "around_the_tapes", AROUND)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\r\n" for line in lines)


def _password(authorization: str) -> str:
    try:
        return b64decode(authorization.partition(" ")[2]).decode().rpartition(":")[2]
    except ValueError:
        return ""

"""http.client, and what stands on it: urllib.request, urllib3 and requests.

The requests of these arrive at http.client only where they are sent: they are replayed above it. A response
is recorded here, whichever library has sent the request.
"""

from __future__ import annotations

import http.client
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from http.client import HTTPException
from typing import IO, Any
from urllib.error import URLError

from pytest_agenteval.cassettes.http.exchange import Exchange, exception_class, is_system_exception, replay
from pytest_agenteval.cassettes.http.messages import OF_BODY, on_the_wire, recordable_request, whole_body
from pytest_agenteval.cassettes.http.scope import answering, is_own_address
from pytest_agenteval.cassettes.interaction import Request, Response

_PORTS = {"http": 80, "https": 443}


class FileSocket:
    """Stands for the socket of a connection: a response reads what the file holds."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def makefile(self, mode: str) -> IO[bytes]:
        return self._file


def as_received(response: Response, method: str) -> http.client.HTTPResponse:
    """Give a response of the standard library whose headers are read, and whose body is not."""
    received = http.client.HTTPResponse(FileSocket(io.BytesIO(on_the_wire(response, method))), method=method)  # type: ignore[arg-type]  # makefile is all it needs
    received.begin()
    return received


class _TeeFile:
    """Stands before the file from which a response reads: what is read goes to the exchange too, at its end.

    It holds what travelled, framing included; at the end that is read once more, to see whether it is whole.
    """

    def __init__(self, response: http.client.HTTPResponse, exchange: Exchange) -> None:
        self._file, self._exchange = response.fp, exchange
        # The real head has been read already. This one says only how the body ends.
        if response.chunked:
            self._head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        elif response.length is None:
            self._head = b"HTTP/1.1 " + _UNTIL_CLOSED
        else:
            self._head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % response.length
        self._raw = io.BytesIO()
        self._at_end = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, *size: int) -> bytes:
        expected = size[0] if size and size[0] is not None else -1
        return self._tee(lambda: self._file.read(*size), ends=expected != 0, expected=expected)

    def read1(self, *size: int) -> bytes:
        return self._tee(lambda: self._file.read1(*size), ends=not size or size[0] != 0)

    def readline(self, *size: int) -> bytes:
        return self._tee(lambda: self._file.readline(*size))

    def readinto(self, buffer: Any) -> int:
        count = 0

        def read() -> bytes:
            nonlocal count
            count = self._file.readinto(buffer)
            return bytes(memoryview(buffer)[:count])

        self._tee(read, ends=len(buffer) > 0, expected=len(buffer))
        return count

    def _tee(self, read: Callable[[], bytes], ends: bool = True, expected: int = 1) -> bytes:
        """Read a part; at the end there are fewer bytes than ``expected``."""
        # Raises if the trial has ended.
        answering()
        with self._exchange.reading():
            part = read()
        self._exchange.note_part(part)
        self._raw.write(part)
        self._at_end = self._at_end or (ends and len(part) < max(expected, 1))
        return part

    def close(self) -> None:
        """Record the body if it is whole, then close the file."""
        try:
            if self._exchange.over:
                return
            # A client may close a response of which it needs the status alone: then the rest is read here.
            reading_on = self._exchange.worth_reading_on
            body, whole = _body_of(self._head, self._raw.getvalue(), self._file if reading_on else None)
            if not whole and self._at_end:
                self._exchange.fail(http.client.IncompleteRead(body), body)
            elif not whole or (self._head.endswith(_UNTIL_CLOSED) and not (self._at_end or reading_on)):
                self._exchange.cut(body=body)
            else:
                self._exchange.end(body)
        finally:
            self._file.close()


_UNTIL_CLOSED = b"200 OK\r\n\r\n"


def _body_of(head: bytes, raw: bytes, rest: Any) -> tuple[bytes, bool]:
    """Give the body that was read, followed by what ``rest`` still has of it; and whether it is whole."""
    first = io.BytesIO(head + raw)
    joined = io.BufferedReader(_JoinedFiles(first, rest)) if rest else first
    received = http.client.HTTPResponse(FileSocket(joined))  # type: ignore[arg-type]  # makefile is all it needs
    try:
        received.begin()
        return received.read(), True
    except http.client.IncompleteRead as incomplete:
        # The chunk that was cut, after those that are whole. Not ``__context__``: this may run while the
        # agent's own exception is handled, which holds the same bytes.
        inner = incomplete.__cause__
        return incomplete.partial + getattr(inner, "partial", b""), False
    except (HTTPException, OSError, ValueError):
        return b"", False


class _JoinedFiles(io.RawIOBase):
    def __init__(self, *files: Any) -> None:
        self._files = list(files)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._files:
            part = self._files[0].read1(len(buffer))
            if part:
                buffer[: len(part)] = part
                return len(part)
            self._files.pop(0)
        return 0


_sent: ContextVar[Exchange | None] = ContextVar("pytest_agenteval_http_sent", default=None)
"""What urllib or urllib3 has just sent, whose response http.client is about to give."""

_PLAYED, _SENT = "_agenteval_played", "_agenteval_sent"


@contextmanager
def sending(exchange: Exchange) -> Iterator[None]:
    """Mark a request of a library above http.client: the next response of http.client is its exchange's."""
    token = _sent.set(exchange)
    try:
        with exchange.reading():
            yield
    finally:
        _sent.reset(token)


def urllib_patch_points(module: Any) -> Iterator[tuple[type, str, Any]]:
    yield module.AbstractHTTPHandler, "do_open", _patch_do_open


def _patch_do_open(real: Any) -> Any:
    def do_open(handler: Any, connection: Any, request: Any, **settings: Any) -> Any:
        scope = answering()
        if scope is None:
            return real(handler, connection, request, **settings)
        method, address = request.get_method(), request.full_url
        if request.data is not None:
            request.data = whole_body(request.data)
        question = recordable_request(method, address, request.header_items(), request.data)
        if scope.lets_by(question):
            return real(handler, connection, request, **settings)
        question, changed = scope.with_prompts(question)
        if changed is not None:
            for name in [name for name, _ in request.header_items() if name.lower() in OF_BODY]:
                request.remove_header(name)
            request.data = changed
            request.add_unredirected_header("Content-length", str(len(changed)))
        answer = replay(scope, question, _url_error)
        if answer is None:
            with sending(Exchange(scope, question, method)):
                return real(handler, connection, request, **settings)
        received = as_received(answer, method)
        # ``do_open`` sets both: callers read ``url``, and older ones ``msg``.
        received.url, received.msg = request.get_full_url(), received.reason  # type: ignore[assignment]
        return received

    return do_open


_WHILE_READING = (TimeoutError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError, HTTPException)


def _url_error(name: str, text: str, cause: Exception) -> Exception:
    # While it reads, urllib lets the system's own exceptions through; while it connects, it wraps them.
    return cause if is_system_exception(name) and isinstance(cause, _WHILE_READING) else URLError(cause)


def _system_error(name: str, text: str, cause: Exception) -> Exception:
    return cause


def client_patch_points(client: Any) -> Iterator[tuple[type, str, Any]]:
    # ``putrequest`` too: code that writes its request bit by bit never calls ``request``.
    yield client.HTTPConnection, "putrequest", _patch_putrequest
    yield client.HTTPConnection, "request", _patch_request
    yield client.HTTPConnection, "getresponse", _patch_getresponse


def _patch_putrequest(real: Any) -> Any:
    def putrequest(connection: Any, *args: Any, **kwargs: Any) -> Any:
        scope = answering()
        address = f"{connection.host}:{connection.port}"
        place = f"http://{whole_host(connection.host)}:{connection.port}/"
        if scope is not None and not (scope.live or is_own_address(place) or scope.reaches(place)):
            raise scope.refusal(Request("CONNECT", f"socket://{address}"))
        return real(connection, *args, **kwargs)

    return putrequest


def _patch_request(real: Any) -> Any:
    """Replay or send requests that are made with http.client itself, not by a library above it."""

    def request(
        connection: Any, method: str, url: str, body: Any = None, headers: Any = None, **settings: Any
    ) -> Any:
        scope, listed = answering(), dict(headers or {})
        vars(connection).pop(_PLAYED, None)
        if scope is None or _sent.get() is not None:
            return real(connection, method, url, body, listed, **settings)
        # A text is left as it is: http.client sends it as Latin-1, and not as UTF-8.
        body = body if isinstance(body, str) else whole_body(body)
        scheme = "https" if isinstance(connection, http.client.HTTPSConnection) else "http"
        host, port = connection.host, connection.port
        # Through a tunnel, the connection's own host is the proxy.
        if getattr(connection, "_tunnel_host", None):
            host, port = connection._tunnel_host, connection._tunnel_port
        question = recordable_request(
            method, whole_address(scheme, host, port, url), listed.items(), whole_body(body)
        )
        if scope.lets_by(question):
            return real(connection, method, url, body, listed, **settings)
        question, changed = scope.with_prompts(question)
        if changed is not None:
            body, listed = changed, {name: it for name, it in listed.items() if name.lower() not in OF_BODY}
            settings.pop("encode_chunked", None)
        answer = replay(scope, question, _system_error)
        if answer is not None:
            vars(connection)[_PLAYED] = as_received(answer, method)
            return None
        exchange = vars(connection)[_SENT] = Exchange(scope, question, method)
        with exchange.reading():
            return real(connection, method, url, body, listed, **settings)

    return request


def _patch_getresponse(real: Any) -> Any:
    def getresponse(connection: Any) -> Any:
        played = vars(connection).pop(_PLAYED, None)
        if played is not None:
            return played
        above = _sent.get()
        exchange = above or vars(connection).pop(_SENT, None)
        if exchange is None:
            return real(connection)
        # A library above raises an exception of its own where this fails, and that one is recorded.
        with exchange.sending() if above else exchange.reading():
            response = real(connection)
        exchange.begin(response.status, response.reason or "", response.getheaders())
        if response.fp is None:
            exchange.end()
        else:
            response.fp = _TeeFile(response, exchange)
        return response

    return getresponse


def whole_address(scheme: str, host: str, port: int | None, url: str) -> str:
    """Give the whole address; a URL that is sent to a proxy is whole already."""
    if "://" in url.partition("?")[0]:
        return url
    host = whole_host(host)
    return f"{scheme}://{host}{'' if port in (None, _PORTS.get(scheme)) else f':{port}'}{url}"


def whole_host(host: str) -> str:
    """Give a host as it stands in an address: one of IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


_UNPREPARED = "_agenteval_unprepared"


def urllib3_patch_points(urllib3: Any) -> Iterator[tuple[type, str, Any]]:
    pools = urllib3.connectionpool
    yield pools.HTTPConnectionPool, "_make_request", partial(_patch_make_request, urllib3)
    yield pools.HTTPSConnectionPool, "_prepare_proxy", _patch_prepare_proxy


def _patch_prepare_proxy(real: Any) -> Any:
    """Put off the tunnel through a proxy, which is a connection, until something is really sent."""

    def _prepare_proxy(pool: Any, connection: Any) -> None:
        if answering() is None:
            real(pool, connection)
        else:
            setattr(connection, _UNPREPARED, real)

    return _prepare_proxy


def _prepare_proxy_now(pool: Any, connection: Any) -> None:
    real = getattr(connection, _UNPREPARED, None)
    if real is not None:
        setattr(connection, _UNPREPARED, None)
        real(pool, connection)


def _patch_make_request(urllib3: Any, real: Any) -> Any:
    def _make_request(pool: Any, connection: Any, method: str, url: str, *args: Any, **rest: Any) -> Any:
        scope = answering()
        if scope is None:
            return real(pool, connection, method, url, *args, **rest)
        rest["body"] = whole_body(rest.get("body"))
        address = whole_address(pool.scheme, pool.host, pool.port, url)
        question = recordable_request(method, address, (rest.get("headers") or {}).items(), rest["body"])
        if scope.lets_by(question):
            _prepare_proxy_now(pool, connection)
            return real(pool, connection, method, url, *args, **rest)
        question, changed = scope.with_prompts(question)
        if changed is not None:
            rest["body"], rest["chunked"] = changed, False
            given = (rest.get("headers") or {}).items()
            rest["headers"] = {name: it for name, it in given if name.lower() not in OF_BODY}
            rest["headers"]["Content-Length"] = str(len(changed))
        answer = replay(scope, question, partial(_urllib3_error, urllib3, pool, connection, url))
        if answer is None:
            with sending(Exchange(scope, question, method)):
                _prepare_proxy_now(pool, connection)
                return real(pool, connection, method, url, *args, **rest)
        # In urllib3 1, the pool makes its own response from http.client's.
        if urllib3.__version__.startswith("1."):
            return as_received(answer, method)
        received = as_received(answer, method)
        return urllib3.HTTPResponse(
            body=received,
            headers=urllib3.HTTPHeaderDict(received.getheaders()),
            status=received.status,
            version=received.version,
            version_string="HTTP/1.1",
            reason=received.reason,
            preload_content=rest.get("preload_content", True),
            decode_content=rest.get("decode_content", True),
            original_response=received,
            pool=pool,
            connection=rest.get("response_conn"),
            retries=rest.get("retries"),
            enforce_content_length=rest.get("enforce_content_length", True),
            request_method=method,
            request_url=url,
        )

    return _make_request


def _urllib3_error(
    urllib3: Any, pool: Any, connection: Any, url: str, name: str, text: str, cause: Exception
) -> Exception:
    known = urllib3.exceptions
    # The pool wraps the system's exceptions itself, as it does for a request that is sent.
    if is_system_exception(name) and not isinstance(cause, TimeoutError):
        return cause
    other = known.ReadTimeoutError if isinstance(cause, TimeoutError) else known.NewConnectionError
    kind = exception_class(known, name, known.HTTPError) if name.startswith("urllib3.") else other
    args: tuple[Any, ...] = (text,)
    if kind.__name__ == "NameResolutionError":
        args = pool.host, connection, cause
    elif issubclass(kind, known.NewConnectionError | known.ConnectTimeoutError):
        args = connection, text
    elif issubclass(kind, known.ReadTimeoutError):
        args = pool, url, text
    elif issubclass(kind, known.ProxyError):
        args = text, cause
    failed: Exception = kind(*args)
    return failed

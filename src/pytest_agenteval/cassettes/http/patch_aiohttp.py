"""aiohttp: its connectors give a connection on which the recorded response has already arrived.

All above is aiohttp's own: redirects, cookies, middlewares, decoding, streaming.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

from pytest_agenteval.cassettes.http.exchange import Exchange, exception_class, replay_waiting
from pytest_agenteval.cassettes.http.messages import (
    OF_BODY,
    chunk_on_the_wire,
    comes_in_parts,
    head_on_the_wire,
    parts_on_the_wire,
    recordable_request,
    sent_response,
)
from pytest_agenteval.cassettes.http.scope import answering, copy_of_loop, current, drop_copy, trial_loop
from pytest_agenteval.cassettes.interaction import Response


class _PlayedTransport(asyncio.Transport):
    """Stands for the socket, and drops what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = False
        self.flowing = asyncio.Event()
        self.flowing.set()

    def write(self, data: Any) -> None: ...

    def writelines(self, list_of_data: Any) -> None: ...

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close

    def pause_reading(self) -> None:
        self.flowing.clear()

    def resume_reading(self) -> None:
        self.flowing.set()


class _BodyCollector:
    """Collects the parts that a body writes, in place of aiohttp's own writer."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    async def write(self, chunk: Any) -> None:
        self.parts.append(bytes(chunk))

    async def write_eof(self, chunk: Any = b"") -> None:
        self.parts.append(bytes(chunk))

    async def drain(self) -> None: ...


def patch_points(aiohttp: Any) -> Iterator[tuple[type, str, Any]]:
    yield aiohttp.BaseConnector, "connect", _patch_connect(aiohttp)
    # A session's pool belongs to one loop, and trials may run on loops of their own.
    yield aiohttp.ClientSession, "_request", _patch_request(aiohttp)
    yield aiohttp.ClientSession, "close", _patch_close


def _patch_connect(aiohttp: Any) -> Any:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection

    class Played(Connection):
        """A connection that no pool ever gets; with a ``stream``, which ends with it."""

        stream: asyncio.Task[None] | None = None

        def close(self) -> None:
            if self.stream is not None:
                self.stream.cancel()
            self._notify_release()
            self._protocol = None

        release = close

        def __del__(self, _warnings: Any = None) -> None:
            """Do nothing: aiohttp's own reports a connection that was not closed, and there is no socket."""

    def connection(connector: Any, request: Any) -> tuple[Any, Any, _PlayedTransport]:
        loop, transport = asyncio.get_running_loop(), _PlayedTransport()
        protocol = ResponseHandler(loop)
        protocol.connection_made(transport)
        return Played(connector, request.connection_key, protocol, loop), protocol, transport

    def played_connection(connector: Any, request: Any, answer: Response) -> Any:
        played, protocol, _ = connection(connector, request)
        first, *rest = parts_on_the_wire(answer, request.method)
        protocol.data_received(first)
        if rest:
            played.stream = asyncio.ensure_future(_play(rest, protocol))
        return played

    def streamed_connection(connector: Any, request: Any, given: Any, exchange: Exchange) -> Any:
        streamed, protocol, transport = connection(connector, request)
        framing = ("content-length", "transfer-encoding", "connection", "keep-alive")
        headers = [(name, value) for name, value in given.headers.items() if name.lower() not in framing]
        headers.append(("Transfer-Encoding", "chunked"))
        protocol.data_received(head_on_the_wire(given.status, given.reason or "", headers))
        streamed.stream = asyncio.ensure_future(_pass_on(given, exchange, protocol, transport))
        return streamed

    def patched(real: Any) -> Any:
        async def connect(connector: Any, req: Any, traces: Any, timeout: Any) -> Any:
            scope = answering()
            if scope is None:
                return await real(connector, req, traces, timeout)
            body = await _read_body(aiohttp, req)
            question = recordable_request(req.method, str(req.url), req.headers.items(), body)
            if scope.lets_by(question):
                return await real(connector, req, traces, timeout)
            question, changed = scope.with_prompts(question)
            if changed is not None:
                for name in OF_BODY:
                    req.headers.pop(name, None)
                req.headers["Content-Length"] = str(len(changed))
                req._body, req.chunked = aiohttp.BytesPayload(changed), None
            # A WebSocket is no request with one response, and cannot be recorded.
            if "Upgrade" in req.headers:
                raise scope.refusal(question)
            answer = await replay_waiting(scope, question, partial(_failure, aiohttp, req))
            if answer is not None:
                return played_connection(connector, req, answer)
            exchange = Exchange(scope, question, req.method)
            timer = getattr(req, "_timer", None)
            # aiohttp's own timeout arrives as a cancellation, and only its timer shows which of both it is.
            exchange.timed_out = lambda: bool(getattr(timer, "_cancelled", False))
            with exchange.reading():
                # ``connect`` is to give a connection and no response: the request is sent here already, as
                # aiohttp would send it afterwards, but with its body left encoded as it travels.
                opened = await real(connector, req, traces, timeout)
                try:
                    opened.protocol.set_response_params(
                        timer=timer,
                        skip_payload=req.method == "HEAD",
                        read_until_eof=True,
                        auto_decompress=False,
                        read_timeout=timeout.sock_read,
                    )
                    given = await req.send(opened)
                    await given.start(opened)
                except BaseException:
                    opened.close()
                    raise
                exchange.begin(given.status, given.reason or "", given.headers.items())
                may_have_body = given.method != "HEAD" and given.status not in (204, 304)
                if may_have_body and comes_in_parts(given.headers.items()):
                    return streamed_connection(connector, req, given, exchange)
                answer = sent_response(exchange.end(await given.read()), question)
            return played_connection(connector, req, answer)

        return connect

    return patched


def _failure(aiohttp: Any, request: Any, name: str, text: str, cause: Exception) -> Exception:
    kind = exception_class(aiohttp, name, aiohttp.ClientError) if name.startswith("aiohttp.") else None
    if kind is None and isinstance(cause, TimeoutError):
        return TimeoutError(text) if name == "TimeoutError" else aiohttp.ServerTimeoutError(text)
    kind = kind or aiohttp.ClientConnectorError
    if issubclass(kind, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError):
        args: tuple[Any, ...] = (request.connection_key, cause)
    else:
        args = cause.args if issubclass(kind, aiohttp.ClientOSError) else (text,)
    failed: Exception = kind(*args)
    return failed


async def _play(parts: list[bytes], protocol: Any) -> None:
    """Give the reader each part before the next one arrives."""
    for part in parts:
        await asyncio.sleep(0)
        protocol.data_received(part)


async def _pass_on(given: Any, exchange: Exchange, protocol: Any, transport: _PlayedTransport) -> None:
    """Hand on each part of a response as it arrives, until its end or until the reader is gone."""
    try:
        while True:
            with exchange.reading():
                part = await given.content.readany()
            if not part:
                break
            exchange.take(part)
            protocol.data_received(chunk_on_the_wire(part))
            # aiohttp pauses the transport while its reader is slow: a stream is not read ahead into memory.
            await transport.flowing.wait()
        exchange.end()
        protocol.data_received(chunk_on_the_wire(b""))
    except BaseException as raised:
        exchange.cut()
        given.close()
        # The reader gets the exception, even one that is no Exception: aiohttp raises it there as it is.
        protocol.set_exception(raised)
        if protocol._payload is not None:
            protocol._payload.set_exception(raised)
        if not isinstance(raised, Exception):
            raise


def _patch_request(aiohttp: Any) -> Any:
    """Let a session send its requests on each loop through a copy of itself, as its pool belongs to one."""

    can_be_copied = (aiohttp.TCPConnector, aiohttp.UnixConnector)

    def patched(real: Any) -> Any:
        async def _request(session: Any, *args: Any, **kwargs: Any) -> Any:
            loop = None if current() is None else trial_loop()
            if loop is None or session.closed or type(session.connector) not in can_be_copied:
                return await real(session, *args, **kwargs)
            copied = await copy_of_loop(loop, session, partial(_copied_session, aiohttp), _close_session)
            return await real(copied, *args, **kwargs)

        return _request

    return patched


def _patch_close(real: Any) -> Any:
    async def close(session: Any) -> None:
        copied = drop_copy(session)
        if copied is not None:
            await _close_session(copied)
        await real(session)

    return close


_SETTINGS = (
    "_limit", "_limit_per_host", "_keepalive_timeout", "_force_close", "_ssl", "_family",
    "_local_addr_infos", "_happy_eyeballs_delay", "_interleave", "_socket_factory",
    "_ssl_shutdown_timeout", "_use_dns_cache",
)  # fmt: skip
"""Attributes of a connector that belong to no loop, and are copied."""


def _copied_session(aiohttp: Any, session: Any) -> Any:
    connector = session.connector
    if type(connector) is aiohttp.UnixConnector:
        own = aiohttp.UnixConnector(connector.path)
    else:
        own = aiohttp.TCPConnector(resolver=None if connector._resolver_owner else connector._resolver)
    vars(own).update({name: vars(connector)[name] for name in _SETTINGS if name in vars(connector)})
    copied = copy.copy(session)
    vars(copied).update(_loop=own._loop, _connector=own, _connector_owner=True)
    return copied


async def _close_session(session: Any) -> None:
    await session.connector.close()


async def _read_body(aiohttp: Any, request: Any) -> bytes:
    """Give the body, and put one in its place that can be sent: a stream was read to its end here."""
    if not request.body:
        return b""
    if isinstance(request.body, bytes):
        return request.body
    collector = _BodyCollector()
    await request.body.write(collector)
    raw = b"".join(collector.parts)
    request._body = aiohttp.BytesPayload(raw, headers=request.body.headers)
    return raw

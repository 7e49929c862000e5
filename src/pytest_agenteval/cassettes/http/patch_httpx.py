"""httpx: its two transports, below redirects and retries and above connections and proxies."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from pytest_agenteval.cassettes.http.exchange import (
    BuildException,
    Exchange,
    exception_class,
    replay,
    replay_waiting,
)
from pytest_agenteval.cassettes.http.messages import (
    OF_BODY,
    playable_response,
    recordable_request,
    split_events,
)
from pytest_agenteval.cassettes.http.scope import (
    Scope,
    answering,
    copy_of_loop,
    current,
    drop_copy,
    trial_loop,
)
from pytest_agenteval.cassettes.interaction import Request, Response


def patch_points(httpx: Any) -> Iterator[tuple[type, str, Any]]:
    streams = _streams(httpx)

    def read(scope: Scope, request: Any, body: bytes) -> Request | None:
        """Give the request as it is recorded; None sends it unseen."""
        # The stream of the request was read to its end, and could not be sent again.
        request.stream = httpx.ByteStream(body)
        headers = request.headers.multi_items()
        question = recordable_request(request.method, str(request.url), headers, body)
        if scope.lets_by(question):
            return None
        question, changed = scope.with_prompts(question)
        if changed is not None:
            request.stream = httpx.ByteStream(changed)
            for name in OF_BODY:
                request.headers.pop(name, None)
            request.headers["Content-Length"] = str(len(changed))
        return question

    def blocking(real: Any) -> Any:
        def handle_request(transport: Any, request: Any) -> Any:
            scope = answering()
            question = None if scope is None else read(scope, request, b"".join(request.stream))
            if scope is None or question is None:
                return real(transport, request)
            answer = replay(scope, question, _failure_of(httpx, request))
            if answer is not None:
                return _response(httpx, streams, answer, request)
            exchange = Exchange(scope, question, request.method)
            with exchange.reading():
                given = real(transport, request)
            return _with_tee(streams.blocking, exchange, given)

        return handle_request

    def waiting(real: Any) -> Any:
        async def handle_async_request(transport: Any, request: Any) -> Any:
            scope, question = answering(), None
            if scope is not None:
                question = read(scope, request, b"".join([part async for part in request.stream]))
            if scope is None or question is None:
                return await real(await _of_this_loop(transport), request)
            answer = await replay_waiting(scope, question, _failure_of(httpx, request))
            if answer is not None:
                return _response(httpx, streams, answer, request)
            exchange = Exchange(scope, question, request.method)
            with exchange.reading():
                given = await real(await _of_this_loop(transport), request)
            return _with_tee(streams.waiting, exchange, given)

        return handle_async_request

    yield httpx.HTTPTransport, "handle_request", blocking
    yield httpx.AsyncHTTPTransport, "handle_async_request", waiting
    # ``__aexit__`` closes the pool itself, and does not call ``aclose``.
    yield httpx.AsyncHTTPTransport, "aclose", _patch_aclose
    yield httpx.AsyncHTTPTransport, "__aexit__", _patch_aclose


def _failure_of(httpx: Any, request: Any) -> BuildException:
    def build(name: str, text: str, cause: Exception) -> Exception:
        other = httpx.ReadTimeout if isinstance(cause, TimeoutError) else httpx.ConnectError
        kind = exception_class(httpx, name, httpx.TransportError) or other
        failed: Exception = kind(text, request=request)
        return failed

    return build


def _with_tee(kind: Any, exchange: Exchange, given: Any) -> Any:
    """Give the response with a body that the exchange records while it is read."""
    exchange.begin(given.status_code, given.reason_phrase, given.headers.multi_items())
    given.stream = kind(exchange, given.stream)
    return given


class _Streams(NamedTuple):
    """Classes of bodies as httpx wants them: recorded ones in parts, and live ones that are recorded."""

    played: Any
    blocking: Any
    waiting: Any


def _streams(httpx: Any) -> _Streams:
    class Played(httpx.SyncByteStream, httpx.AsyncByteStream):  # type: ignore[misc]  # of whichever httpx it is
        def __init__(self, parts: list[bytes]) -> None:
            self._parts = parts

        def __iter__(self) -> Iterator[bytes]:
            yield from self._parts

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for part in self._parts:
                yield part

    class Blocking(httpx.SyncByteStream):  # type: ignore[misc]
        def __init__(self, exchange: Exchange, stream: Any) -> None:
            self._exchange, self._stream = exchange, stream
            self._parts = iter(stream)

        def __iter__(self) -> Iterator[bytes]:
            while not self._exchange.over:
                with self._exchange.reading():
                    part = next(self._parts, None)
                if part is None:
                    self._exchange.end()
                else:
                    self._exchange.take(part)
                    yield part

        def close(self) -> None:
            try:
                if self._exchange.worth_reading_on:
                    for _ in self:
                        pass
            finally:
                self._exchange.cut()
                with self._exchange.sending():
                    self._stream.close()

    class Waiting(httpx.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, exchange: Exchange, stream: Any) -> None:
            self._exchange, self._stream = exchange, stream
            self._parts = aiter(stream)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while not self._exchange.over:
                with self._exchange.reading():
                    part = await anext(self._parts, None)
                if part is None:
                    self._exchange.end()
                else:
                    self._exchange.take(part)
                    yield part

        async def aclose(self) -> None:
            try:
                if self._exchange.worth_reading_on:
                    async for _ in self:
                        pass
            finally:
                self._exchange.cut()
                with self._exchange.sending():
                    await self._stream.aclose()

    return _Streams(Played, Blocking, Waiting)


def _response(httpx: Any, streams: _Streams, answer: Response, request: Any) -> Any:
    headers, raw = playable_response(answer, request.method)
    extensions: dict[str, Any] = {"http_version": b"HTTP/1.1"}
    if answer.message:
        extensions["reason_phrase"] = answer.message.encode("ascii", "ignore")
    pairs = [(name.encode("utf-8"), value.encode("utf-8", "surrogateescape")) for name, value in headers]
    parts = split_events(headers, raw)
    stream = streams.played(parts) if len(parts) > 1 else httpx.ByteStream(raw)
    return httpx.Response(answer.status, headers=pairs, stream=stream, extensions=extensions)


async def _of_this_loop(transport: Any) -> Any:
    """Give the transport with connections of this loop alone, whichever other loops use it."""
    # A pool of another kind than httpcore's is left alone: nobody knows what a copy of it would share.
    loop = None if current() is None else trial_loop()
    if loop is None or not getattr(getattr(transport, "_pool", None), "__dict__", {}).keys() >= _POOLS:
        return transport
    return await copy_of_loop(loop, transport, _with_empty_pool, _close)


_POOLS = {"_connections", "_requests", "_optional_thread_lock"}
"""The attributes of a pool of httpcore, also of one to a proxy, that are no settings."""


def _with_empty_pool(transport: Any) -> Any:
    copied = copy.copy(transport)
    pool = copied._pool = copy.copy(transport._pool)
    pool._connections, pool._requests = [], []
    pool._optional_thread_lock = type(pool._optional_thread_lock)()
    return copied


async def _close(transport: Any) -> None:
    await transport._pool.aclose()


def _patch_aclose(real: Callable[..., Awaitable[Any]]) -> Any:
    """Close, together with a transport, the copy of it that this loop uses."""

    async def aclose(transport: Any, *args: Any) -> Any:
        copied = drop_copy(transport)
        if copied is not None:
            await _close(copied)
        return await real(transport, *args)

    return aclose

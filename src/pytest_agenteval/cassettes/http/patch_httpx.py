"""httpx: its two transports, below redirects and retries and above connections and proxies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_agenteval.cassettes.http.messages import (
    playable_response,
    recordable_request,
    recordable_response,
)
from pytest_agenteval.cassettes.http.scope import Scope, answering
from pytest_agenteval.cassettes.interaction import Response


def patch_points(httpx: Any) -> Iterator[tuple[type, str, Any]]:
    """Say what is patched."""

    def blocking(real: Any) -> Any:
        def handle_request(transport: Any, request: Any) -> Any:
            scope = answering()
            if scope is None:
                return real(transport, request)
            exchange = _Exchange(httpx, scope, request, b"".join(request.stream))
            if exchange.passes:
                return real(transport, request)
            if exchange.answer is None:
                with scope.sending():
                    given = real(transport, request)
                    try:
                        exchange.record(given, b"".join(given.stream))
                    finally:
                        # It is read to its end, and what is handed out is made anew: the connection goes back
                        # into its pool.
                        given.stream.close()
            return exchange.response()

        return handle_request

    def waiting(real: Any) -> Any:
        async def handle_async_request(transport: Any, request: Any) -> Any:
            scope = answering()
            if scope is None:
                return await real(transport, request)
            exchange = _Exchange(httpx, scope, request, b"".join([part async for part in request.stream]))
            if exchange.passes:
                return await real(transport, request)
            if exchange.answer is None:
                with scope.sending():
                    given = await real(transport, request)
                    try:
                        exchange.record(given, b"".join([part async for part in given.stream]))
                    finally:
                        await given.stream.aclose()
            return exchange.response()

        return handle_async_request

    yield httpx.HTTPTransport, "handle_request", blocking
    yield httpx.AsyncHTTPTransport, "handle_async_request", waiting


class _Exchange:
    """One request and its answer: recorded, or still to be got by whoever can wait for it."""

    def __init__(self, httpx: Any, scope: Scope, request: Any, body: bytes) -> None:
        self._httpx, self._scope, self._request = httpx, scope, request
        request.stream = httpx.ByteStream(body)  # the one that was read to its end cannot be sent
        self._question = recordable_request(
            request.method, str(request.url), request.headers.multi_items(), body
        )
        self.passes = scope.lets_by(self._question)
        self.answer = None if self.passes else scope.play(self._question)

    def record(self, given: Any, raw: bytes) -> None:
        """Keep what was really given, with its body as it travelled."""
        headers = given.headers.multi_items()
        self.answer = recordable_response(
            self._request.method, given.status_code, given.reason_phrase, headers, raw
        )
        self._scope.record(self._question, self.answer)

    def response(self) -> Any:
        """Give the answer as httpx does."""
        assert self.answer is not None
        return _response(self._httpx, self.answer, self._request)


def _response(httpx: Any, answer: Response, request: Any) -> Any:
    headers, raw = playable_response(answer, request.method)
    extensions: dict[str, Any] = {"http_version": b"HTTP/1.1"}
    if answer.message:
        extensions["reason_phrase"] = answer.message.encode("ascii", "ignore")
    pairs = [(name.encode("utf-8"), value.encode("utf-8", "surrogateescape")) for name, value in headers]
    return httpx.Response(answer.status, headers=pairs, stream=httpx.ByteStream(raw), extensions=extensions)

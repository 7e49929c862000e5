"""httpx: its two transports, below redirects and retries and above connections and proxies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_agenteval.cassettes.http.messages import answered, asked, played
from pytest_agenteval.cassettes.http.scope import answering
from pytest_agenteval.cassettes.interaction import Request, Response


def patch_points(httpx: Any) -> Iterator[tuple[type, str, Any]]:
    """Say what is patched."""

    def blocking(real: Any) -> Any:
        def handle_request(transport: Any, request: Any) -> Any:
            scope = answering()
            if scope is None:
                return real(transport, request)
            body = b"".join(request.stream)
            request.stream = httpx.ByteStream(body)
            question = _asked(request, body)
            answer = scope.play(question)
            if answer is None:
                given = real(transport, request)
                try:
                    answer = _answered(request, given, b"".join(given.stream))
                finally:
                    given.stream.close()
                scope.record(question, answer)
            return _response(httpx, answer, request)

        return handle_request

    def waiting(real: Any) -> Any:
        async def handle_async_request(transport: Any, request: Any) -> Any:
            scope = answering()
            if scope is None:
                return await real(transport, request)
            body = b"".join([part async for part in request.stream])
            request.stream = httpx.ByteStream(body)
            question = _asked(request, body)
            answer = scope.play(question)
            if answer is None:
                given = await real(transport, request)
                try:
                    answer = _answered(request, given, b"".join([part async for part in given.stream]))
                finally:
                    await given.stream.aclose()
                scope.record(question, answer)
            return _response(httpx, answer, request)

        return handle_async_request

    yield httpx.HTTPTransport, "handle_request", blocking
    yield httpx.AsyncHTTPTransport, "handle_async_request", waiting


def _asked(request: Any, body: bytes) -> Request:
    return asked(request.method, str(request.url), request.headers.multi_items(), body)


def _answered(request: Any, given: Any, raw: bytes) -> Response:
    return answered(request.method, given.status_code, given.reason_phrase, given.headers.multi_items(), raw)


def _response(httpx: Any, answer: Response, request: Any) -> Any:
    headers, raw = played(answer, request.method)
    extensions: dict[str, Any] = {"http_version": b"HTTP/1.1"}
    if answer.message:
        extensions["reason_phrase"] = answer.message.encode("ascii", "ignore")
    pairs = [(name.encode("utf-8"), value.encode("utf-8", "surrogateescape")) for name, value in headers]
    return httpx.Response(answer.status, headers=pairs, stream=httpx.ByteStream(raw), extensions=extensions)

"""aiohttp: its connectors give a connection on which the recorded response has already arrived.

All above is aiohttp's own: redirects, cookies, middlewares, decoding, streaming.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from pytest_agenteval.cassettes.http.messages import on_the_wire, recordable_request, recordable_response
from pytest_agenteval.cassettes.http.scope import answering
from pytest_agenteval.cassettes.interaction import Response


class _PlayedTransport(asyncio.Transport):
    """Stands for the socket: takes what is sent and forgets it."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = False

    def write(self, data: Any) -> None:
        """Forget it."""

    def writelines(self, list_of_data: Any) -> None:
        """Forget them."""

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close

    def pause_reading(self) -> None:
        """Do nothing: all has been read."""

    resume_reading = pause_reading


class _BodyCollector:
    """Takes what a body writes."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    async def write(self, chunk: Any) -> None:
        self.parts.append(bytes(chunk))

    async def write_eof(self, chunk: Any = b"") -> None:
        self.parts.append(bytes(chunk))

    async def drain(self) -> None:
        """Wait for nobody."""


def patch_points(aiohttp: Any) -> Iterator[tuple[type, str, Any]]:
    """Say what is patched."""
    connecting = _patch_connect(aiohttp)
    yield aiohttp.BaseConnector, "connect", connecting


def _patch_connect(aiohttp: Any) -> Any:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection

    class Played(Connection):
        """A connection that no pool ever gets."""

        def close(self) -> None:
            self._notify_release()
            self._protocol = None

        release = close

        def __del__(self, _warnings: Any = None) -> None:
            """Leave nothing behind."""

    def played_connection(connector: Any, request: Any, answer: Response) -> Any:
        loop = asyncio.get_running_loop()
        protocol = ResponseHandler(loop)
        protocol.connection_made(_PlayedTransport())
        protocol.data_received(on_the_wire(answer, request.method))
        return Played(connector, request.connection_key, protocol, loop)

    def patched(real: Any) -> Any:
        async def connect(connector: Any, req: Any, traces: Any, timeout: Any) -> Any:
            scope = answering()
            if scope is None:
                return await real(connector, req, traces, timeout)
            body = await _read_body(aiohttp, req)
            question = recordable_request(req.method, str(req.url), req.headers.items(), body)
            if scope.lets_by(question):
                return await real(connector, req, traces, timeout)
            if "Upgrade" in req.headers:  # a WebSocket is no request with a response
                raise scope.refusal(question)
            answer = scope.play(question)
            if answer is None:
                with scope.sending():
                    answer = await _send_request(await real(connector, req, traces, timeout), req, timeout)
                scope.record(question, answer)
            return played_connection(connector, req, answer)

        return connect

    return patched


async def _read_body(aiohttp: Any, request: Any) -> bytes:
    """Give the body, and leave one in its place that can be sent once more."""
    if not request.body:
        return b""
    if isinstance(request.body, bytes):
        return request.body
    collector = _BodyCollector()
    await request.body.write(collector)
    raw = b"".join(collector.parts)
    again = aiohttp.BytesPayload(raw, headers=request.body.headers)
    if isinstance(getattr(type(request), "body", None), property):
        request._body = again
    else:  # before aiohttp 3.12
        request.body = again
    return raw


async def _send_request(connection: Any, request: Any, timeout: Any) -> Response:
    """Really ask, and read the response to its end, as it travels."""
    try:
        connection.protocol.set_response_params(
            timer=request._timer if hasattr(request, "_timer") else None,
            skip_payload=request.method == "HEAD",
            read_until_eof=True,
            auto_decompress=False,
            read_timeout=timeout.sock_read,
        )
        given = await request.send(connection)
        await given.start(connection)
        raw = await given.read()
    except BaseException:
        connection.close()
        raise
    return recordable_response(request.method, given.status, given.reason or "", given.headers.items(), raw)

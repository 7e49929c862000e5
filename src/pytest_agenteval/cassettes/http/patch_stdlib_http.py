"""urllib.request and http.client below it: a response in place of what do_open would give.

urllib3 stands on http.client too: its requests, and urllib's, arrive there only where they are sent.
"""

from __future__ import annotations

import http.client
import io
from collections.abc import Iterator
from typing import Any

from pytest_agenteval.cassettes.http.messages import answered, asked, on_the_wire, whole
from pytest_agenteval.cassettes.http.scope import answering
from pytest_agenteval.cassettes.interaction import Request, Response


class Sent:
    """Stands for the socket of a connection that has received a whole response."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def makefile(self, mode: str) -> io.BytesIO:
        """Give the one file that a response reads."""
        return io.BytesIO(self._raw)


def as_received(response: Response, method: str) -> http.client.HTTPResponse:
    """Give a response of the standard library, its headers read and its body yet to be."""
    received = http.client.HTTPResponse(Sent(on_the_wire(response, method)), method=method)  # type: ignore[arg-type]  # makefile is all it needs
    received.begin()
    return received


def patch_points(module: Any) -> Iterator[tuple[type, str, Any]]:
    """Say what is patched."""
    yield module.AbstractHTTPHandler, "do_open", _patch_do_open


def _patch_do_open(real: Any) -> Any:
    def do_open(handler: Any, connection: Any, request: Any, **settings: Any) -> Any:
        scope = answering()
        if scope is None:
            return real(handler, connection, request, **settings)
        method, address = request.get_method(), request.full_url
        if request.data is not None:
            request.data = whole(request.data)
        question = asked(method, address, request.header_items(), request.data)
        answer = scope.play(question)
        if answer is None:
            with real(handler, connection, request, **settings) as given:
                answer = answered(method, given.status, given.reason, given.getheaders(), given.read())
            scope.record(question, answer)
        received = as_received(answer, method)
        # As do_open leaves it, for who reads `url` and the old `msg`.
        received.url, received.msg = request.get_full_url(), received.reason  # type: ignore[assignment]
        return received

    return do_open


def patch_points_of_client(client: Any) -> Iterator[tuple[type, str, Any]]:
    """Say what is patched."""
    yield client.HTTPConnection, "putrequest", _patch_putrequest


def _patch_putrequest(real: Any) -> Any:
    def putrequest(connection: Any, *args: Any, **kwargs: Any) -> Any:
        scope = answering()
        if scope is not None and not scope.live:
            raise scope.refusal(Request("CONNECT", f"socket://{connection.host}:{connection.port}"))
        return real(connection, *args, **kwargs)

    return putrequest

"""http.client, and what stands on it: urllib.request, and urllib3 with requests on top.

The requests of both arrive at http.client only where they are sent. urllib is patched where do_open would
give a response, urllib3 where a pool sends on a connection, below redirects and retries.
"""

from __future__ import annotations

import http.client
import io
from collections.abc import Iterator
from typing import Any

from pytest_agenteval.cassettes.http.messages import (
    on_the_wire,
    recordable_request,
    recordable_response,
    whole,
)
from pytest_agenteval.cassettes.http.scope import answering, is_own_address
from pytest_agenteval.cassettes.interaction import Request, Response

_UNPREPARED = "_agenteval_unprepared"
_PORTS = {"http": 80, "https": 443}


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


def patch_points_of_urllib(module: Any) -> Iterator[tuple[type, str, Any]]:
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
        question = recordable_request(method, address, request.header_items(), request.data)
        if scope.lets_by(question):
            return real(handler, connection, request, **settings)
        answer = scope.play(question)
        if answer is None:
            with scope.sending(), real(handler, connection, request, **settings) as given:
                answer = recordable_response(
                    method, given.status, given.reason, given.getheaders(), given.read()
                )
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
        address = f"{connection.host}:{connection.port}"
        if scope is not None and not scope.live and not is_own_address(f"http://{address}/"):
            raise scope.refusal(Request("CONNECT", f"socket://{address}"))
        return real(connection, *args, **kwargs)

    return putrequest


def patch_points_of_urllib3(urllib3: Any) -> Iterator[tuple[type, str, Any]]:
    """Say what is patched."""
    pools = urllib3.connectionpool
    sending = _patch_version_2 if int(urllib3.__version__.partition(".")[0]) > 1 else _patch_version_1
    yield pools.HTTPConnectionPool, "_make_request", lambda real: sending(urllib3, real)
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


def _patch_version_2(urllib3: Any, real: Any) -> Any:
    def _make_request(
        pool: Any, connection: Any, method: str, url: str, body: Any = None, headers: Any = None, **rest: Any
    ) -> Any:
        scope = answering()
        if scope is None:
            return real(pool, connection, method, url, body=body, headers=headers, **rest)
        sent = whole(body)
        question = recordable_request(method, _address(pool, url), (headers or {}).items(), sent)
        if scope.lets_by(question):
            _prepare_proxy_now(pool, connection)
            return real(pool, connection, method, url, body=sent, headers=headers, **rest)
        answer = scope.play(question)
        if answer is None:
            # The connection goes back into its pool with the response that is handed out, not with this one.
            aside = {**rest, "response_conn": None, "preload_content": False, "decode_content": False}
            with scope.sending():
                _prepare_proxy_now(pool, connection)
                given = real(pool, connection, method, url, body=sent, headers=headers, **aside)
                raw = given.read(decode_content=False)
            headers_given = given.headers.items()
            answer = recordable_response(method, given.status, given.reason or "", headers_given, raw)
            scope.record(question, answer)
        return _response(urllib3, pool, answer, method, url, rest)

    return _make_request


def _response(urllib3: Any, pool: Any, answer: Response, method: str, url: str, rest: Any) -> Any:
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


def _patch_version_1(urllib3: Any, real: Any) -> Any:
    def _make_request(pool: Any, connection: Any, method: str, url: str, *args: Any, **rest: Any) -> Any:
        scope = answering()
        if scope is None:
            return real(pool, connection, method, url, *args, **rest)
        rest["body"] = whole(rest.get("body"))
        question = recordable_request(
            method, _address(pool, url), (rest.get("headers") or {}).items(), rest["body"]
        )
        if scope.lets_by(question):
            _prepare_proxy_now(pool, connection)
            return real(pool, connection, method, url, *args, **rest)
        answer = scope.play(question)
        if answer is None:
            with scope.sending():
                _prepare_proxy_now(pool, connection)
                given = real(pool, connection, method, url, *args, **rest)
                raw = given.read()
            answer = recordable_response(method, given.status, given.reason, given.getheaders(), raw)
            scope.record(question, answer)
        return as_received(answer, method)

    return _make_request


def _address(pool: Any, url: str) -> str:
    """Give the whole address; towards a proxy the pool has it already."""
    if "://" in url.partition("?")[0]:
        return url
    host = f"[{pool.host}]" if ":" in pool.host else pool.host
    port = "" if pool.port in (None, _PORTS.get(pool.scheme)) else f":{pool.port}"
    return f"{pool.scheme}://{host}{port}{url}"

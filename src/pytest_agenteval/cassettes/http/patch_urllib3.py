"""urllib3, and requests on top of it: patched where a pool sends, below redirects and retries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pytest_agenteval.cassettes.http.failures import class_of, is_of_system
from pytest_agenteval.cassettes.http.messages import recordable_request, whole
from pytest_agenteval.cassettes.http.patch_http_client import as_received, sending, whole_address
from pytest_agenteval.cassettes.http.scope import answering
from pytest_agenteval.cassettes.http.streaming import Exchange, replayed
from pytest_agenteval.cassettes.interaction import Response

_UNPREPARED = "_agenteval_unprepared"


def patch_points(urllib3: Any) -> Iterator[tuple[type, str, Any]]:
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
        answer = replayed(scope, question, partial(_failure, urllib3, pool, connection, url))
        if answer is None:
            with sending(Exchange(scope, question, method)):
                _prepare_proxy_now(pool, connection)
                return real(pool, connection, method, url, body=sent, headers=headers, **rest)
        return _response(urllib3, pool, answer, method, url, rest)

    return _make_request


def _failure(
    urllib3: Any, pool: Any, connection: Any, url: str, name: str, text: str, cause: Exception
) -> Exception:
    known = urllib3.exceptions
    if is_of_system(name) and not isinstance(cause, TimeoutError):  # the pool wraps that
        return cause
    other = known.ReadTimeoutError if isinstance(cause, TimeoutError) else known.NewConnectionError
    kind = class_of(known, name, known.HTTPError) if name.startswith("urllib3.") else other
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
        answer = replayed(scope, question, partial(_failure, urllib3, pool, connection, url))
        if answer is None:
            with sending(Exchange(scope, question, method)):
                _prepare_proxy_now(pool, connection)
                return real(pool, connection, method, url, *args, **rest)
        return as_received(answer, method)

    return _make_request


def _address(pool: Any, url: str) -> str:
    return whole_address(pool.scheme, pool.host, pool.port, url)

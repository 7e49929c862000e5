"""Really template a provider: one client for each loop, and a token that is asked for once."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pytest_agenteval.cassettes.interaction import Request, Response, text_of
from pytest_agenteval.processes.closers import close_at_end
from pytest_agenteval.text.canonical import digest_text
from pytest_agenteval.text.value_paths import loose_path, value_at
from pytest_agenteval.tools.tool import ToolFailed

if TYPE_CHECKING:
    import httpx

    from pytest_agenteval.tools.http.request_template import Endpoint, RequestTemplate, TokenRequest

SECONDS = 30.0
BASE_VARIABLE = "AGENTEVAL_TOOLS_BASE_"
EARLY = 60.0
"""Seconds before its end at which a token is asked for again."""


@dataclass(slots=True)
class _OfLoop:
    """What belongs to one loop."""

    holder: AsyncGenerator[httpx.AsyncClient]
    client: httpx.AsyncClient
    locks: dict[str, asyncio.Lock] = field(default_factory=dict)


# A client's connections can be used only on the loop on which they were opened.
_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop] = WeakKeyDictionary()
_tokens: dict[str, tuple[str, float]] = {}


async def send(endpoint: Endpoint, args: Mapping[str, Any]) -> Response:
    """Send a call with its secrets, after the token that it takes."""
    base = _base(endpoint)
    if endpoint.token is None:
        return await _exchange(endpoint.template, args, os.environ, base)
    key, token = await _token(endpoint, endpoint.token, base)
    response = await _exchange(endpoint.template, args, {**os.environ, "token": token}, base)
    if response.status == 401:  # whatever it says of how long it lasts
        _tokens.pop(key, None)
    return response


async def loop_client() -> httpx.AsyncClient:
    """Give the client of this loop, which is closed with it."""
    return (await _of_this_loop()).client


async def close() -> None:
    """Close the client of this loop; one whose loop ends as it should is closed by itself."""
    held = _of_loops.get(asyncio.get_running_loop())
    if held is not None:
        await held.holder.aclose()


def _base(endpoint: Endpoint) -> str:
    variable = BASE_VARIABLE + endpoint.provider.upper().replace("-", "_")
    return endpoint.base or (os.environ.get(variable, "") if endpoint.provider else "")


async def _exchange(
    template: RequestTemplate, args: Mapping[str, Any], secrets: Mapping[str, str], base: str
) -> Response:
    import httpx

    from pytest_agenteval.cassettes.redaction import Redactor

    used: list[str] = []

    def secret(name: str) -> str:
        used.append(secrets[name])
        return used[-1]

    request = template.request(args, secret, base)
    try:
        client = await loop_client()
        async with asyncio.timeout(SECONDS):
            reply = await client.request(
                request.method,
                request.uri.partition("#")[0],
                content=None if request.body is None else text_of(request.body).encode(),
                headers=[(name.encode(), value.encode()) for name, (value,) in request.headers.items()],
            )
    except (httpx.InvalidURL, httpx.LocalProtocolError) as failed:
        message = f"no request to {_host(request)} can be made of this: {type(failed).__name__}"
        raise ToolFailed(message, "bad_arguments") from None
    except (httpx.HTTPError, TimeoutError) as failed:
        raise ToolFailed(f"{_host(request)} did not answer: {type(failed).__name__}", "unreachable") from None
    # A provider may say a key again, whose variable has a name that tells nobody what it is.
    body = Redactor(used).text(reply.text)
    return Response(reply.status_code, reply.reason_phrase, dict(reply.headers), body)


async def _token(endpoint: Endpoint, token: TokenRequest, base: str) -> tuple[str, str]:
    """Give the key of a token and the token; asked for once by those who need it at the same time."""
    key = digest_text(repr([token.template.request({}, os.environ.__getitem__, base)]))
    of_loop = await _of_this_loop()
    async with of_loop.locks.setdefault(key, asyncio.Lock()):
        held = _tokens.get(key)
        if held is None or held[1] <= time.monotonic():
            held = _tokens[key] = await _new_token(endpoint, token, base)
    return key, held[0]


async def _new_token(endpoint: Endpoint, request: TokenRequest, base: str) -> tuple[str, float]:
    response = await _exchange(request.template, {}, os.environ, base)
    try:
        body = json.loads(text_of(response.body))
    except ValueError:
        body = None
    token = value_at(body, loose_path(request.path))
    if response.status >= 400 or not isinstance(token, str) or not token:
        raise ToolFailed(
            f"{endpoint.provider or endpoint.tool} gave no token: HTTP {response.status}", "no_token"
        )
    seconds = value_at(body, loose_path(request.expires))
    lasts = float(seconds) if isinstance(seconds, int | float) else request.lasts
    return token, time.monotonic() + max(lasts - EARLY, lasts / 2)


async def _of_this_loop() -> _OfLoop:
    loop = asyncio.get_running_loop()
    held = _of_loops.get(loop)
    if held is None:
        holder = _client_of(loop)
        held = _OfLoop(holder, await anext(holder))
        _of_loops[loop] = held
        close_at_end(close)
    return held


async def _client_of(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[httpx.AsyncClient]:
    """Hold a client: a loop that ends closes its generators, and this one its client."""
    import httpx

    client = httpx.AsyncClient(timeout=SECONDS)
    try:
        yield client
    finally:
        _of_loops.pop(loop, None)
        await client.aclose()


def _host(request: Request) -> str:
    return request.uri.partition("://")[2].partition("/")[0]

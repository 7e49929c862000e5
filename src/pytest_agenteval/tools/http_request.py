"""Requests of HTTP tools: written from a call's arguments, and sent.

Each event loop has its own client; a token is requested once.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

from pytest_agenteval.cassettes.http.scope import close_copies, copy_of_loop
from pytest_agenteval.cassettes.interaction import UNREACHABLE, Request, Response, text_of
from pytest_agenteval.processes.threads import close_at_end
from pytest_agenteval.text.json_values import ABSENT, compact_json, loose_path, text_digest, value_at
from pytest_agenteval.text.secret_forms import MARK
from pytest_agenteval.tools.http_declaration import Chosen, ProviderSpec, RequestSpec, TokenSpec
from pytest_agenteval.tools.request_values import (
    Args,
    SecretLookup,
    TableValue,
    TemplateValue,
    TextTemplate,
    chosen,
    compile_map,
    compile_value,
    text_of_value,
)
from pytest_agenteval.tools.tool import ToolFailed

if TYPE_CHECKING:
    import httpx


_QUOTED_MARK = quote(MARK, safe="")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BODY_TYPES = {"json": "application/json; charset=utf-8", "form": "application/x-www-form-urlencoded"}


class RequestTemplate:
    """How one tool's calls are written as requests."""

    def __init__(
        self, spec: RequestSpec | TokenSpec, provider: ProviderSpec | None, parameters: Mapping[str, Any]
    ) -> None:
        self.base = provider.base.rstrip("/") if provider else ""
        self.method = spec.method
        self.url = _address_value(spec.url, self.base)
        shared = provider if provider and isinstance(spec, RequestSpec) else None
        self.query = compile_map({**(shared.query if shared else {}), **spec.query})
        headers = {**(shared.headers if shared else {}), **spec.headers}
        self.body = None if spec.body is None else compile_value(spec.body)
        self.body_as = spec.body_as
        if self.body and "content-type" not in {name.lower() for name in headers}:
            headers = {"Content-Type": _BODY_TYPES[spec.body_as], **headers}
        self.headers = compile_map(headers)
        self.properties: Mapping[str, Any] = parameters.get("properties", {})
        self._defaults = {
            name: shape["default"]
            for name, shape in self.properties.items()
            if isinstance(shape, Mapping) and "default" in shape
        }

    @property
    def values(self) -> tuple[TemplateValue, ...]:
        """The parts of the request that may hold arguments or secrets."""
        return (self.url, self.query, self.headers, *([self.body] if self.body else []))

    def filled(self, args: Args) -> dict[str, Any]:
        """Give the arguments that the schema declares, with its defaults for absent ones."""
        full: dict[str, Any] = {}
        for name in self.properties:
            value = args.get(name)
            if value is not None:
                full[name] = _whole_number(value)
            elif name in self._defaults:
                full[name] = self._defaults[name]
        return full

    def request(self, args: Args, secrets: SecretLookup = lambda name: MARK, base: str = "") -> Request:
        """Write a call as a request; a ``base`` replaces the provider's address."""
        full = self.filled(args)
        has_address = not isinstance(self.url, TableValue) or self.url.knows(full)
        uri = self.url.write(full, secrets) if has_address else ABSENT
        # An argument must never be an address, nor lead up and away from it.
        if uri is ABSENT or not {".", ".."}.isdisjoint(uri.split("/")):
            raise ToolFailed("the arguments give no address that this tool may use", "bad_arguments")
        query = _pairs(self.query.write(full, secrets))
        uri = f"{uri}{'&' if '?' in uri else '?'}{query}" if query else uri
        if base and self.base and uri.startswith(self.base):
            uri = base.rstrip("/") + uri[len(self.base) :]
        headers = {name: text_of_value(value) for name, value in self.headers.write(full, secrets).items()}
        body = ABSENT if self.body is None else self.body.write(full, secrets)
        if body is ABSENT:
            return Request(self.method, uri, None, headers)
        if self.body_as == "form":
            return Request(self.method, uri, _pairs(body), headers)
        # Models write half surrogate pairs, which UTF-8 cannot encode; as escapes they stay valid JSON.
        text = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", compact_json(body))
        return Request(self.method, uri, text, headers)


def _address_value(url: str | Chosen, base: str) -> TemplateValue:
    if isinstance(url, Chosen):
        return chosen(url.template, lambda inner: _address_value(inner, base))
    return TextTemplate(url if "://" in url else base + url, escape=_quote)


def _pairs(values: Mapping[str, Any]) -> str:
    """Write a query; a list repeats its key for each item."""
    return "&".join(
        f"{_quote(name)}={_quote(text_of_value(item))}"
        for name, value in values.items()
        for item in (value if isinstance(value, list | tuple) else (value,))
    )


def _quote(text: str) -> str:
    quoted = quote(text, safe=",:", errors="replace")
    # The mark in place of a secret stays readable.
    return quoted.replace(_QUOTED_MARK, MARK) if "%3C" in quoted else quoted


def _whole_number(value: Any) -> Any:
    """Give whole numbers one form: 127.0 and 127 are the same argument."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


SECONDS = 30.0

# The tokens of this process, each with the moment when it is to be requested again, by what requests it.
_tokens: dict[str, tuple[str, float]] = {}
_requesting: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = WeakKeyDictionary()


async def token_of(template: RequestTemplate, spec: TokenSpec, base: str, who: str) -> tuple[str, str]:
    """Give the key of a token and the token; concurrent callers share one request."""
    key = text_digest(repr([template.request({}, os.environ.__getitem__, base)]))
    locks = _requesting.setdefault(asyncio.get_running_loop(), {})
    async with locks.setdefault(key, asyncio.Lock()):
        held = _tokens.get(key)
        if held is None or held[1] <= time.monotonic():
            response = await exchange(template, {}, os.environ, base)
            body = None
            with suppress(ValueError):
                body = json.loads(text_of(response.body))
            value = value_at(body, loose_path(spec.path))
            if response.status >= 400 or not isinstance(value, str) or not value:
                raise ToolFailed(f"{who} gave no token: HTTP {response.status}", "no_token")
            seconds = value_at(body, loose_path(spec.expires))
            lasts = float(seconds) if isinstance(seconds, int | float) else spec.lasts
            # A new one is fetched a minute before it ends, or after half its time if that is later.
            held = _tokens[key] = value, time.monotonic() + max(lasts - 60.0, lasts / 2)
    return key, held[0]


def forget_token(key: str) -> None:
    """Have a token requested again: it may expire earlier than stated."""
    _tokens.pop(key, None)


async def loop_client() -> httpx.AsyncClient:
    """Give the client of the running loop, which is closed with the loop: it works on no other."""
    close_at_end(close_copies)
    client: httpx.AsyncClient = await copy_of_loop(
        asyncio.get_running_loop(), loop_client, _new_client, lambda client: client.aclose()
    )
    return client


def _new_client(_: object) -> httpx.AsyncClient:
    import httpx

    from pytest_agenteval.cassettes.http.loopback_address import client_tls

    return httpx.AsyncClient(timeout=SECONDS, verify=client_tls())


async def exchange(
    template: RequestTemplate, args: Mapping[str, Any], secrets: Mapping[str, str], base: str
) -> Response:
    """Send a call, and give the response with no header but its type."""
    import httpx

    from pytest_agenteval.cassettes.redaction import Redactor

    used: list[str] = []

    def secret(name: str) -> str:
        used.append(secrets[name])
        return used[-1]

    request = template.request(args, secret, base)
    host = request.uri.partition("://")[2].partition("/")[0]
    try:
        client = await loop_client()
        # httpx's own timeout holds for each operation, and not for the request as a whole.
        async with asyncio.timeout(SECONDS):
            reply = await client.request(
                request.method,
                request.uri,
                content=None if request.body is None else text_of(request.body).encode(),
                # As bytes, since httpx would encode texts as ASCII, which not every value is.
                headers=[(name.encode(), value.encode()) for name, (value,) in request.headers.items()],
            )
    except (httpx.InvalidURL, httpx.LocalProtocolError) as failed:
        message = f"no request to {host} can be made of this: {type(failed).__name__}"
        raise ToolFailed(message, "bad_arguments") from None
    except (httpx.HTTPError, TimeoutError) as failed:
        raise ToolFailed(f"{host} did not answer: {type(failed).__name__}", UNREACHABLE) from None
    # A provider may repeat a key in its reply, and the name of the key's variable may not look secret.
    body = Redactor(used).text(reply.text)
    headers = {name: value for name, value in reply.headers.items() if name == "content-type"}
    return Response(reply.status_code, reply.reason_phrase, headers, body)

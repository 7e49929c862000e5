"""From a call's arguments to the request that asks the provider, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pytest_agenteval.cassettes.interaction import Request, text_of
from pytest_agenteval.text.canonical import compact
from pytest_agenteval.text.redaction.spellings import MARK
from pytest_agenteval.text.value_paths import ABSENT
from pytest_agenteval.tools.http.declaration import Chosen, ProviderSpec, RequestSpec, TokenSpec
from pytest_agenteval.tools.http.template_values import (
    Args,
    Nested,
    SecretLookup,
    Table,
    TextTemplate,
    Value,
    chosen,
    compiled,
    text_of_value,
)
from pytest_agenteval.tools.tool import ToolFailed

_QUOTED_MARK = quote(MARK, safe="")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BODY_TYPES = {"json": "application/json; charset=utf-8", "form": "application/x-www-form-urlencoded"}


class RequestTemplate:
    """How one tool's calls are written as requests.

    Parameters that are not sent stand in the address behind a ``#``, which no HTTP library sends: so that
    calls that differ have requests that differ.
    """

    def __init__(
        self, spec: RequestSpec | TokenSpec, provider: ProviderSpec | None, parameters: Mapping[str, Any]
    ) -> None:
        self.base = provider.base.rstrip("/") if provider else ""
        self.method = spec.method
        self._url = _address(spec.url, self.base)
        shared = provider if provider and isinstance(spec, RequestSpec) else None
        self._query = _nested({**(shared.query if shared else {}), **spec.query})
        headers = {**(shared.headers if shared else {}), **spec.headers}
        self._body = None if spec.body is None else compiled(spec.body)
        self._as = spec.body_as
        if self._body and "content-type" not in {name.lower() for name in headers}:
            headers = {"Content-Type": _BODY_TYPES[spec.body_as], **headers}
        self._headers = _nested(headers)
        self._properties: Mapping[str, Any] = parameters.get("properties", {})
        self._defaults = {
            name: shape["default"]
            for name, shape in self._properties.items()
            if isinstance(shape, Mapping) and "default" in shape
        }
        self._unsent = tuple(name for name in self._properties if name not in set(self._readable_names()))

    @property
    def values(self) -> tuple[Value, ...]:
        """All that is sent, in parts."""
        return (self._url, self._query, self._headers, *([self._body] if self._body else []))

    def filled(self, args: Args) -> dict[str, Any]:
        """Give the arguments that count: those the schema knows, with its defaults for absent ones."""
        given = {name: args.get(name) for name in self._properties}
        return {
            name: _whole_number(value) if value is not None else self._defaults[name]
            for name, value in given.items()
            if value is not None or name in self._defaults
        }

    def request(self, args: Args, secrets: SecretLookup = lambda name: MARK, base: str = "") -> Request:
        """Write a call as a request; a ``base`` takes the place of the provider's."""
        full = self.filled(args)
        uri = self._uri(full, secrets)
        query = _pairs(self._query.write(full, secrets))
        uri = f"{uri}{'&' if '?' in uri else '?'}{query}" if query else uri
        if base and self.base and uri.startswith(self.base):
            uri = base.rstrip("/") + uri[len(self.base) :]
        unsent = _pairs({name: full[name] for name in self._unsent if name in full})
        headers = {name: text_of_value(value) for name, value in self._headers.write(full, secrets).items()}
        uri = f"{uri}#{unsent}" if unsent else uri
        return Request(self.method, uri, self._written_body(full, secrets), headers)

    def args(self, request: Request) -> dict[str, Any]:
        """Read a request's arguments, each in the type that the schema names."""
        address = urlsplit(request.uri)
        args: dict[str, Any] = dict(self._url.read(request.uri.partition("#")[0].partition("?")[0]) or {})
        args.update((name, unquote(value)) for name, value in list(args.items()))
        args.update(self._query.read(_group_pairs(parse_qsl(address.query, True))) or {})
        args.update(self._headers.read({name: values[0] for name, values in request.headers.items()}) or {})
        if self._body and request.body:
            args.update(self._body.read(self._read_body(text_of(request.body))) or {})
        args.update(_group_pairs(parse_qsl(address.fragment, True)))
        return {name: _as_type(args[name], shape) for name, shape in self._properties.items() if name in args}

    def _uri(self, full: Args, secrets: SecretLookup) -> str:
        """Write the address: an argument must never be one, nor lead up and away from it."""
        has_address = not isinstance(self._url, Table) or self._url.knows(full)
        uri = self._url.write(full, secrets) if has_address else ABSENT
        if uri is ABSENT or not {".", ".."}.isdisjoint(uri.split("/")):
            raise ToolFailed("the arguments name no address that this tool asks", "bad_arguments")
        address: str = uri
        return address

    def _readable_names(self) -> Iterable[str]:
        return (name for value in self.values for name in value.readable)

    def _written_body(self, full: Args, secrets: SecretLookup) -> str | None:
        if self._body is None:
            return None
        body = self._body.write(full, secrets)
        if body is ABSENT:
            return None
        if self._as == "form":
            return _pairs(body)
        return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", compact(body))

    def _read_body(self, text: str) -> Any:
        if self._as == "form":
            return _group_pairs(parse_qsl(text, True))
        try:
            return json.loads(text)
        except ValueError:
            return {}


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """The request that gives the token of all others, and where in its response that stands."""

    template: RequestTemplate
    path: str
    expires: str
    lasts: float


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the calls of one tool are sent; a ``base`` takes the place of the provider's address."""

    tool: str
    provider: str
    template: RequestTemplate
    token: TokenRequest | None = None
    base: str = ""


def _address(url: str | Chosen, base: str) -> Value:
    if isinstance(url, Chosen):
        return chosen(url.template, lambda inner: _address(inner, base))
    return TextTemplate(url if "://" in url else base + url, escape=_quote, inner="[^/]*?")


def _nested(values: Mapping[str, Any]) -> Nested:
    return Nested({name: compiled(value) for name, value in values.items()})


def _pairs(values: Mapping[str, Any]) -> str:
    """Write a query; a list is its key several times, and what is no secret may be read."""
    return "&".join(
        f"{_quote(name)}={_quote(text_of_value(item))}"
        for name, value in values.items()
        for item in (value if isinstance(value, list | tuple) else (value,))
    )


def _quote(text: str) -> str:
    quoted = quote(text, safe=",:", errors="replace")
    return quoted.replace(_QUOTED_MARK, MARK) if "%3C" in quoted else quoted


def _group_pairs(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    grouped: dict[str, Any] = {}
    for name, value in pairs:
        grouped[name] = value if name not in grouped else [*_as_list(grouped[name]), value]
    return grouped


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _whole_number(value: Any) -> Any:
    """Write whole numbers in one way: 127.0 and 127 are one argument."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def _as_type(value: Any, shape: Any) -> Any:
    """Bring a text back into the type that the schema names; what does not fit stays a text."""
    kind = _kind(shape)
    if kind == "array":
        return [_as_type(item, shape.get("items")) for item in _as_list(value)]
    if not isinstance(value, str) or kind in (None, "string"):
        return value if kind != "string" or value is None else text_of_value(value)
    try:
        return _READ[kind](value)
    except (ValueError, KeyError):
        return value


def _kind(shape: Any) -> str | None:
    """Give the type that a schema names, of several the first that is not null."""
    kinds = shape.get("type") if isinstance(shape, Mapping) else None
    return next((kind for kind in kinds if kind != "null"), None) if isinstance(kinds, list) else kinds


def _number(text: str) -> Any:
    return _whole_number(float(text)) if not text.lstrip("-").isdigit() else int(text)


def _json(text: str) -> Any:
    return json.loads(text)


_READ: Mapping[str, Callable[[str], Any]] = {
    "integer": int,
    "number": _number,
    "boolean": {"true": True, "false": False}.__getitem__,
    "object": _json,
}

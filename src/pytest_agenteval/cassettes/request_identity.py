"""What of a request is compared: its method, its address, and by name what is asked in its query and body.

Two requests are equal whatever the order of keys and parameters. Where a tool's ``matching`` says more, the
parameters read here are what ``param_matchers`` compares one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from pytest_agenteval.cassettes.interaction import CHAT, TOOL, Body, Request, text_of, tool_call
from pytest_agenteval.cassettes.param_matchers import ParamMatchers
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.canonical import canonical, digest_text

EndpointKey: TypeAlias = tuple[str, str]
Key: TypeAlias = tuple[str, str, str]
Match: TypeAlias = Callable[[Request, Request], bool]
CallArgs: TypeAlias = Mapping[str, Any]

_FORM = re.compile(r"[\w.%+*\[\]-]+=[^\s{}\"<>]*")


class CallMatcher(FrozenValue, frozen=True):
    """How the arguments of calls are read out of requests, and when two calls are the same.

    ``read_recorded`` gives the arguments of a recorded request, or None for one that is not this tool's,
    ``read_asked`` those of a request that is. Those of equal ``ident`` read alike.
    """

    ident: Hashable
    read_recorded: Callable[[Request], CallArgs | None]
    read_asked: Callable[[Request], CallArgs | None]
    matchers: ParamMatchers


def http_request_matcher(matchers: ParamMatchers) -> CallMatcher:
    """Compare any HTTP request: its address, and by name the parameters of its query and of its body."""

    def read(request: Request) -> CallArgs | None:
        if request.uri.startswith((TOOL, CHAT)):
            return None
        # The empty name is nobody's parameter. What is asked in a body is not what is asked in a query.
        return {**request_parameters(request), "": [*address_of(request), bool(request.body)]}

    return CallMatcher(("HTTP", matchers.ident), read, read, matchers)


def address_of(request: Request) -> EndpointKey:
    """Give method and URI without query and fragment: what requests to one tool or endpoint share."""
    return request.method.upper(), _split_uri(request.uri)[0]


def key_of(request: Request) -> Key:
    """Give what equal requests share; headers tell of the client, not of the question, and are left out."""
    global _latest
    known, key = _latest
    if known is not request:  # who records a request asks twice, and a prompt may be long
        key = _key_of(request)
        _latest = request, key
    return key


_latest: tuple[Request | None, Key] = (None, ("", "", ""))


def _key_of(request: Request) -> Key:
    address, query, fragment = _split_uri(request.uri)
    parameters = _in_order(query) + (f"#{_in_order(fragment)}" if fragment else "")
    return request.method.upper(), address, digest_text(f"{parameters}\n{_canonical_body(request.body)}")


def request_parameters(request: Request) -> dict[str, Any]:
    """Give what was asked for by name: a tool's arguments, or the parameters and body of an HTTP request.

    A name that is given several times has the list of its values.
    """
    if request.uri.startswith(TOOL):
        return tool_call(request)[1]
    _, query, fragment = _split_uri(request.uri)
    values_of: dict[str, list[Any]] = {}
    for name, value in (*_pairs(query), *_pairs(fragment), *_body_parameters(request)):
        values_of.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in values_of.items()}


def json_body(request: Request) -> Any:
    """Read a body of JSON; None for any other, and for NaN, which Python reads and nobody can compare."""
    try:
        value = json.loads(text_of(request.body))
        canonical(value)
    except (ValueError, RecursionError):
        return None
    return value


def _split_uri(uri: str) -> tuple[str, str, str]:
    """Give address, query and fragment."""
    # Not urlsplit: it strips, or refuses, characters that stand in recorded addresses.
    before_fragment, _, fragment = uri.partition("#")
    address, _, query = before_fragment.partition("?")
    return address, query, fragment


def _in_order(pairs: str) -> str:
    return "&".join(sorted(pairs.split("&")))


def _canonical_body(body: Body) -> str:
    """Write a JSON body canonically, and leave any other as it is."""
    text = text_of(body)
    if text[:1] in ("{", "[") or text[:1].isspace():
        try:
            return canonical(json.loads(text))
        except (ValueError, RecursionError):
            return text
    return text


def _body_parameters(request: Request) -> Iterable[tuple[str, Any]]:
    text, body = text_of(request.body), json_body(request)
    if isinstance(body, dict):
        return body.items()
    if _FORM.fullmatch(text):
        return _pairs(text)
    return [("body", text)] if text else ()


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    """Read a query or a form; words in EUC-KR are no UTF-8, and stay different words."""
    return parse_qsl(text, True, errors="surrogateescape")

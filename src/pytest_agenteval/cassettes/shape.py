"""Turns what a cassette file says into interactions, or says which part of it is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.cassettes.interaction import (
    CHAT,
    TOOL,
    Body,
    Headers,
    Interaction,
    Request,
    Response,
    text_of,
)
from pytest_agenteval.errors import KeyPath

VERSION = 1
_CHAT_URI = re.compile(r"chat://[^/]+/[^/]+/\d+/\d+")
RESPONSE_KEYS = frozenset({"status", "headers", "body"})
REQUEST_KEYS = frozenset({"method", "uri", "body", "headers"})


class Misshapen(Exception):
    """One part of the file is not what it should be."""

    def __init__(self, path: KeyPath, expected: str, found: str, hint: str = "") -> None:
        super().__init__(expected)
        self.path, self.expected, self.found, self.hint = path, expected, found, hint


def interactions_in(data: Any) -> tuple[Interaction, ...]:
    """Read the whole content of a file."""
    top = _map(data, (), "a map with interactions and version")
    version = top.get("version", VERSION)
    if version != VERSION:
        newer = "a newer program wrote this file; update pytest-agenteval, or record the file again"
        raise Misshapen(("version",), f"version {VERSION}", f"version {version!r}", newer)
    listed = top.get("interactions")
    if not isinstance(listed, list):
        raise Misshapen(("interactions",), "a list of interactions", described(listed))
    return tuple(_interaction(item, ("interactions", at)) for at, item in enumerate(listed))


def described(value: object) -> str:
    """Say what a value is, in an author's words."""
    whole = {type(None): "nothing", dict: "a map", list: "a list", bytes: "binary"}
    scalar = {str: " (text)", bool: " (yes or no)", int: " (a number)", float: " (a number)"}
    return whole.get(type(value), f"{value!r:.60}{scalar.get(type(value), '')}")


def _interaction(item: Any, path: KeyPath) -> Interaction:
    pair = _map(item, path, "a map with request and response")
    read = Interaction(
        _request(pair.get("request"), (*path, "request")),
        _response(pair.get("response"), (*path, "response")),
    )
    _check_json(read, path)
    return read


def _request(item: Any, path: KeyPath) -> Request:
    given = _map(item, path, "a map with method, uri, body and headers")
    for key in given:
        if key not in REQUEST_KEYS:
            raise Misshapen((*path, key), "one of body, headers, method, uri", f"unknown key {key!r}")
    return Request(
        _text(given.get("method"), (*path, "method")),
        _text(given.get("uri"), (*path, "uri")),
        _body(given.get("body"), (*path, "body")),
        _headers(given.get("headers"), (*path, "headers")),
    )


def _response(item: Any, path: KeyPath) -> Response:
    given = _map(item, path, "a map with status, headers and body")
    status = _map(given.get("status"), (*path, "status"), "a map with code and message")
    body = _map(given.get("body") or {}, (*path, "body"), "a map with the text of the body under 'string'")
    code = status.get("code")
    if not isinstance(code, int):
        raise Misshapen((*path, "status", "code"), "a status code such as 200", described(code))
    return Response(
        code,
        str(status.get("message") or ""),
        _headers(given.get("headers"), (*path, "headers")),
        _body(body.get("string"), (*path, "body", "string")),
        {str(key): value for key, value in given.items() if key not in RESPONSE_KEYS},
    )


def _headers(value: Any, path: KeyPath) -> Headers:
    given = _map(value or {}, path, "a map of header names to lists of texts")
    return {str(name): _values(values, (*path, name)) for name, values in given.items()}


def _values(value: Any, path: KeyPath) -> tuple[str, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(_header_text(item, path) for item in values)


def _header_text(item: Any, path: KeyPath) -> str:
    if isinstance(item, bytes):
        return item.decode("latin-1")
    return str(item) if isinstance(item, int) else _text(item, path)


def _body(value: Any, path: KeyPath) -> Body:
    if value is None or isinstance(value, str | bytes):
        return value
    raise Misshapen(
        path, "text, binary or nothing", described(value), "put the body in quotes, or below a '|'"
    )


def _text(value: Any, path: KeyPath) -> str:
    if isinstance(value, str):
        return value
    raise Misshapen(path, "a text", described(value))


def _map(value: Any, path: KeyPath, expected: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise Misshapen(path, expected, described(value))


def _check_json(read: Interaction, path: KeyPath) -> None:
    """Tool calls and chats can be written by hand: say at once where their JSON is wrong."""
    uri = read.request.uri
    if not uri.startswith((TOOL, CHAT)):
        return
    if uri.startswith(CHAT) and not _CHAT_URI.fullmatch(uri):
        raise Misshapen(
            (*path, "request", "uri"), "chat://<role>/<model>/<repetition>/<ask number>", repr(uri)
        )
    _json_map(read.request.body, (*path, "request", "body"), "a JSON map")
    expected = 'a JSON map with "result" or "error"' if uri.startswith(TOOL) else "a JSON map"
    place = (*path, "response", "body", "string")
    answer = _json_map(read.response.body, place, expected)
    if uri.startswith(TOOL) and not answer.keys() & {"result", "error"}:
        raise Misshapen(place, expected, f"the keys {', '.join(answer) or '(none)'}")


def _json_map(body: Body, path: KeyPath, expected: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text_of(body))
    except (ValueError, RecursionError) as why:
        raise Misshapen(path, expected, f"no JSON: {why}") from None
    return _map(value, path, expected)

"""Reads a cassette file's text into interactions, or says which part of it is wrong and on which line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
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
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound

VERSION = 1
_CHAT_URI = re.compile(r"chat://[^/]+/[^/]+/\d+/\d+")
RESPONSE_KEYS = frozenset({"status", "headers", "body"})
REQUEST_KEYS = frozenset({"method", "uri", "body", "headers"})


class CassetteFormatError(Exception):
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
        raise CassetteFormatError(("version",), f"version {VERSION}", f"version {version!r}", newer)
    listed = top.get("interactions")
    if not isinstance(listed, list):
        raise CassetteFormatError(("interactions",), "a list of interactions", describe_value(listed))
    return tuple(_interaction(item, ("interactions", at)) for at, item in enumerate(listed))


def describe_value(value: object) -> str:
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
            raise CassetteFormatError(
                (*path, key), "one of body, headers, method, uri", f"unknown key {key!r}"
            )
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
    for key in body:
        if key != "string":
            raise CassetteFormatError((*path, "body", key), "string", f"unknown key {key!r}")
    code = status.get("code")
    if not isinstance(code, int):
        raise CassetteFormatError(
            (*path, "status", "code"), "a status code such as 200", describe_value(code)
        )
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
    raise CassetteFormatError(
        path, "text, binary or nothing", describe_value(value), "put the body in quotes, or below a '|'"
    )


def _text(value: Any, path: KeyPath) -> str:
    if isinstance(value, str):
        return value
    raise CassetteFormatError(path, "a text", describe_value(value))


def _map(value: Any, path: KeyPath, expected: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise CassetteFormatError(path, expected, describe_value(value))


def _check_json(read: Interaction, path: KeyPath) -> None:
    """Tool calls and chats can be written by hand: say at once where their JSON is wrong."""
    uri = read.request.uri
    if not uri.startswith((TOOL, CHAT)):
        return
    if uri.startswith(CHAT) and not _CHAT_URI.fullmatch(uri):
        raise CassetteFormatError(
            (*path, "request", "uri"), "chat://<role>/<model>/<repetition>/<ask number>", repr(uri)
        )
    _json_map(read.request.body, (*path, "request", "body"), "a JSON map")
    expected = 'a JSON map with "result" or "error"' if uri.startswith(TOOL) else "a JSON map"
    place = (*path, "response", "body", "string")
    answer = _json_map(read.response.body, place, expected)
    if uri.startswith(TOOL) and not answer.keys() & {"result", "error"}:
        raise CassetteFormatError(place, expected, f"the keys {', '.join(answer) or '(none)'}")


def _json_map(body: Body, path: KeyPath, expected: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text_of(body))
    except (ValueError, RecursionError) as why:
        raise CassetteFormatError(path, expected, f"no JSON: {why}") from None
    return _map(value, path, expected)


def file_problem(
    name: str, line: int | None, path: KeyPath, expected: str, found: str, hint: str = ""
) -> ProblemsFound:
    """Make the error that says what is wrong with one place of one file."""
    return ProblemsFound([Problem(name, line, path, expected, found, hint)])


def parse_text(text: str, is_json: bool, name: str) -> Any:
    """Read plain data; what cannot be read is a problem with its line."""
    if is_json:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as why:
            raise file_problem(name, getattr(why, "lineno", None), (), "JSON", str(why)) from None
    return _parsed_yaml(text, name)


def _parsed_yaml(text: str, name: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except yaml.MarkedYAMLError as why:
        line = why.problem_mark.line + 1 if why.problem_mark else None
        found = " ".join(filter(None, (why.context, why.problem)))
        raise file_problem(name, line, (), "YAML as vcrpy writes it", found) from None
    except (yaml.YAMLError, ValueError, RecursionError) as why:
        raise file_problem(name, None, (), "YAML as vcrpy writes it", " ".join(str(why).split())) from None


@cache
def _loader() -> Any:
    """Give PyYAML's safe loader, in C if it can be, with the tags that older vcrpy wrote for plain values."""
    import yaml

    # libyaml reads a recording several times as fast as Python does.
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("CassetteLoader", (base,), {})
    for kind in ("str", "unicode"):
        loader.add_constructor(f"tag:yaml.org,2002:python/{kind}", base.construct_scalar)
    loader.add_constructor("tag:yaml.org,2002:python/tuple", base.construct_sequence)
    return loader


def line_of(text: str, path: KeyPath) -> int | None:
    """Give the line on which a part of the file stands, or that of its nearest parent that exists."""
    import yaml

    try:
        node: Any = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return None
    line = node.start_mark.line
    for step in path:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            if step not in pairs:
                break
            key, node = pairs[step]
            line = key.start_mark.line
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line
    return int(line) + 1

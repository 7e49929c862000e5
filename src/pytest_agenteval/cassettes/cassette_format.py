"""The text of a cassette file, read and written; what is wrong with it is named by its line.

PyYAML would escape an emoji and with it the whole body around it; the shape of a cassette is fixed, so
writing it takes less than telling a library how."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_agenteval.cassettes.interaction import (
    CHAT,
    HTTP_REQUEST,
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


class CassetteFormatError(Exception):
    """One part of the file is not what it should be."""

    def __init__(self, path: KeyPath, expected: str, found: str, hint: str = "") -> None:
        super().__init__(expected)
        self.path, self.expected, self.found, self.hint = path, expected, found, hint


def interactions_in(data: Any) -> tuple[Interaction, ...]:
    """Read the parsed content of a file; raises CassetteFormatError, which names the place."""
    top = _read_map(data, (), "a map with interactions and version")
    version = top.get("version", VERSION)
    if version != VERSION:
        newer = "a newer program wrote this file; update pytest-agenteval, or record the file again"
        raise CassetteFormatError(("version",), f"version {VERSION}", f"version {version!r}", newer)
    listed = top.get("interactions")
    if not isinstance(listed, list):
        raise CassetteFormatError(("interactions",), "a list of interactions", describe_value(listed))
    return tuple(_read_interaction(item, ("interactions", at)) for at, item in enumerate(listed))


def describe_value(value: object) -> str:
    """Say what a value is, in an author's words."""
    whole = {type(None): "nothing", dict: "a map", list: "a list", bytes: "binary"}
    scalar = {str: " (text)", bool: " (yes or no)", int: " (a number)", float: " (a number)"}
    return whole.get(type(value), f"{value!r:.60}{scalar.get(type(value), '')}")


def _read_interaction(item: Any, path: KeyPath) -> Interaction:
    pair = _read_map(item, path, "a map with request and response")
    read = Interaction(
        _read_request(pair.get("request"), (*path, "request")),
        _read_response(pair.get("response"), (*path, "response")),
    )
    uri = read.request.uri
    if not uri.startswith((TOOL, CHAT)):
        return read
    # Tool calls and chats can be written by hand: their JSON is checked here, not when it is played.
    if uri.startswith(CHAT) and not re.fullmatch(r"chat://[^/]+/[^/]+/\d+/\d+", uri):
        raise CassetteFormatError(
            (*path, "request", "uri"), "chat://<role>/<model>/<repetition>/<ask number>", repr(uri)
        )
    _json_map(read.request.body, (*path, "request", "body"), "a JSON map")
    if HTTP_REQUEST in read.response.extra:
        _read_request(read.response.extra[HTTP_REQUEST], (*path, "response", HTTP_REQUEST))
        return read
    expected = 'a JSON map with "result" or "error"' if uri.startswith(TOOL) else "a JSON map"
    place = (*path, "response", "body", "string")
    answer = _json_map(read.response.body, place, expected)
    if uri.startswith(TOOL) and not answer.keys() & {"result", "error"}:
        raise CassetteFormatError(place, expected, f"the keys {', '.join(answer) or '(none)'}")
    return read


def _read_request(item: Any, path: KeyPath) -> Request:
    given = _read_map(item, path, "a map with method, uri, body and headers")
    for key in given:
        if key not in ("method", "uri", "body", "headers"):
            raise CassetteFormatError(
                (*path, key), "one of body, headers, method, uri", f"unknown key {key!r}"
            )
    return Request(
        _read_text(given.get("method"), (*path, "method")),
        _read_text(given.get("uri"), (*path, "uri")),
        _read_body(given.get("body"), (*path, "body")),
        _read_headers(given.get("headers"), (*path, "headers")),
    )


def _read_response(item: Any, path: KeyPath) -> Response:
    given = _read_map(item, path, "a map with status, headers and body")
    status = _read_map(given.get("status"), (*path, "status"), "a map with code and message")
    body = _read_map(
        given.get("body") or {}, (*path, "body"), "a map with the text of the body under 'string'"
    )
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
        _read_headers(given.get("headers"), (*path, "headers")),
        _read_body(body.get("string"), (*path, "body", "string")),
        {str(key): value for key, value in given.items() if key not in ("status", "headers", "body")},
    )


def _read_headers(value: Any, path: KeyPath) -> Headers:
    given = _read_map(value or {}, path, "a map of header names to lists of texts")
    headers: dict[str, tuple[str, ...]] = {}
    for name, values in given.items():
        texts = []
        # A header may be one text in place of a list, bytes, or a number, as YAML reads ``[3]``.
        for item in values if isinstance(values, list | tuple) else [values]:
            if isinstance(item, bytes):
                texts.append(item.decode("latin-1"))
            else:
                texts.append(str(item) if isinstance(item, int) else _read_text(item, (*path, name)))
        headers[str(name)] = tuple(texts)
    return headers


def _read_body(value: Any, path: KeyPath) -> Body:
    if value is None or isinstance(value, str | bytes):
        return value
    raise CassetteFormatError(
        path, "text, binary or nothing", describe_value(value), "put the body in quotes, or below a '|'"
    )


def _read_text(value: Any, path: KeyPath) -> str:
    if isinstance(value, str):
        return value
    raise CassetteFormatError(path, "a text", describe_value(value))


def _read_map(value: Any, path: KeyPath, expected: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise CassetteFormatError(path, expected, describe_value(value))


def _json_map(body: Body, path: KeyPath, expected: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text_of(body))
    except (ValueError, RecursionError) as why:
        raise CassetteFormatError(path, expected, f"no JSON: {why}") from None
    return _read_map(value, path, expected)


def file_problem(
    name: str, line: int | None, path: KeyPath, expected: str, found: str, hint: str = ""
) -> ProblemsFound:
    """Make the error for one place of one file; ``line`` counts from 1."""
    return ProblemsFound([Problem(name, line, path, expected, found, hint)])


def parse_text(text: str, is_json: bool, name: str) -> Any:
    """Read plain data; what cannot be read is a problem with its line."""
    if is_json:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as why:
            raise file_problem(name, getattr(why, "lineno", None), (), "JSON", str(why)) from None
    # Not at the top: a run that plays no recordings does without PyYAML.
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except yaml.MarkedYAMLError as why:
        line = why.problem_mark.line + 1 if why.problem_mark else None
        found = " ".join(filter(None, (why.context, why.problem)))
        raise file_problem(name, line, (), "YAML as vcrpy writes it", found) from None
    # Besides its own errors PyYAML lets out those of a date such as 2026-13-01, and of a deep nesting.
    except (yaml.YAMLError, ValueError, RecursionError) as why:
        raise file_problem(name, None, (), "YAML as vcrpy writes it", " ".join(str(why).split())) from None


def _loader() -> Any:
    """Give PyYAML's safe loader, in C if it can be: it reads a recording several times as fast."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def line_of(text: str, path: KeyPath) -> int | None:
    """Give the line on which a part of the file stands, or that of its nearest parent that exists."""
    import yaml

    try:
        node: Any = yaml.compose(text, Loader=_loader())
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


# A word that YAML 1.1 takes for a boolean or for nothing is not written bare, nor is what begins with a
# digit: 010 would come back as 8, 12:30 as 750 and 2026-01-01 as a date.
_UNQUOTED = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./+%-]|:(?=[A-Za-z0-9/]))*")
# The words that YAML 1.1 reads as a boolean or as nothing, in any case of letters.
_WORDS = re.compile(r"true|false|yes|no|on|off|null|y|n", re.I)
# Control characters, the line breaks that YAML knows beside \n, the byte order mark and non-characters.
_HIDDEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff"
_QUOTABLE = re.compile(f"[^\t\n{_HIDDEN}]*")
# No white space at the beginning, which YAML would take for indentation, nor at the end of a line or of the
# text, which editors remove.
_BLOCK = re.compile(
    rf"(?![ \t\n])(?:[^{_HIDDEN}\n]*[^{_HIDDEN}\n \t]\n|\n)*[^{_HIDDEN}\n]*[^{_HIDDEN}\n \t]\n?"
)
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def yaml_text(interactions: Iterable[Interaction], header: str, rest: Mapping[str, Any]) -> str:
    """Write a whole file as YAML; ``header`` is comment lines, ``rest`` other keys that the file had."""
    lines = [line for interaction in interactions for line in _interaction_lines(interaction)]
    other_keys = [f"{_scalar(key)}: {_flow(value)}" for key, value in rest.items()]
    top = ["interactions:", *lines] if lines else ["interactions: []"]
    if header and not header.endswith("\n"):
        header += "\n"
    return header + "\n".join([*top, f"version: {VERSION}", *other_keys]) + "\n"


def json_text(interactions: Iterable[Interaction], rest: Mapping[str, Any]) -> str:
    """Write a whole file as JSON, which holds neither comments nor binary bodies."""
    plain = []
    for interaction in interactions:
        request, response = interaction.request, interaction.response
        if as_bytes(request.body) is not None or as_bytes(response.body) is not None:
            hint = "give the cassette a name that ends in .yaml"
            found = f"a binary body: {request.uri}"
            raise CassetteFormatError((), "bodies of text in a .json cassette", found, hint)
        sent = {
            "method": request.method,
            "uri": request.uri,
            "body": request.body,
            "headers": _lists(request.headers),
        }
        received = {
            "status": {"code": response.status, "message": response.message},
            "headers": _lists(response.headers),
            "body": {"string": response.body},
            **response.extra,
        }
        plain.append({"request": sent, "response": received})
    whole = {"interactions": plain, "version": VERSION, **rest}
    return json.dumps(whole, ensure_ascii=False, indent=1, default=str) + "\n"


def _lists(headers: Headers) -> dict[str, list[str]]:
    return {name: list(values) for name, values in headers.items()}


def _interaction_lines(interaction: Interaction) -> Iterator[str]:
    request, response = interaction.request, interaction.response
    yield "- request:"
    yield f"    method: {_scalar(request.method)}"
    yield f"    uri: {_scalar(request.uri)}"
    yield f"    body: {_body_text(request.body, ' ' * 6)}"
    yield from _header_lines(request.headers)
    yield "  response:"
    yield f"    status: {{code: {response.status}, message: {_scalar(response.message)}}}"
    yield from _header_lines(response.headers)
    yield "    body:"
    yield f"      string: {_body_text(response.body, ' ' * 8)}"
    yield from (f"    {_scalar(key)}: {_flow(value)}" for key, value in response.extra.items())


def _header_lines(headers: Headers) -> Iterator[str]:
    yield "    headers:" if headers else "    headers: {}"
    yield from (
        f"      {_scalar(name)}: [{', '.join(map(_scalar, values))}]" for name, values in headers.items()
    )


def _body_text(body: Body, indent: str) -> str:
    if body is None:
        return "null"
    raw = as_bytes(body)
    if raw is not None:
        # Lines of 76 characters, as PyYAML writes them for vcrpy.
        lines = base64.encodebytes(raw).decode("ascii").splitlines()
        return "\n".join(["!!binary |", *(indent + line for line in lines)])
    text = str(body)
    return _block(text, indent) if "\n" in text and _BLOCK.fullmatch(text) else _scalar(text)


def as_bytes(body: Body) -> bytes | None:
    """Give the bytes of a body that no UTF-8 file can hold as text, else None."""
    if isinstance(body, str):
        try:
            body.encode("utf-8")
            return None
        # A lone surrogate, which no UTF-8 text holds.
        except UnicodeEncodeError:
            return body.encode("utf-8", "surrogatepass")
    return body


def _block(text: str, indent: str) -> str:
    """Write lines as they are; only for texts in which an editor would change nothing."""
    mark = "|" if text.endswith("\n") else "|-"
    return "\n".join([mark, *(indent + line if line else "" for line in text.removesuffix("\n").split("\n"))])


def _scalar(text: str) -> str:
    """Write a text in one line: bare if it cannot be taken for anything else, else quoted."""
    if _UNQUOTED.fullmatch(text) and not _WORDS.fullmatch(text):
        return text
    if _QUOTABLE.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    # JSON's quoted texts are YAML's too, but for some characters that JSON does not escape.
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(whole, ensure_ascii=False))


def _flow(value: Any) -> str:
    """Write any other JSON value in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(key))}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value) if isinstance(value, str) else json.dumps(value, default=str)

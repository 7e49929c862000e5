"""Writes the text of a cassette file: readable in any script, and exact to the last byte when read again.

PyYAML would escape an emoji and with it the whole body around it; the shape of a cassette is fixed, so
writing it takes less than telling a library how.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_agenteval.cassettes.interaction import Body, Headers, Interaction
from pytest_agenteval.cassettes.validation import VERSION, CassetteFormatError

# A word that YAML 1.1 takes for a boolean or for nothing is not written bare, nor is what begins with a
# digit: 010 would come back as 8, 12:30 as 750 and 2026-01-01 as a date.
_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./+%-]|:(?=[A-Za-z0-9/]))*")
_WORDS = re.compile(r"true|false|yes|no|on|off|null|y|n", re.I)
# Control characters, the line breaks that YAML knows beside \n, the byte order mark and non-characters.
_HIDDEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff"
_QUOTABLE = re.compile(f"[^\t\n{_HIDDEN}]*")
_BLOCK = re.compile(
    rf"(?![ \t\n])(?:[^{_HIDDEN}\n]*[^{_HIDDEN}\n \t]\n|\n)*[^{_HIDDEN}\n]*[^{_HIDDEN}\n \t]\n?"
)
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def yaml_text(interactions: Iterable[Interaction], header: str, rest: Mapping[str, Any]) -> str:
    """Write a whole file as YAML; ``header`` is comment lines, ``rest`` other keys that the file had."""
    lines = [line for interaction in interactions for line in _interaction(interaction)]
    other_keys = [f"{_scalar(key)}: {_flow(value)}" for key, value in rest.items()]
    top = ["interactions:", *lines] if lines else ["interactions: []"]
    if header and not header.endswith("\n"):
        header += "\n"
    return header + "\n".join([*top, f"version: {VERSION}", *other_keys]) + "\n"


def json_text(interactions: Iterable[Interaction], rest: Mapping[str, Any]) -> str:
    """Write a whole file as JSON, which holds neither comments nor binary bodies."""
    whole = {"interactions": list(map(_plain, interactions)), "version": VERSION, **rest}
    return json.dumps(whole, ensure_ascii=False, indent=1, default=str) + "\n"


def _plain(interaction: Interaction) -> dict[str, Any]:
    request, response = interaction.request, interaction.response
    for body in (request.body, response.body):
        if as_bytes(body) is not None:
            hint = "give the cassette a name that ends in .yaml"
            raise CassetteFormatError(
                (), "bodies of text in a .json cassette", f"a binary body: {request.uri}", hint
            )
    plain_request = {
        "method": request.method,
        "uri": request.uri,
        "body": request.body,
        "headers": _lists(request.headers),
    }
    status = {"code": response.status, "message": response.message}
    answer = {"status": status, "headers": _lists(response.headers), "body": {"string": response.body}}
    return {"request": plain_request, "response": {**answer, **response.extra}}


def _lists(headers: Headers) -> dict[str, list[str]]:
    return {name: list(values) for name, values in headers.items()}


def _interaction(interaction: Interaction) -> Iterator[str]:
    request, response = interaction.request, interaction.response
    yield "- request:"
    yield f"    method: {_scalar(request.method)}"
    yield f"    uri: {_scalar(request.uri)}"
    yield f"    body: {_body(request.body, ' ' * 6)}"
    yield from _headers(request.headers)
    yield "  response:"
    yield f"    status: {{code: {response.status}, message: {_scalar(response.message)}}}"
    yield from _headers(response.headers)
    yield "    body:"
    yield f"      string: {_body(response.body, ' ' * 8)}"
    yield from (f"    {_scalar(key)}: {_flow(value)}" for key, value in response.extra.items())


def _headers(headers: Headers) -> Iterator[str]:
    yield "    headers:" if headers else "    headers: {}"
    yield from (
        f"      {_scalar(name)}: [{', '.join(map(_scalar, values))}]" for name, values in headers.items()
    )


def _body(body: Body, indent: str) -> str:
    if body is None:
        return "null"
    raw = as_bytes(body)
    if raw is not None:
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
        except UnicodeEncodeError:
            return body.encode("utf-8", "surrogatepass")
    return body


def _block(text: str, indent: str) -> str:
    """Write lines as they are; only for texts in which an editor would change nothing."""
    mark = "|" if text.endswith("\n") else "|-"
    return "\n".join([mark, *(indent + line if line else "" for line in text.removesuffix("\n").split("\n"))])


def _scalar(text: str) -> str:
    """Write a text in one line: bare if it cannot be taken for anything else, else quoted."""
    if _PLAIN.fullmatch(text) and not _WORDS.fullmatch(text):
        return text
    if _QUOTABLE.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(whole, ensure_ascii=False))


def _flow(value: Any) -> str:
    """Write any other JSON value in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(key))}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value) if isinstance(value, str) else json.dumps(value, default=str)

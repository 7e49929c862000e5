"""What a cassette holds: requests with the responses they got; tool calls and chats are written as such."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.json_values import canonical_json, plain_json

Body: TypeAlias = "str | bytes | None"
Headers: TypeAlias = Mapping[str, Sequence[str]]

NOTHING: Mapping[str, Any] = MappingProxyType({})
ONE_LINE = 100
TOOL, CHAT = "tool://", "chat://"


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request; a UTF-8 body is text, headers have tuples of values."""

    method: str
    uri: str
    body: Body = None
    headers: Headers = field(default_factory=lambda: NOTHING)

    def __post_init__(self) -> None:
        _settle(self)


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response; ``extra`` has what else a library notes, such as the final ``url``."""

    status: int
    message: str = ""
    headers: Headers = field(default_factory=lambda: NOTHING)
    body: Body = None
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    def __post_init__(self) -> None:
        _settle(self)


class Interaction(FrozenValue, frozen=True):
    """One request with its response."""

    request: Request
    response: Response


HTTP_REQUEST = "http_request"
"""The key of a recorded response that holds what a tool's call sent to its provider."""


def with_http_request(response: Response, request: Request) -> Response:
    """Give a provider's response to a tool's call, with the request that was sent for the call."""
    sent: dict[str, Any] = {"method": request.method, "uri": request.uri}
    if request.headers:
        sent["headers"] = {name: list(values) for name, values in request.headers.items()}
    if request.body is not None:
        sent["body"] = request.body
    return replace(response, extra={**response.extra, HTTP_REQUEST: sent})


def http_request_of(response: Response) -> Request | None:
    """Give what was sent for a tool's call; None where the response is no provider's."""
    sent = response.extra.get(HTTP_REQUEST)
    if sent is None:
        return None
    return Request(sent["method"], sent["uri"], sent.get("body"), sent.get("headers", NOTHING))


def is_http_exchange(interaction: Interaction) -> bool:
    """Whether a server answered: with a chat, and a call of a tool without HTTP, that is not so."""
    has_request = HTTP_REQUEST in interaction.response.extra
    return has_request or not interaction.request.uri.startswith((TOOL, CHAT))


class ToolAnswer(FrozenValue, frozen=True):
    """What a recorded tool gave back: a result, or an error as the map ``{"type", "message"}``."""

    result: Any = None
    error: Mapping[str, Any] | None = None


def tool_request(tool: str, args: Mapping[str, Any]) -> Request:
    """Write a tool call as a POST to ``tool://<name>``: equal arguments give an equal request."""
    # Canonical JSON: the order of keys is no part of a call.
    return Request("POST", TOOL + _segment(tool), utf8_json(canonical_json(args)))


def tool_response(result: object = None, *, error: Mapping[str, Any] | None = None) -> Response:
    """Write what the tool gave back; the keys of a result stay in the tool's own order."""
    # Not canonical: the agent is to see a result as the tool gave it.
    if error is None:
        return Response(200, "OK", body=_readable({"result": result}))
    return Response(500, "Tool Error", body=_readable({"error": error}))


def tool_interaction(
    tool: str, args: Mapping[str, Any], *, result: object = None, error: Mapping[str, Any] | None = None
) -> Interaction:
    return Interaction(tool_request(tool, args), tool_response(result, error=error))


def tool_call(request: Request) -> tuple[str, dict[str, Any]]:
    return unquote(request.uri.removeprefix(TOOL)), json.loads(text_of(request.body))


def tool_answer(response: Response) -> ToolAnswer:
    """Read back what the tool gave; the body decides, not the status."""
    answer = json.loads(text_of(response.body))
    return ToolAnswer(answer.get("result"), answer.get("error"))


UNREACHABLE = "unreachable"
"""The type of a tool's error if its provider did not answer."""


def is_unanswered(interaction: Interaction) -> bool:
    """Whether it is a call of a tool whose provider did not answer."""
    if not interaction.request.uri.startswith(TOOL) or is_http_exchange(interaction):
        return False
    error = tool_answer(interaction.response).error
    return error is not None and error.get("type") == UNREACHABLE


def chat_request(role: str, model: str, repetition: int, ask: int, prompt: Mapping[str, Any]) -> Request:
    """Write an ask as a POST to ``chat://<role>/<model>/<repetition>/<ask number>``."""
    # With all four in the address, no two asks of a run share one.
    return Request("POST", f"{CHAT}{_segment(role)}/{_segment(model)}/{repetition}/{ask}", _readable(prompt))


def chat_response(reply: Mapping[str, Any]) -> Response:
    return Response(200, "OK", body=_readable(reply))


def chat_place(request: Request) -> tuple[str, str, str, str]:
    """Read back role, model, repetition and ask number."""
    role, model, repetition, ask = request.uri.removeprefix(CHAT).split("/")
    return unquote(role), unquote(model), repetition, ask


def chat_reply(response: Response) -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(text_of(response.body))
    return reply


def text_of(body: Body) -> str:
    """Give a body as text; bytes that are no UTF-8 are read as Latin-1, and no body is an empty text."""
    return body.decode("latin-1") if isinstance(body, bytes) else body or ""


def bytes_of(body: Body) -> bytes:
    """Give a body as the bytes that it was on the wire."""
    return body if isinstance(body, bytes) else (body or "").encode("utf-8", "surrogatepass")


def _settle(half: Request | Response) -> None:
    """Bring body and headers into the one form in which equal ones are equal."""
    # The classes are frozen, and their own ``__setattr__`` refuses.
    if isinstance(half.body, bytes):
        with suppress(UnicodeDecodeError):
            object.__setattr__(half, "body", half.body.decode("utf-8"))
    settled = {name: (it,) if isinstance(it, str) else tuple(it) for name, it in half.headers.items()}
    object.__setattr__(half, "headers", MappingProxyType(settled))


def _readable(value: object) -> str:
    """Write JSON in one short line, else one line for each entry: that is what a diff shows best."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False, default=plain_json)
    if len(line) > ONE_LINE:
        line = json.dumps(value, ensure_ascii=False, allow_nan=False, default=plain_json, indent=2)
    return utf8_json(line)


def utf8_json(text: str) -> str:
    """Escape lone surrogates of a JSON text: models send them, and no file takes them."""
    return re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _segment(text: str) -> str:
    """Escape what cannot stand in the host of a URI; Hangul stays readable."""
    escaped = ""
    for c in text:
        if c.isascii():
            is_plain = c.isalnum() or c in "-_.~"
        else:
            # ``urlsplit`` refuses hosts in which NFKC makes a ``/``, ``?``, ``#``, ``@`` or ``:``.
            is_plain = c.isprintable() and unicodedata.normalize("NFKC", c) == c
            is_plain = is_plain and not "\ud800" <= c <= "\udfff"
        escaped += c if is_plain else quote(c, safe="", errors="replace")
    return escaped

"""Ollama's own chat: JSON lines, arguments as objects, and calls that have no ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_agenteval.cassettes.wire.normal_form import Conversation, ReplyParts, WireCall, normal_role
from pytest_agenteval.cassettes.wire.traffic import (
    Json,
    ModelRequest,
    UnreadableTraffic,
    as_map,
    as_text,
    base64_placeholder,
    function_spec,
    maps_in,
    rest_of,
)
from pytest_agenteval.cassettes.wire.usage import read_usage

# ``NUMBERED`` and the functions ``read_request``, ``read_reply`` and ``join`` are those of ``WireFormat``.
FORMAT = "ollama.chat"
NUMBERED = True

_READ = ("model", "messages", "tools", "stream")


def read_request(body: Json, model: str, streamed: bool) -> ModelRequest:
    """Read a request's body; this API streams by default."""
    conversation = Conversation(numbered=True)
    for message in maps_in(body.get("messages")):
        role, content = normal_role(as_text(message.get("role"))), as_text(message.get("content"))
        if role == "assistant":
            conversation.add_reply(content, _calls(message))
        elif role == "tool":
            name = as_text(message.get("tool_name")) or as_text(message.get("name"))
            conversation.add_result("", content, name=name)
        else:
            images = message.get("images")
            marks = [base64_placeholder("image", it) for it in images] if isinstance(images, list) else []
            conversation.add(role, "\n".join(filter(None, (content, *marks))))
    return ModelRequest(
        FORMAT,
        as_text(body.get("model")) or model,
        tuple(conversation.messages),
        tuple(map(function_spec, maps_in(body.get("tools")))),
        body.get("stream") is not False,
        rest_of(body, *_READ),
    )


def _calls(message: Json) -> list[WireCall]:
    functions = [as_map(call.get("function")) for call in maps_in(message.get("tool_calls"))]
    return [WireCall("", as_text(call.get("name")), call.get("arguments")) for call in functions]


def read_reply(body: Json) -> ReplyParts:
    """Read a whole reply, or the only object of a stream that was cut off, which has ``done: false``."""
    if not isinstance(body.get("message"), dict):
        raise UnreadableTraffic("the reply holds no message")
    message = as_map(body["message"])
    return ReplyParts(
        as_text(message.get("content")),
        _calls(message),
        read_usage(FORMAT, body)[0],
        "incomplete" if body.get("done") is False else as_text(body.get("done_reason")),
        reasoning=as_text(message.get("thinking")),
        model=as_text(body.get("model")),
    )


def join(events: Iterable[Json]) -> Json:
    whole: dict[str, Any] = {}
    message: dict[str, Any] = {"content": "", "thinking": "", "tool_calls": []}
    for event in events:
        piece = as_map(event.get("message"))
        for name in ("content", "thinking"):
            message[name] += as_text(piece.get(name))
        message["tool_calls"] += maps_in(piece.get("tool_calls"))
        whole.update({**rest_of(event), "message": message})
    return whole

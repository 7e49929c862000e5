"""A conversation as OpenAI's responses hold it: a list of items, and instructions apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from pytest_agenteval.cassettes.wire.openai_responses import kind_of, messages_text
from pytest_agenteval.cassettes.wire.traffic import Json, as_map, as_text, maps_in
from pytest_agenteval.records.tool import parse_arguments

_OF_FILES = ("file_id", "file_data", "filename")
_KEPT = {
    "reasoning": ("type", "summary", "content", "encrypted_content"),
    "message": ("type", "role", "phase", "content"),
    "function_call": ("type", "call_id", "name", "arguments"),
}
"""What of an item goes back. Its id does not: it names what the provider may have been told not to keep."""


def instructions_of(messages: Sequence[Mapping[str, Any]]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """Part the instructions at the beginning from the rest, for a provider that may cut a conversation there.

    Without a rest they are what is asked.
    """
    first = list(takewhile(_instructs, messages))
    rest, texts = messages[len(first) :], " ".join(message["content"] for message in first)
    return (texts, rest) if rest else ("", [{"role": "system", "content": texts}] if first else [])


def _instructs(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "system" and isinstance(message.get("content"), str)


def items_of(message: Mapping[str, Any], echoes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give a message's items; a reply that led to calls is as the model gave it, thoughts and all."""
    role, content = as_text(message.get("role")), message.get("content") or ""
    if role == "tool":
        id, output = message.get("tool_call_id"), _parts(content, "tool")
        return [{"type": "function_call_output", "call_id": id, "output": output}]
    calls = maps_in(message.get("tool_calls"))
    echo = echoes.get(as_text(calls[0].get("id"))) if calls else None
    if echo and _says_the_same(echo, as_text(content), calls):
        return list(echo)
    said = content or not calls
    spoken = [{"type": "message", "role": role, "content": _parts(content, role)}] if said else []
    return [*spoken, *map(_call, calls)]


def echo_in(items: Sequence[Json]) -> list[dict[str, Any]] | None:
    """Give a reply's items as they go back, where thoughts among them led to calls and can be sent."""
    kinds = set(map(kind_of, items))
    thoughts = [item for item in items if kind_of(item) == "reasoning"]
    sendable = all(as_text(item.get("encrypted_content")) for item in thoughts)
    if not (thoughts and sendable and "function_call" in kinds and kinds <= _KEPT.keys()):
        return None
    return [_echoed(item) for item in items]


def _echoed(item: Json) -> dict[str, Any]:
    kept = {name: item[name] for name in _KEPT[kind_of(item)] if item.get(name) is not None}
    if kept.get("type") == "message":
        parts = maps_in(kept.get("content"))
        kept["content"] = [{"type": "output_text", "text": messages_text([{**item, "content": parts}])}]
    return kept


def _says_the_same(echo: Sequence[Json], text: str, calls: Sequence[Json]) -> bool:
    """Whether a message still is the reply that an echo was kept of: an agent may have changed it."""
    echoed = [item for item in echo if kind_of(item) == "function_call"]
    written = [_call(call) for call in calls]
    return messages_text(echo) == text and list(map(_meaning, echoed)) == list(map(_meaning, written))


def _meaning(call: Json) -> tuple[Any, ...]:
    return call.get("call_id"), call.get("name"), parse_arguments(as_text(call.get("arguments")) or "{}")


def _call(call: Json) -> dict[str, Any]:
    function = as_map(call.get("function"))
    named = {name: function[name] for name in ("name", "arguments") if name in function}
    return {"type": "function_call", "call_id": call.get("id"), **named}


def _parts(content: Any, role: str) -> list[dict[str, Any]]:
    if isinstance(content, list | tuple):
        return [_part(part, role) for part in content]
    return [_text(content, role)]


def _part(part: Any, role: str) -> dict[str, Any]:
    """Write a part of a message; one that is none of chat completions' is the API's own."""
    kind = as_map(part).get("type")
    if kind == "image_url":
        image = part[kind] if isinstance(part[kind], dict) else {"url": part[kind]}
        detail = as_text(image.get("detail")) or "auto"
        return {"type": "input_image", "image_url": image.get("url"), "detail": detail}
    if kind == "file":
        file = {name: value for name, value in as_map(part.get(kind)).items() if name in _OF_FILES}
        named = {"filename": "file.pdf"} if "file_data" in file else {}
        return {"type": "input_file", **named, **file}
    if isinstance(part, dict) and kind != "text":
        return dict(part)
    return _text(as_map(part).get("text", part), role)


def _text(text: Any, role: str) -> dict[str, Any]:
    return {"type": "output_text" if role == "assistant" else "input_text", "text": text}

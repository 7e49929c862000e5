"""Items of OpenAI's responses: what they say, and which calls they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_agenteval.cassettes.wire.attachments import (
    base64_placeholder,
    data_placeholder,
    placeholder,
    url_placeholder,
)
from pytest_agenteval.cassettes.wire.json_body import as_map, as_text, maps, rest_of
from pytest_agenteval.cassettes.wire.normal_form import WireCall
from pytest_agenteval.cassettes.wire.traffic import Json
from pytest_agenteval.records.transcript import ToolError
from pytest_agenteval.text.canonical import compact

OWN_CALLS = (
    "function_call",
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
)
"""Calls that the client answers, by an item of the same type with ``_output`` behind it."""
_RESULTS = ("result", "results", "output", "outputs")


def kind_of(item: Json) -> str:
    """Give an item's type; a message may leave it out."""
    return as_text(item.get("type")) or ("message" if "role" in item else "")


def text_of(content: Any, between: str = "\n") -> str:
    """Give an item's content as a text, be it one, or parts of which some are no text."""
    if isinstance(content, str):
        return content
    return between.join(filter(None, map(_part, maps(content))))


def _part(part: Json) -> str:
    kind = as_text(part.get("type"))
    if kind in ("input_image", "computer_screenshot"):
        url = as_text(part.get("image_url"))
        return url_placeholder("image", url) if url else placeholder("image", as_text(part.get("file_id")))
    if kind == "input_audio":
        audio = as_map(part.get("input_audio"))
        return base64_placeholder("audio", audio.get("data"), as_text(audio.get("format")))
    if kind == "input_file":
        name = as_text(part.get("filename"))
        if data := as_text(part.get("file_data")):
            return data_placeholder("file", data, name)
        if url := as_text(part.get("file_url")):
            return url_placeholder("file", url, name)
        return placeholder("file", name, as_text(part.get("file_id")))
    return as_text(part.get("text")) or as_text(part.get("refusal"))


def output_text(output: Any) -> str:
    """Give what a client's tool gave as a text."""
    if isinstance(output, list) and all(isinstance(part, dict) and "type" in part for part in output):
        return text_of(output)
    if isinstance(output, dict) and output.get("type") == "computer_screenshot":
        return _part(output)
    return output if isinstance(output, str) else "" if output is None else compact(output)


def said_in(items: Iterable[Json]) -> str:
    """Give what the messages among items say; parts follow each other without a break."""
    return "".join(text_of(item.get("content"), "") for item in items if kind_of(item) == "message")


def calls_in(items: Iterable[Json]) -> list[WireCall]:
    """Give the calls among items, those of the provider's with their results."""
    return [_call(item, kind_of(item)) for item in items if kind_of(item).endswith("_call")]


def _call(item: Json, kind: str) -> WireCall:
    if kind not in OWN_CALLS:
        return _provider_call(item, kind)
    id = as_text(item.get("call_id")) or as_text(item.get("id"))
    arguments = next((item[name] for name in ("arguments", "input") if name in item), None)
    if kind not in ("function_call", "custom_tool_call"):
        arguments = item.get("action") or item.get("actions") or item.get("operation")
    return WireCall(id, as_text(item.get("name")) or kind.removesuffix("_call"), arguments)


def _provider_call(item: Json, kind: str) -> WireCall:
    """Read a call that the provider has carried out itself, with what came of it."""
    result = next((item[name] for name in _RESULTS if item.get(name) is not None), None)
    if kind == "image_generation_call":
        result = base64_placeholder("image", result, f"image/{as_text(item.get('output_format')) or 'png'}")
    asked = item.get("arguments") or item.get("action") or rest_of(item, *_OF_CALL, *_RESULTS)
    name = as_text(item.get("name")) or kind.removesuffix("_call")
    return WireCall(as_text(item.get("id")), name, asked, "provider", result, _error(item))


_OF_CALL = ("id", "type", "status", "error", "server_label", "name", "arguments", "approval_request_id")


def _error(item: Json) -> ToolError | None:
    error = item.get("error")
    if not error and item.get("status") != "failed":
        return None
    kind = as_text(as_map(error).get("type")) or "tool_error"
    message = as_text(as_map(error).get("message")) or (as_text(error) or compact(error or "failed"))
    return ToolError(kind, message)

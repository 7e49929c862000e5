"""OpenAI's responses: a request and a reply are lists of items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from pytest_agenteval.canonical import compact
from pytest_agenteval.cassettes.wire.asked import Asked, ReplyParts, usage_of
from pytest_agenteval.cassettes.wire.attachments import told, told_base64, told_url
from pytest_agenteval.cassettes.wire.json_body import as_count, as_map, as_text, maps, rest_of
from pytest_agenteval.cassettes.wire.normal_form import Conversation, WireCall, normal_role
from pytest_agenteval.cassettes.wire.tool_specs import function_spec
from pytest_agenteval.cassettes.wire.traffic import Json, ModelReply, ModelRequest, UnreadableTraffic
from pytest_agenteval.records.transcript import ToolError, Usage

FORMAT = "openai.responses"
NUMBERED = False

_READ = ("model", "input", "instructions", "tools", "stream", "stream_options")
_CONTINUED = ("previous_response_id", "conversation")
_OWN_CALLS = (
    "function_call",
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
)
"""Calls that the client answers, by an item of the same type with ``_output`` behind it."""

_RESULTS = ("result", "results", "output", "outputs")
_ENDINGS = ("response.completed", "response.incomplete", "response.failed", "response.done")


def read_request(body: Json, model: str, streamed: bool) -> ModelRequest:
    """Read a request's body; ``model`` and ``streamed`` are what the path says of both."""
    conversation = Conversation()
    instructions = body.get("instructions")
    if isinstance(instructions, str):
        conversation.add("system", instructions)
    items = body.get("input")
    _add_items(conversation, [{"role": "user", "content": items}] if isinstance(items, str) else maps(items))
    return ModelRequest(
        FORMAT,
        as_text(body.get("model")) or model,
        tuple(conversation.messages),
        tuple(map(function_spec, maps(body.get("tools")))),
        bool(body.get("stream")) or streamed,
        rest_of(body, *_READ, *_CONTINUED),
        _continues(body),
    )


def _continues(body: Json) -> str:
    conversation = body.get("conversation")
    id = as_map(conversation).get("id") if isinstance(conversation, dict) else conversation
    return as_text(body.get("previous_response_id")) or as_text(id)


def _add_items(conversation: Conversation, items: Sequence[Json]) -> None:
    """Add items; what a model said and called at once is one message, as it is one reply."""
    for said, group in groupby(items, _is_said):
        listed = list(group)
        if not said:
            for item in listed:
                _add_item(conversation, item, _kind(item))
        elif any(map(_speaks, listed)):
            conversation.add_reply(_text(listed), _calls(listed))


def _add_item(conversation: Conversation, item: Json, kind: str) -> None:
    if kind.endswith("_output"):
        id = as_text(item.get("call_id")) or as_text(item.get("id"))
        conversation.add_result(id, _output(item.get("output")))
    elif kind == "message":
        conversation.add(as_text(item.get("role")), text_of(item.get("content")))


def _kind(item: Json) -> str:
    return as_text(item.get("type")) or ("message" if "role" in item else "")


def _is_said(item: Json) -> bool:
    kind = _kind(item)
    if kind == "message":
        return normal_role(as_text(item.get("role"))) == "assistant"
    return kind.endswith("_call") or kind in ("reasoning", "mcp_list_tools", "compaction", "item_reference")


def _speaks(item: Json) -> bool:
    kind = _kind(item)
    return kind == "message" or kind in _OWN_CALLS


def text_of(content: Any, between: str = "\n") -> str:
    """Give an item's content as a text, be it one, or parts of which some are no text."""
    if isinstance(content, str):
        return content
    return between.join(filter(None, map(_part, maps(content))))


def _part(part: Json) -> str:
    kind = as_text(part.get("type"))
    if kind in ("input_image", "computer_screenshot"):
        url = as_text(part.get("image_url"))
        return told_url("image", url) if url else told("image", as_text(part.get("file_id")))
    if kind == "input_audio":
        audio = as_map(part.get("input_audio"))
        return told_base64("audio", audio.get("data"), as_text(audio.get("format")))
    if kind == "input_file":
        name = as_text(part.get("filename"))
        if url := as_text(part.get("file_data")) or as_text(part.get("file_url")):
            return told_url("file", url, name)
        return told("file", name, as_text(part.get("file_id")))
    return as_text(part.get("text")) or as_text(part.get("refusal"))


def _output(output: Any) -> str:
    """Give what a client's tool gave as a text."""
    if isinstance(output, list) and all(isinstance(part, dict) and "type" in part for part in output):
        return text_of(output)
    if isinstance(output, dict) and output.get("type") == "computer_screenshot":
        return _part(output)
    return output if isinstance(output, str) else "" if output is None else compact(output)


def _text(items: Iterable[Json]) -> str:
    return "".join(text_of(item.get("content"), "") for item in items if _kind(item) == "message")


def _calls(items: Iterable[Json]) -> list[WireCall]:
    return [_call(item, _kind(item)) for item in items if _kind(item).endswith("_call")]


def _call(item: Json, kind: str) -> WireCall:
    if kind not in _OWN_CALLS:
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
        result = told_base64("image", result, f"image/{as_text(item.get('output_format')) or 'png'}")
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


def read_reply(body: Json, asked: Asked) -> ModelReply:
    """Read a whole reply."""
    if not isinstance(body.get("output"), list):
        raise UnreadableTraffic("the reply holds no output")
    items = maps(body["output"])
    parts = [part for item in items for part in maps(item.get("content")) if _kind(item) == "message"]
    return asked.reply(
        ReplyParts(
            _text(items),
            _calls(items),
            _usage(as_map(body.get("usage"))),
            _finish(body),
            any(part.get("type") == "refusal" for part in parts),
            "\n\n".join(filter(None, map(_thought, items))),
            as_text(body.get("model")),
            as_text(body.get("id")),
            {item["id"]: item for item in items if as_text(item.get("id"))},
        )
    )


def _thought(item: Json) -> str:
    if _kind(item) != "reasoning":
        return ""
    parts = maps(item.get("content")) or maps(item.get("summary"))
    return "\n\n".join(as_text(part.get("text")) for part in parts)


def _finish(body: Json) -> str:
    status = as_text(body.get("status"))
    if status in ("", "completed"):
        return "stop"
    reason = as_text(as_map(body.get("incomplete_details")).get("reason"))
    return "length" if reason == "max_output_tokens" else reason or status


def _usage(usage: Json) -> Usage:
    return usage_of(
        usage.get("input_tokens"),
        usage.get("output_tokens"),
        cached=as_map(usage.get("input_tokens_details")).get("cached_tokens"),
        reasoning=as_map(usage.get("output_tokens_details")).get("reasoning_tokens"),
        cost=usage.get("cost"),
    )


def join(events: Iterable[Json]) -> Json:
    """Give the whole reply that a stream's events make."""
    whole: dict[str, Any] = {}
    items: dict[int, Json] = {}
    for event in events:
        kind, place = as_text(event.get("type")), as_count(event.get("output_index"))
        if kind in ("response.output_item.added", "response.output_item.done"):
            items[place] = as_map(event.get("item"))
        elif kind.endswith(".delta"):
            items[place] = _with_delta(as_map(items.get(place)), kind, as_text(event.get("delta")))
        if held := as_map(event.get("response")):
            whole = {**held, "ended": kind in _ENDINGS}
    if not (whole or items):
        return {}
    if not maps(whole.get("output")):  # cut off, or a server that tells the items only one by one
        whole["output"] = [items[place] for place in sorted(items)]
    return whole if whole.get("ended") else {**whole, "status": "incomplete"}


def _with_delta(item: Json, kind: str, delta: str) -> Json:
    """Put a piece into an item that never came whole: the text of a message, or a call's arguments."""
    if kind in ("response.output_text.delta", "response.refusal.delta"):
        return {**item, "type": "message", "content": text_of(item.get("content"), "") + delta}
    if kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
        name = "arguments" if kind.startswith("response.function") else "input"
        return {**item, name: as_text(item.get(name)) + delta}
    return item

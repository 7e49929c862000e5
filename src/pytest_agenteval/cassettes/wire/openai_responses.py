"""OpenAI's responses: a request and a reply are lists of items."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from pytest_agenteval.cassettes.wire.normal_form import Conversation, ReplyParts, WireCall, normal_role
from pytest_agenteval.cassettes.wire.traffic import (
    Json,
    ModelRequest,
    UnreadableTraffic,
    as_map,
    as_text,
    base64_placeholder,
    data_placeholder,
    function_spec,
    joined_text,
    maps_in,
    placeholder,
    rest_of,
    url_placeholder,
)
from pytest_agenteval.cassettes.wire.usage import as_count, read_usage
from pytest_agenteval.records.transcript import ToolError
from pytest_agenteval.text.json_values import compact_json

OWN_CALLS = (
    "function_call", "custom_tool_call", "computer_call",
    "local_shell_call", "shell_call", "apply_patch_call",
)  # fmt: skip
"""Calls that the client answers, by an item of the same type with ``_output`` behind it."""
_RESULTS = ("result", "results", "output", "outputs")


def kind_of(item: Json) -> str:
    """Give an item's type; a message may leave it out."""
    return as_text(item.get("type")) or ("message" if "role" in item else "")


def text_of(content: Any, between: str = "\n") -> str:
    """Give an item's content as a text, be it one, or parts of which some are no text."""
    return joined_text(content, _part, between)


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
    """Give the result of a client's tool as a text; a value that is no text as JSON."""
    if isinstance(output, list) and all(isinstance(part, dict) and "type" in part for part in output):
        return text_of(output)
    if isinstance(output, dict) and output.get("type") == "computer_screenshot":
        return _part(output)
    return output if isinstance(output, str) else "" if output is None else compact_json(output)


def messages_text(items: Iterable[Json]) -> str:
    """Give the text of the messages among items; parts are joined without a break."""
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
    """Read a call that the provider has carried out itself, with its result."""
    result = next((item[name] for name in _RESULTS if item.get(name) is not None), None)
    if kind == "image_generation_call":
        result = base64_placeholder("image", result, f"image/{as_text(item.get('output_format')) or 'png'}")
    about = ("id", "type", "status", "error", "server_label", "name", "arguments", "approval_request_id")
    arguments = item.get("arguments") or item.get("action") or rest_of(item, *about, *_RESULTS)
    name = as_text(item.get("name")) or kind.removesuffix("_call")
    return WireCall(as_text(item.get("id")), name, arguments, "provider", result, _error(item))


def _error(item: Json) -> ToolError | None:
    error = item.get("error")
    if not error and item.get("status") != "failed":
        return None
    message = as_text(as_map(error).get("message")) or as_text(error) or compact_json(error or "failed")
    return ToolError(as_text(as_map(error).get("type")) or "tool_error", message)


# ``NUMBERED`` and the functions ``read_request``, ``read_reply`` and ``join`` are those of ``WireFormat``.
FORMAT = "openai.responses"
NUMBERED = False

_READ = (
    "model", "input", "instructions", "tools", "stream", "stream_options",
    "previous_response_id", "conversation",
)  # fmt: skip
_OWN_RESULTS = tuple(f"{kind}_output" for kind in OWN_CALLS)
_ENDINGS = ("response.completed", "response.incomplete", "response.failed", "response.done")


def read_request(body: Json, model: str, streamed: bool) -> ModelRequest:
    conversation = Conversation()
    instructions = body.get("instructions")
    if isinstance(instructions, str):
        conversation.add("system", instructions)
    items = body.get("input")
    listed = [{"role": "user", "content": items}] if isinstance(items, str) else maps_in(items)
    # Items of the model that follow each other are one reply, and so one message.
    for by_model, group in groupby(listed, _is_model_item):
        run = list(group)
        if by_model:
            if any(kind_of(item) in ("message", *OWN_CALLS) for item in run):
                conversation.add_reply(messages_text(run), calls_in(run))
            continue
        for item in run:
            kind = kind_of(item)
            if kind in _OWN_RESULTS:
                id = as_text(item.get("call_id")) or as_text(item.get("id"))
                conversation.add_result(id, output_text(item.get("output")))
            elif kind == "message":
                conversation.add(as_text(item.get("role")), text_of(item.get("content")))
    prior = body.get("conversation")
    prior_id = as_map(prior).get("id") if isinstance(prior, dict) else prior
    return ModelRequest(
        FORMAT,
        as_text(body.get("model")) or model,
        tuple(conversation.messages),
        tuple(map(function_spec, maps_in(body.get("tools")))),
        bool(body.get("stream")) or streamed,
        rest_of(body, *_READ),
        as_text(body.get("previous_response_id")) or as_text(prior_id),
    )


def _is_model_item(item: Json) -> bool:
    """Whether an item is a model's or its provider's, also one of a type that is not known here."""
    kind = kind_of(item)
    if kind == "message":
        return normal_role(as_text(item.get("role"))) == "assistant"
    return kind not in (*_OWN_RESULTS, "mcp_approval_response")


def read_reply(body: Json) -> ReplyParts:
    if not isinstance(body.get("output"), list):
        raise UnreadableTraffic("the reply holds no output")
    if (status := as_text(body.get("status"))) in ("failed", "cancelled"):
        raise UnreadableTraffic(f"the reply has the status {status}")
    items = maps_in(body["output"])
    parts = [part for item in items for part in maps_in(item.get("content")) if kind_of(item) == "message"]
    usage, priced_apart = read_usage(FORMAT, as_map(body.get("usage")), body.get("service_tier"))
    finish = as_text(body.get("status"))
    if finish in ("", "completed"):
        finish = "stop"
    elif reason := as_text(as_map(body.get("incomplete_details")).get("reason")):
        finish = reason
    return ReplyParts(
        messages_text(items),
        calls_in(items),
        usage,
        finish,
        any(part.get("type") == "refusal" for part in parts),
        "\n\n".join(filter(None, map(_thought, items))),
        as_text(body.get("model")),
        as_text(body.get("id")),
        {item["id"]: item for item in items if as_text(item.get("id"))},
        priced_apart,
    )


def _thought(item: Json) -> str:
    if kind_of(item) != "reasoning":
        return ""
    parts = maps_in(item.get("content")) or maps_in(item.get("summary"))
    return "\n\n".join(as_text(part.get("text")) for part in parts)


def join(events: Iterable[Json]) -> Json:
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
    # The stream was cut off, or its server sends the items one by one alone.
    if not maps_in(whole.get("output")):
        whole["output"] = [items[place] for place in sorted(items)]
    return whole if whole.get("ended") else {**whole, "status": "incomplete"}


def _with_delta(item: Json, kind: str, delta: str) -> Json:
    """Add a piece to an item that may never arrive whole: the text of a message, or a call's arguments."""
    if kind in ("response.output_text.delta", "response.refusal.delta"):
        return {**item, "type": "message", "content": text_of(item.get("content"), "") + delta}
    if kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
        name = "arguments" if kind.startswith("response.function") else "input"
        return {**item, name: as_text(item.get(name)) + delta}
    return item

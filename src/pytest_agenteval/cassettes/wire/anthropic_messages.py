"""Anthropic's messages, as sent to Anthropic, Vertex or Bedrock: content is a list of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_agenteval.cassettes.wire.normal_form import Conversation, ReplyParts, WireCall
from pytest_agenteval.cassettes.wire.traffic import (
    Json,
    ModelRequest,
    UnreadableTraffic,
    as_map,
    as_text,
    base64_placeholder,
    joined_text,
    maps_in,
    placeholder,
    rest_of,
    tool_spec,
    url_placeholder,
)
from pytest_agenteval.cassettes.wire.usage import as_count, read_usage
from pytest_agenteval.records.transcript import ToolError
from pytest_agenteval.text.json_values import compact_json

# ``NUMBERED`` and the functions ``read_request``, ``read_reply`` and ``join`` are those of ``WireFormat``.
FORMAT = "anthropic.messages"
NUMBERED = False

_READ = ("model", "messages", "system", "tools", "stream", "anthropic_version")


def read_request(body: Json, model: str, streamed: bool) -> ModelRequest:
    conversation = Conversation()
    if system := text_of(body.get("system")):
        conversation.add("system", system)
    for message in maps_in(body.get("messages")):
        role, content = as_text(message.get("role")), message.get("content")
        blocks = maps_in(content)
        if role == "assistant":
            conversation.add_reply(text_of(content, ""), _calls(blocks))
            continue
        # A user's message may hold results of tools, and text beside them: each result is a message here.
        results = [block for block in blocks if block.get("type") == "tool_result"]
        for block in results:
            failed, id = block.get("is_error") is True, as_text(block.get("tool_use_id"))
            conversation.add_result(id, text_of(block.get("content")), failed=failed)
        text = text_of(content)
        if text or not results:
            conversation.add(role, text)
    tools = []
    for tool in maps_in(body.get("tools")):
        name = as_text(tool.get("name")) or as_text(tool.get("type"))
        tools.append(tool_spec(name, tool.get("description"), tool.get("input_schema")))
    return ModelRequest(
        FORMAT,
        as_text(body.get("model")) or model,
        tuple(conversation.messages),
        tuple(tools),
        bool(body.get("stream")) or streamed,
        rest_of(body, *_READ),
    )


def text_of(content: Any, between: str = "\n") -> str:
    """Give content as a text, be it one, or blocks of which some are no text; thoughts and calls are none."""
    return joined_text(content, _block_text, between)


def _block_text(block: Json) -> str:
    kind = as_text(block.get("type"))
    if kind in ("image", "document"):
        return _attached(kind, as_map(block.get("source")), as_text(block.get("title")))
    if kind == "search_result":
        return text_of(block.get("content"))
    if kind == "container_upload":
        return placeholder("file", as_text(block.get("file_id")))
    return as_text(block.get("text")) if kind == "text" else ""


def _attached(kind: str, source: Json, title: str) -> str:
    mime = as_text(source.get("media_type"))
    if source.get("type") == "base64":
        return base64_placeholder(kind, source.get("data"), mime, title)
    if source.get("type") == "text":
        return as_text(source.get("data"))
    if source.get("type") == "content":
        return text_of(source.get("content"))
    if url := source.get("url"):
        return url_placeholder(kind, url, title)
    return placeholder(kind, title, as_text(source.get("file_id")))


def _calls(blocks: Sequence[Json]) -> list[WireCall]:
    results = {block.get("tool_use_id"): block for block in blocks if "tool_use_id" in block}
    calls = []
    for block in blocks:
        if block.get("type") not in ("tool_use", "server_tool_use", "mcp_tool_use"):
            continue
        id, name, arguments = as_text(block.get("id")), as_text(block.get("name")), block.get("input")
        # An id that is a map or a list raises TypeError here: the reply is unreadable.
        answer = as_map(results.get(block.get("id")))
        if block.get("type") == "tool_use":
            calls.append(WireCall(id, name, arguments))
            continue
        result, error = _unsealed(answer.get("content")), None
        code = as_text(as_map(result).get("error_code"))
        if code or answer.get("is_error") is True:
            message = as_text(as_map(result).get("error_message")) or text_of(result)
            error = ToolError(code or "tool_error", message or code or compact_json(result))
        calls.append(WireCall(id, name, arguments, "provider", result, error))
    return calls


def _unsealed(content: Any) -> Any:
    """Leave out what only the provider can decrypt, which may be pages long."""
    if isinstance(content, Mapping):
        sealed = ("encrypted_content", "encrypted_index")
        return {name: _unsealed(it) for name, it in content.items() if name not in sealed}
    return [_unsealed(item) for item in content] if isinstance(content, list) else content


def read_reply(body: Json) -> ReplyParts:
    if not isinstance(body.get("content"), list):
        raise UnreadableTraffic("the reply holds no content")
    blocks, reason = maps_in(body["content"]), as_text(body.get("stop_reason"))
    usage, priced_apart = read_usage(FORMAT, as_map(body.get("usage")))
    return ReplyParts(
        text_of(blocks, ""),
        _calls(blocks),
        usage,
        reason,
        reason == "refusal",
        "\n\n".join(as_text(block.get("thinking")) for block in blocks if block.get("thinking")),
        as_text(body.get("model")),
        as_text(body.get("id")),
        priced_apart=priced_apart,
    )


def join(events: Iterable[Json]) -> Json:
    whole: dict[str, Any] = {"stop_reason": "incomplete", "usage": {}}
    # A list for each number, as some servers give each block the number 0.
    blocks: dict[int, list[dict[str, Any]]] = {}
    for event in events:
        kind, place = event.get("type"), as_count(event.get("index"))
        counts = as_map(as_map(event.get("message")).get("usage")) if kind == "message_start" else {}
        if kind == "message_start":
            whole.update(rest_of(as_map(event.get("message")), "content", "stop_reason", "usage"))
        elif kind == "content_block_start":
            blocks.setdefault(place, []).append(dict(as_map(event.get("content_block"))))
        elif kind == "content_block_delta":
            _join_delta(blocks.setdefault(place, [{}])[-1], as_map(event.get("delta")))
        elif kind == "message_delta":
            whole.update(rest_of(as_map(event.get("delta"))))
            counts = as_map(event.get("usage"))
        # Later counts replace earlier ones, but for a 0: some servers count their input at the start alone.
        usage = whole["usage"]
        usage.update({name: count for name, count in rest_of(counts).items() if count or name not in usage})
    if "role" not in whole and not blocks:
        return {}
    content = [block for place in sorted(blocks) for block in blocks[place]]
    for block in content:
        # As text, as they came: the arguments of a stream that was cut off are no JSON object.
        if block.get("partial"):
            block["input"] = block["partial"]
    return {**whole, "content": content}


def _join_delta(block: dict[str, Any], delta: Json) -> None:
    for name in ("text", "thinking", "signature"):
        if name in delta:
            block[name] = as_text(block.get(name)) + as_text(delta.get(name))
    # A server may leave out the event that begins a block, and with it the block's type.
    for name in ("text", "thinking"):
        if name in delta:
            block.setdefault("type", name)
    if "partial_json" in delta:
        block["partial"] = as_text(block.get("partial")) + as_text(delta.get("partial_json"))

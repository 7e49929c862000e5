"""Bedrock's converse: content is a list of blocks, each of which is named by its only key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pytest_agenteval.cassettes.wire.normal_form import Conversation, ReplyParts, WireCall
from pytest_agenteval.cassettes.wire.traffic import (
    Json,
    ModelRequest,
    UnreadableTraffic,
    as_map,
    as_text,
    base64_placeholder,
    maps_in,
    placeholder,
    rest_of,
    tool_spec,
)
from pytest_agenteval.cassettes.wire.usage import as_count, read_usage
from pytest_agenteval.records.transcript import ToolError
from pytest_agenteval.text.json_values import compact_json

# ``NUMBERED`` and the functions ``read_request``, ``read_reply`` and ``join`` are those of ``WireFormat``.
FORMAT = "bedrock.converse"
NUMBERED = False


def read_request(body: Json, model: str, streamed: bool) -> ModelRequest:
    conversation = Conversation()
    if system := text_of(maps_in(body.get("system"))):
        conversation.add("system", system)
    for message in maps_in(body.get("messages")):
        role, blocks = as_text(message.get("role")), maps_in(message.get("content"))
        if role == "assistant":
            conversation.add_reply(text_of(blocks, ""), _calls(blocks))
            continue
        results = [as_map(block["toolResult"]) for block in blocks if "toolResult" in block]
        for result in results:
            failed, id = result.get("status") == "error", as_text(result.get("toolUseId"))
            conversation.add_result(id, text_of(maps_in(result.get("content"))), failed=failed)
        text = text_of(blocks)
        if text or not results:
            conversation.add(role, text)
    config = as_map(body.get("toolConfig"))
    settings = rest_of({**body, "toolChoice": config.get("toolChoice")}, "messages", "system", "toolConfig")
    specs = []
    for tool in maps_in(config.get("tools")):
        if spec := as_map(tool.get("toolSpec")):
            schema = as_map(spec.get("inputSchema")).get("json")
            specs.append(tool_spec(as_text(spec.get("name")), spec.get("description"), schema))
            continue
        # A tool of the provider's is named by its name, or by its only key.
        for kind, held in tool.items():
            if kind != "cachePoint":
                specs.append(tool_spec(as_text(as_map(held).get("name")) or kind, None, None))
    return ModelRequest(FORMAT, model, tuple(conversation.messages), tuple(specs), streamed, settings)


def text_of(blocks: Iterable[Json], between: str = "\n") -> str:
    """Give blocks as a text; thoughts, calls and their results are none."""
    return between.join(filter(None, map(_block_text, blocks)))


def _block_text(block: Json) -> str:
    for kind in ("image", "document", "video", "audio"):
        if held := as_map(block.get(kind)):
            source, form, name = as_map(held.get("source")), as_text(held.get("format")), held.get("name")
            if s3 := as_map(source.get("s3Location")):
                return placeholder(kind, as_text(name), form, as_text(s3.get("uri")))
            return base64_placeholder(kind, source.get("bytes"), form, as_text(name))
    if "json" in block:
        return compact_json(block["json"])
    if guarded := as_map(block.get("guardContent")):
        return as_text(as_map(guarded.get("text")).get("text"))
    if cited := as_map(block.get("citationsContent")):
        return text_of(maps_in(cited.get("content")), "")
    return as_text(block.get("text"))


def _calls(blocks: Sequence[Json]) -> list[WireCall]:
    """Read calls; a server's tool, as Nova's grounding, has its result beside it."""
    results = {it.get("toolUseId"): it for it in (as_map(block.get("toolResult")) for block in blocks)}
    calls = []
    for use in filter(None, (as_map(block.get("toolUse")) for block in blocks)):
        id, name, arguments = as_text(use.get("toolUseId")), as_text(use.get("name")), use.get("input")
        # An id that is a map or a list raises TypeError here: the reply is unreadable.
        answer = as_map(results.get(use.get("toolUseId")))
        if use.get("type") != "server_tool_use":
            calls.append(WireCall(id, name, arguments))
            continue
        text = text_of(maps_in(answer.get("content")))
        error = ToolError("tool_error", text) if answer.get("status") == "error" else None
        calls.append(WireCall(id, name, arguments, "provider", text, error))
    return calls


def read_reply(body: Json) -> ReplyParts:
    message = as_map(as_map(body.get("output")).get("message"))
    if not isinstance(message.get("content"), list):
        raise UnreadableTraffic("the reply holds no message")
    blocks, reason = maps_in(message["content"]), as_text(body.get("stopReason"))
    router = as_map(as_map(body.get("trace")).get("promptRouter"))
    usage, priced_apart = read_usage(FORMAT, as_map(body.get("usage")))
    reasoned = [as_map(as_map(block.get("reasoningContent")).get("reasoningText")) for block in blocks]
    return ReplyParts(
        text_of(blocks, ""),
        _calls(blocks),
        usage,
        reason,
        reasoning="\n\n".join(filter(None, (as_text(thought.get("text")) for thought in reasoned))),
        model=as_text(router.get("invokedModelId")),
        priced_apart=priced_apart,
    )


def join(events: Iterable[Json]) -> Json:
    whole: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    for event in events:
        start, delta = as_map(event.get("contentBlockStart")), as_map(event.get("contentBlockDelta"))
        if start:
            started = as_map(start.get("start")).items()
            blocks[as_count(start.get("contentBlockIndex"))] = {
                kind: dict(as_map(held)) for kind, held in started
            }
        elif delta:
            place = as_count(delta.get("contentBlockIndex"))
            _join_delta(blocks.setdefault(place, {}), as_map(delta.get("delta")))
        whole.update(rest_of(as_map(event.get("messageStop"))))
        whole.update(rest_of(as_map(event.get("metadata"))))
    if not (blocks or whole):
        return {}
    content: list[Json] = []
    for block in (blocks[place] for place in sorted(blocks)):
        use = block.get("toolUse")
        # As text, as they came: the arguments of a stream that was cut off are no JSON object.
        content.append(block if use is None else {"toolUse": {**use, "input": use.get("partial") or {}}})
    return {"stopReason": "incomplete", **whole, "output": {"message": {"content": content}}}


def _join_delta(block: dict[str, Any], delta: Json) -> None:
    if "text" in delta:
        block["text"] = as_text(block.get("text")) + as_text(delta["text"])
    if piece := as_map(delta.get("reasoningContent")):
        thought = block.setdefault("reasoningContent", {"reasoningText": {"text": ""}})["reasoningText"]
        thought["text"] += as_text(piece.get("text"))
    if piece := as_map(delta.get("toolUse")):
        use = block.setdefault("toolUse", {})
        use["partial"] = as_text(use.get("partial")) + as_text(piece.get("input"))
    if isinstance(delta.get("toolResult"), list):
        result = block.setdefault("toolResult", {})
        result["content"] = [*result.get("content", ()), *delta["toolResult"]]

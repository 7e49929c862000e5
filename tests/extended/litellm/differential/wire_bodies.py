"""Bodies of replies as each provider writes them, and the same bodies as a stream's events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.loopback import anthropic_wire, openai_wire
from tests.loopback.model_server import RawReply, ReplyPlan
from tests.loopback.replies import pieces

from .conversation import Body, Wire

EVENTS = "text/event-stream; charset=utf-8"
PLAIN = ReplyPlan(text="3")


def chat_body(message: Any = None, *, finish: Any = "stop", **fields: Any) -> Body:
    """Give a chat completion with one choice."""
    whole = dict(openai_wire.reply(PLAIN, {"model": "m"}, 0))
    said = {"role": "assistant", "content": "3", **(message or {})}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    return Body({**whole, "choices": [choice], **fields})


def messages_body(*blocks: Any, stop: Any = "end_turn", **fields: Any) -> Body:
    """Give a message of Anthropic's with these blocks of content."""
    whole = dict(anthropic_wire.reply(PLAIN, {"model": "m"}, 0))
    return Body({**whole, "content": list(blocks) or whole["content"], "stop_reason": stop, **fields})


def raw_reply(wire: Wire, answer: Body, *, streamed: bool) -> RawReply:
    """Give a body as the bytes of a reply, or of a stream that says the same."""
    if not streamed:
        return RawReply(json.dumps(answer.body).encode(), headers=answer.headers)
    events = b"".join(_STREAMS[wire](answer.body))
    return RawReply(events, content_type=EVENTS, headers=answer.headers, streamed=True)


def chat_stream(whole: Mapping[str, Any]) -> Iterator[bytes]:
    """Tell a chat completion by chunks."""
    envelope = {**whole, "object": "chat.completion.chunk", "usage": None}
    for choice in whole["choices"]:
        for delta in _chat_deltas(choice["message"]):
            yield _data({**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
        yield _data({**envelope, "choices": [end]})
    if whole.get("usage") is not None:
        yield _data({**envelope, "choices": [], "usage": whole["usage"]})
    yield b"data: [DONE]\n\n"


def _chat_deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": message.get("role"), "content": ""}
    for name, value in message.items():
        if name == "tool_calls":
            for place, call in enumerate(value or ()):
                yield {"tool_calls": [{**call, "index": place}]}
        elif isinstance(value, str) and name != "role":
            for piece in pieces(value):
                yield {name: piece}
        elif value is not None and name != "role":
            yield {name: value}


def messages_stream(whole: Mapping[str, Any]) -> Iterator[bytes]:
    """Tell a message of Anthropic's from its start to its stop."""
    usage = whole.get("usage") or {}
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _event("message_start", message=begun if usage else {**begun, "usage": {}})
    for index, block in enumerate(whole["content"]):
        opened, deltas = _block(block)
        yield _event("content_block_start", index=index, content_block=opened)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    end = {
        name: whole.get(name) for name in ("stop_reason", "stop_sequence", "stop_details") if name in whole
    }
    yield _event("message_delta", delta=end, usage=dict(usage))
    yield _event("message_stop")


def _block(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Give a block as it opens, and what then fills it."""
    kind = block["type"]
    if kind == "text":
        said = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        return {**block, "text": ""}, said
    if kind == "thinking":
        thought = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block.get("signature", "")}
        return {**block, "thinking": "", "signature": ""}, [*thought, signed]
    if kind == "tool_use":
        written = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
        made = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(written)]
        return {**block, "input": {}}, made
    return dict(block), []


_STREAMS = {"chat": chat_stream, "messages": messages_stream}


def _data(body: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **fields})

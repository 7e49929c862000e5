"""One reply as each format writes it: whole, streamed in pieces, and sent back by a client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_agenteval.cassettes.interaction import Request, Response

from .exchanges import frame


@dataclass(frozen=True)
class SpokenReply:
    """What a model says and calls; ``cuts`` are the lengths of the pieces that a stream brings."""

    text: str
    calls: Sequence[tuple[str, dict[str, Any]]]
    cut: int

    def pieces(self, text: str) -> list[str]:
        return [text[at : at + self.cut] for at in range(0, len(text), self.cut)]


@dataclass(frozen=True)
class CutCharacters(SpokenReply):
    """A reply whose stream is cut between the two halves that UTF-16 writes some characters in."""

    def pieces(self, text: str) -> list[str]:
        units = text.encode("utf-16-le", "surrogatepass")
        cuts = range(0, len(units), 2 * self.cut)
        return [units[at : at + 2 * self.cut].decode("utf-16-le", "surrogatepass") for at in cuts]


HALF = re.compile("[\ud800-\udfff]")
Body = dict[str, Any]


@dataclass(frozen=True)
class Speaker:
    """How a format writes a reply."""

    format: str
    uri: str
    place: str
    before: Sequence[Body]
    whole: Callable[[SpokenReply], Body]
    streamed: Callable[[SpokenReply], str | bytes]
    echo: Callable[[SpokenReply], list[Body]]

    def request(self, more: Sequence[Body] = ()) -> Request:
        return Request("POST", self.uri, json.dumps({"model": "m", self.place: [*self.before, *more]}))

    def responses(self, reply: SpokenReply) -> list[Response]:
        return [Response(200, body=json.dumps(self.whole(reply))), Response(200, body=self.streamed(reply))]


def _sse(events: Sequence[Body]) -> str:
    return "".join(f"data: {_readable(event)}\n\n" for event in events)


def _readable(event: Body) -> str:
    """Write an event as most servers do; half a character can only be escaped."""
    text = json.dumps(event, ensure_ascii=False)
    return text if text.isprintable() or not HALF.search(text) else json.dumps(event)


def _chat_calls(reply: SpokenReply) -> list[Body]:
    return [
        {
            "id": f"c{n}",
            "index": n,
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(args)},
        }
        for n, (name, args) in enumerate(reply.calls)
    ]


def _chat_whole(reply: SpokenReply) -> Body:
    return {"choices": [{"message": {"content": reply.text or None, "tool_calls": _chat_calls(reply)}}]}


def _chat_streamed(reply: SpokenReply) -> str:
    deltas: list[Body] = [{"content": piece} for piece in reply.pieces(reply.text)]
    for call in _chat_calls(reply):
        first = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
        deltas.append({"tool_calls": [first]})
        for piece in reply.pieces(call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]})
    return _sse([{"choices": [{"index": 0, "delta": delta}]} for delta in [{}, *deltas]]) + "data: [DONE]\n\n"


def _chat_echo(reply: SpokenReply) -> list[Body]:
    return [{"role": "assistant", "content": reply.text, "tool_calls": _chat_calls(reply)}]


def _items(reply: SpokenReply) -> list[Body]:
    said = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": reply.text}]}
    ]
    return [
        *said,
        *(
            {"type": "function_call", "call_id": f"c{n}", "name": name, "arguments": json.dumps(args)}
            for n, (name, args) in enumerate(reply.calls)
        ),
    ]


def _items_streamed(reply: SpokenReply) -> str:
    events: list[Body] = [{"type": "response.created", "response": {"id": "r", "output": []}}]
    for place, item in enumerate(_items(reply)):
        events.append(
            {"type": "response.output_item.added", "output_index": place, "item": {**item, "content": []}}
        )
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    return _sse([*events, {"type": "response.completed", "response": {"id": "r", "status": "completed"}}])


def _blocks(reply: SpokenReply) -> list[Body]:
    said = [{"type": "text", "text": reply.text}] if reply.text else []
    uses = [
        {"type": "tool_use", "id": f"c{n}", "name": name, "input": args}
        for n, (name, args) in enumerate(reply.calls)
    ]
    return [*said, *uses]


def _blocks_streamed(reply: SpokenReply) -> str:
    events: list[Body] = [{"type": "message_start", "message": {"role": "assistant"}}]
    for place, block in enumerate(_blocks(reply)):
        empty = {**block, "text": ""} if "text" in block else {**block, "input": {}}
        events.append({"type": "content_block_start", "index": place, "content_block": empty})
        kind, name = ("text_delta", "text") if "text" in block else ("input_json_delta", "partial_json")
        for piece in reply.pieces(block.get("text") or json.dumps(block.get("input"))):
            delta = {"type": kind, name: piece}
            events.append({"type": "content_block_delta", "index": place, "delta": delta})
    return _sse([*events, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}])


def _parts(reply: SpokenReply) -> list[Body]:
    calls = [{"functionCall": {"name": name, "args": args}} for name, args in reply.calls]
    return [{"text": reply.text}, *calls]


def _parts_streamed(reply: SpokenReply) -> str:
    parts = [*({"text": piece} for piece in reply.pieces(reply.text)), *_parts(reply)[1:], {"text": ""}]
    return json.dumps([{"candidates": [{"content": {"parts": [part]}}]} for part in parts], indent=1)


def _ollama(reply: SpokenReply) -> Body:
    calls = [{"function": {"name": name, "arguments": args}} for name, args in reply.calls]
    return {"role": "assistant", "content": reply.text, "tool_calls": calls}


def _ollama_streamed(reply: SpokenReply) -> str:
    pieces: list[Body] = [{"content": piece} for piece in reply.pieces(reply.text)]
    pieces += [{"content": "", "tool_calls": [call]} for call in _ollama(reply)["tool_calls"]]
    lines = [{"message": piece, "done": False} for piece in pieces]
    return "\n".join(map(json.dumps, [*lines, {"message": {"content": ""}, "done": True}]))


def _bedrock(reply: SpokenReply) -> list[Body]:
    uses = [
        {"toolUse": {"toolUseId": f"c{n}", "name": name, "input": args}}
        for n, (name, args) in enumerate(reply.calls)
    ]
    return [{"text": reply.text}, *uses] if reply.text else uses


def _bedrock_streamed(reply: SpokenReply) -> bytes:
    events: list[tuple[str, Body]] = [("messageStart", {"role": "assistant"})]
    for place, block in enumerate(_bedrock(reply)):
        if use := block.get("toolUse"):
            start = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
            events.append(("contentBlockStart", {"contentBlockIndex": place, "start": start}))
        for piece in reply.pieces(block.get("text") or json.dumps(use["input"])):
            delta: Body = {"toolUse": {"input": piece}} if use else {"text": piece}
            events.append(("contentBlockDelta", {"contentBlockIndex": place, "delta": delta}))
    return b"".join(frame(*event) for event in [*events, ("messageStop", {"stopReason": "end_turn"})])


USER = {"role": "user", "content": "Hi"}

SPEAKERS = (
    Speaker(
        "openai.chat",
        "http://localhost/v1/chat/completions",
        "messages",
        [USER],
        _chat_whole,
        _chat_streamed,
        _chat_echo,
    ),
    Speaker(
        "openai.responses",
        "http://localhost/v1/responses",
        "input",
        [USER],
        lambda reply: {"output": _items(reply)},
        _items_streamed,
        _items,
    ),
    Speaker(
        "anthropic.messages",
        "http://localhost/v1/messages",
        "messages",
        [USER],
        lambda reply: {"role": "assistant", "content": _blocks(reply)},
        _blocks_streamed,
        lambda reply: [{"role": "assistant", "content": _blocks(reply)}],
    ),
    Speaker(
        "gemini",
        "http://localhost/v1beta/models/m:generateContent",
        "contents",
        [{"role": "user", "parts": [{"text": "Hi"}]}],
        lambda reply: {"candidates": [{"content": {"parts": _parts(reply)}}]},
        _parts_streamed,
        lambda reply: [{"role": "model", "parts": _parts(reply)}],
    ),
    Speaker(
        "ollama.chat",
        "http://localhost/api/chat",
        "messages",
        [USER],
        lambda reply: {"message": _ollama(reply), "done": True},
        _ollama_streamed,
        lambda reply: [_ollama(reply)],
    ),
    Speaker(
        "bedrock.converse",
        "http://localhost/model/m/converse",
        "messages",
        [{"role": "user", "content": [{"text": "Hi"}]}],
        lambda reply: {"output": {"message": {"role": "assistant", "content": _bedrock(reply)}}},
        _bedrock_streamed,
        lambda reply: [{"role": "assistant", "content": _bedrock(reply)}],
    ),
)

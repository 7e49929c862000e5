"""Writes a reply in the wire format that a client expects: as one body, or as the events of a stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from struct import pack
from typing import Any, NamedTuple

from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.cassettes.wire.response_bodies import aws_frame
from pytest_agenteval.cassettes.wire.traffic import Json
from pytest_agenteval.chat.chat import Reply, tool_call
from pytest_agenteval.chat.direct.anthropic_request import UNREADABLE
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.transcript import ToolCall, Usage
from pytest_agenteval.text.json_values import compact_json


class ClientReply(NamedTuple):
    """A reply to be written: ``model`` is the answering model's bare name, ``id`` is new for each reply.

    ``streamed`` says that the client expects events; ``counts`` that its stream is to end with token counts.
    ``spaces`` are the namespaces and own names of the client's tools that are in one, by what calls name.
    """

    reply: Reply
    model: str
    id: str
    streamed: bool
    counts: bool = True
    path: str = ""
    spaces: Mapping[str, tuple[str, str]] = NOTHING

    @property
    def refusal(self) -> str | None:
        """The text of a model that refused, for which OpenAI's formats have a place of their own."""
        return self.reply.text or None if self.reply.finish == "content_filter" else None

    @property
    def usage(self) -> Usage:
        return self.reply.usage

    @property
    def input_tokens(self) -> int:
        return self.usage.input_tokens or 0

    @property
    def output_tokens(self) -> int:
        return self.usage.output_tokens or 0

    @property
    def cached_tokens(self) -> int:
        return self.usage.cached_tokens or 0


def write_client_reply(format: str, written: ClientReply) -> Response:
    """Give the response that a server of this format would send."""
    body, events = _WRITERS[format]
    whole = body(written)
    if not written.streamed:
        return _response("application/json", compact_json(whole))
    kind, data = events(whole, written)
    return _response(kind, data)


def _response(kind: str, body: str | bytes) -> Response:
    return Response(200, "OK", {"Content-Type": (kind,)}, body)


_EVENTS, _AWS_EVENTS = "text/event-stream", "application/vnd.amazon.eventstream"


def _sse(events: Iterable[Json], *, named: bool = False, end: str = "") -> tuple[str, str]:
    """Write server-sent events; with names, each has its type in a line of its own."""
    written = []
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        written.append(f"{name}data: {compact_json(event)}\n\n")
    return _EVENTS, "".join(written) + end


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    """Give arguments where a format takes objects only."""
    return call.args if call.raw_args is None else {UNREADABLE: call.raw_args}


def _finish(words: Mapping[str, str], written: ClientReply) -> str:
    # The provider's own word stays: as ``stop`` it would say that the model was done.
    return words.get(written.reply.finish, written.reply.finish)


# OpenAI's chat completions


def _chat_body(written: ClientReply) -> Json:
    reply, refusal = written.reply, written.refusal
    text = None if refusal or (reply.calls and not reply.text) else reply.text
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": refusal}
    if reply.calls:
        message["tool_calls"] = [tool_call(call) for call in reply.calls]
    finish = "stop" if refusal else reply.finish
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    usage = {
        "prompt_tokens": written.input_tokens,
        "completion_tokens": written.output_tokens,
        "total_tokens": written.input_tokens + written.output_tokens,
        "prompt_tokens_details": {"cached_tokens": written.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": written.usage.reasoning_tokens or 0},
    }
    head = {"id": f"chatcmpl-{written.id}", "object": "chat.completion", "created": int(time.time())}
    return {**head, "model": written.model, "choices": [choice], "usage": usage}


def _chat_events(whole: Json, written: ClientReply) -> tuple[str, str]:
    choice = whole["choices"][0]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{name: message[name]} for name in ("content", "refusal") if message[name]]
    calls = message.get("tool_calls", ())
    deltas += [{"tool_calls": [{"index": place, **call}]} for place, call in enumerate(calls)]
    head = {**whole, "object": "chat.completion.chunk"}
    usage = head.pop("usage")
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    chunks.append({**head, "choices": [last]})
    if written.counts:
        chunks.append({**head, "choices": [], "usage": usage})
    return _sse(chunks, end="data: [DONE]\n\n")


# OpenAI's responses


def _items(written: ClientReply) -> list[Json]:
    reply = written.reply
    items: list[Json] = []
    if reply.text or not reply.calls:
        text: Json = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        if written.refusal:
            text = {"type": "refusal", "refusal": written.refusal}
        message = {"id": f"msg_{written.id}", "type": "message", "role": "assistant", "status": "completed"}
        items.append({**message, "content": [text]})
    for place, call in enumerate(reply.calls):
        arguments = tool_call(call)["function"]["arguments"]
        item = {"id": f"fc_{written.id}_{place}", "type": "function_call", "status": "completed"}
        space, name = written.spaces.get(call.tool, ("", call.tool))
        named = {"namespace": space, "name": name} if space else {"name": name}
        items.append({**item, "call_id": call.id, **named, "arguments": arguments})
    return items


def _responses_body(written: ClientReply) -> Json:
    reply = written.reply
    is_done = written.refusal or reply.finish in ("stop", "tool_calls")
    reason = "" if is_done else {"length": "max_output_tokens"}.get(reply.finish, reply.finish)
    return {
        "id": f"resp_{written.id}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "metadata": {},
        "model": written.model,
        "output": _items(written),
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": {
            "input_tokens": written.input_tokens,
            "input_tokens_details": {"cached_tokens": written.cached_tokens},
            "output_tokens": written.output_tokens,
            "output_tokens_details": {"reasoning_tokens": written.usage.reasoning_tokens or 0},
            "total_tokens": written.input_tokens + written.output_tokens,
        },
    }


def _responses_events(whole: Json, written: ClientReply) -> tuple[str, str]:
    empty_reply = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[dict[str, Any]] = [
        {"type": f"response.{kind}", "response": empty_reply} for kind in ("created", "in_progress")
    ]
    for place, item in enumerate(whole["output"]):
        at = {"output_index": place, "item_id": item["id"]}
        is_text = item["type"] == "message"
        empty: Json = {"content": []} if is_text else {"arguments": ""}
        opened = {**item, "status": "in_progress", **empty}
        events.append({"type": "response.output_item.added", "output_index": place, "item": opened})
        if is_text:
            part = item["content"][0]
            in_part, name = {**at, "content_index": 0}, "refusal" if written.refusal else "text"
            kind = f"response.{part['type']}"
            added = {"type": "response.content_part.added", **in_part, "part": {**part, name: ""}}
            delta = {"type": f"{kind}.delta", **in_part, "delta": part[name], "logprobs": []}
            done = {"type": f"{kind}.done", **in_part, name: part[name], "logprobs": []}
            events += [added, delta, done, {"type": "response.content_part.done", **in_part, "part": part}]
        else:
            kind, text = "response.function_call_arguments", item["arguments"]
            events.append({"type": f"{kind}.delta", **at, "delta": text})
            events.append({"type": f"{kind}.done", **at, "name": item["name"], "arguments": text})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return _sse(({**event, "sequence_number": n} for n, event in enumerate(events)), named=True)


# Anthropic's messages


def _anthropic_body(written: ClientReply) -> Json:
    reply = written.reply
    content: list[Json] = [{"type": "text", "text": reply.text}] if reply.text or not reply.calls else []
    for call in reply.calls:
        content.append({"type": "tool_use", "id": call.id, "name": call.tool, "input": _arguments(call)})
    words = {
        "stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal",
    }  # fmt: skip
    usage = {
        "input_tokens": max(0, written.input_tokens - written.cached_tokens),
        "cache_read_input_tokens": written.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": written.output_tokens,
    }
    head = {"id": f"msg_{written.id}", "type": "message", "role": "assistant", "model": written.model}
    ended = {"stop_reason": _finish(words, written), "stop_sequence": None}
    return {**head, "content": content, **ended, "usage": usage}


def _anthropic_events(whole: Json, written: ClientReply) -> tuple[str, str | bytes]:
    empty_reply = {
        **whole,
        "content": [],
        "stop_reason": None,
        "usage": {**whole["usage"], "output_tokens": 0},
    }
    events: list[Json] = [{"type": "message_start", "message": empty_reply}]
    for place, block in enumerate(whole["content"]):
        is_text = block["type"] == "text"
        opened = {**block, "text": ""} if is_text else {**block, "input": {}}
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if is_text
            else {"type": "input_json_delta", "partial_json": compact_json(block["input"])}
        )
        events.append({"type": "content_block_start", "index": place, "content_block": opened})
        events.append({"type": "content_block_delta", "index": place, "delta": delta})
        events.append({"type": "content_block_stop", "index": place})
    ended = {name: whole[name] for name in ("stop_reason", "stop_sequence")}
    events.append({"type": "message_delta", "delta": ended, "usage": whole["usage"]})
    events.append({"type": "message_stop"})
    # Bedrock's ``invoke`` wraps the model's own events.
    if written.path.endswith("/invoke-with-response-stream"):
        return _AWS_EVENTS, b"".join(_aws_event("chunk", {"bytes": _base64(event)}) for event in events)
    return _sse(events, named=True)


def _base64(event: Json) -> str:
    from base64 import b64encode

    return b64encode(compact_json(event).encode()).decode()


# Bedrock's converse


def _bedrock_body(written: ClientReply) -> Json:
    reply = written.reply
    content: list[Json] = [{"text": reply.text}] if reply.text or not reply.calls else []
    for call in reply.calls:
        content.append({"toolUse": {"toolUseId": call.id, "name": call.tool, "input": _arguments(call)}})
    words = {
        "stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use",
        "content_filter": "content_filtered",
    }  # fmt: skip
    usage = {
        "inputTokens": max(0, written.input_tokens - written.cached_tokens),
        "outputTokens": written.output_tokens,
        "totalTokens": written.input_tokens + written.output_tokens,
        "cacheReadInputTokens": written.cached_tokens,
    }
    message = {"role": "assistant", "content": content}
    metrics = {"latencyMs": round((written.reply.seconds or 0) * 1000)}
    ended = {"stopReason": _finish(words, written), "usage": usage, "metrics": metrics}
    return {"output": {"message": message}, **ended}


def _bedrock_events(whole: Json, written: ClientReply) -> tuple[str, bytes]:
    events: list[tuple[str, Json]] = [("messageStart", {"role": "assistant"})]
    for place, block in enumerate(whole["output"]["message"]["content"]):
        at = {"contentBlockIndex": place}
        use = block.get("toolUse")
        if use is None:
            events.append(("contentBlockDelta", {**at, "delta": block}))
        else:
            named = {name: use[name] for name in ("toolUseId", "name")}
            delta = {"toolUse": {"input": compact_json(use["input"])}}
            events.append(("contentBlockStart", {**at, "start": {"toolUse": named}}))
            events.append(("contentBlockDelta", {**at, "delta": delta}))
        events.append(("contentBlockStop", at))
    events.append(("messageStop", {"stopReason": whole["stopReason"]}))
    events.append(("metadata", {"usage": whole["usage"], "metrics": whole["metrics"]}))
    return _AWS_EVENTS, b"".join(_aws_event(kind, event) for kind, event in events)


def _aws_event(kind: str, payload: Json) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    written = b"".join(
        pack("B", len(name)) + name.encode() + pack(">BH", 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    return aws_frame(written, compact_json(payload).encode())


# Gemini


def _gemini_body(written: ClientReply) -> Json:
    reply = written.reply
    parts: list[Json] = [{"text": reply.text}] if reply.text or not reply.calls else []
    for call in reply.calls:
        parts.append({"functionCall": {"id": call.id, "name": call.tool, "args": _arguments(call)}})
    words = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
    content = {"role": "model", "parts": parts}
    thought = written.usage.reasoning_tokens or 0
    usage = {
        "promptTokenCount": written.input_tokens,
        "candidatesTokenCount": max(0, written.output_tokens - thought),
        "thoughtsTokenCount": thought,
        "cachedContentTokenCount": written.cached_tokens,
        "totalTokenCount": written.input_tokens + written.output_tokens,
    }
    candidate = {"content": content, "finishReason": _finish(words, written), "index": 0}
    head = {"modelVersion": written.model, "responseId": written.id}
    return {"candidates": [candidate], "usageMetadata": usage, **head}


def _gemini_events(whole: Json, written: ClientReply) -> tuple[str, str]:
    # Without this parameter, the API streams one JSON array.
    return _sse([whole]) if "alt=sse" in written.path else ("application/json", compact_json([whole]))


# Ollama's chat


def _ollama_body(written: ClientReply) -> Json:
    reply = written.reply
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.calls:
        calls = [{"function": {"name": call.tool, "arguments": _arguments(call)}} for call in reply.calls]
        message["tool_calls"] = calls
    nanoseconds = round((reply.seconds or 0) * 1e9)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {
        "model": written.model,
        "created_at": created,
        "message": message,
        "done": True,
        "done_reason": "length" if reply.finish == "length" else "stop",
        "total_duration": nanoseconds,
        "load_duration": 0,
        "prompt_eval_count": written.input_tokens,
        "prompt_eval_duration": 0,
        "eval_count": written.output_tokens,
        "eval_duration": nanoseconds,
    }


def _ollama_events(whole: Json, written: ClientReply) -> tuple[str, str]:
    head = {name: whole[name] for name in ("model", "created_at", "message")}
    last = {**whole, "message": {"role": "assistant", "content": ""}}
    return "application/x-ndjson", f"{compact_json({**head, 'done': False})}\n{compact_json(last)}\n"


_Body = Callable[[ClientReply], Json]
_Events = Callable[[Json, ClientReply], tuple[str, "str | bytes"]]
_WRITERS: Mapping[str, tuple[_Body, _Events]] = {
    "openai.chat": (_chat_body, _chat_events),
    "openai.responses": (_responses_body, _responses_events),
    "anthropic.messages": (_anthropic_body, _anthropic_events),
    "bedrock.converse": (_bedrock_body, _bedrock_events),
    "gemini": (_gemini_body, _gemini_events),
    "ollama.chat": (_ollama_body, _ollama_events),
}

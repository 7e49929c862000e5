"""The wire format of OpenAI's responses, from the side of the server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from tests.loopback.replies import Json, ReplyPlan, arguments_text, pieces


def reply(plan: ReplyPlan, request: Json, n: int) -> Json:
    """Give the body of a ``response``."""
    return _response(plan, request, n, "completed", _items(plan, n))


def stream(plan: ReplyPlan, request: Json, n: int) -> Iterator[bytes]:
    """Give the events from ``response.created`` to ``response.completed``."""
    for number, (kind, fields) in enumerate(_events(plan, request, n)):
        body = json.dumps({"type": kind, "sequence_number": number, **fields}, ensure_ascii=False)
        yield f"event: {kind}\ndata: {body}\n\n".encode()


def _events(plan: ReplyPlan, request: Json, n: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.created", {"response": _response(plan, request, n, "in_progress", [])}
    items = _items(plan, n)
    for index, item in enumerate(items):
        yield from _item_events(index, item)
    yield "response.completed", {"response": _response(plan, request, n, "completed", items)}


def _item_events(index: int, item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    place = {"output_index": index, "item_id": item["id"]}
    if item["type"] == "function_call":
        opening = {**item, "arguments": "", "status": "in_progress"}
        yield "response.output_item.added", {"output_index": index, "item": opening}
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {**place, "delta": piece}
        done = {**place, "name": item["name"], "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", done
    elif item["type"] == "custom_tool_call":
        yield "response.output_item.added", {"output_index": index, "item": {**item, "input": ""}}
        yield "response.custom_tool_call_input.done", {**place, "input": item["input"]}
    else:
        opening = {**item, "content": [], "status": "in_progress"}
        yield "response.output_item.added", {"output_index": index, "item": opening}
        yield from _text_events({**place, "content_index": 0}, item["content"][0])
    yield "response.output_item.done", {"output_index": index, "item": item}


def _text_events(place: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield "response.output_text.delta", {**place, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**place, "part": part}


def _items(plan: ReplyPlan, n: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if plan.text:
        part = {"type": "output_text", "text": plan.text, "annotations": [], "logprobs": []}
        said = {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed"}
        items.append({**said, "content": [part]})
    for position, (name, args) in enumerate(plan.calls):
        ids = {"id": f"fc_{n}_{position}", "call_id": f"call_{n}_{position}"}
        # A text is the input of a custom tool: a program in its own language.
        text, given = arguments_text(args), "input" if isinstance(args, str) else "arguments"
        kind = "custom_tool_call" if isinstance(args, str) else "function_call"
        space, _, name = name.rpartition("::")
        named = {"name": name, **({"namespace": space} if space else {})}
        items.append({"type": kind, **ids, **named, given: text, "status": "completed"})
    return items


def _response(plan: ReplyPlan, request: Json, n: int, status: str, output: Any) -> dict[str, Any]:
    return {
        "id": f"resp_{n}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "model": request.get("model", ""),
        "output": output,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": request.get("tools", []),
        "top_p": 1.0,
        "usage": _usage(plan) if status == "completed" else None,
    }


def _usage(plan: ReplyPlan) -> dict[str, Any]:
    return {
        "input_tokens": plan.input_tokens,
        "input_tokens_details": {"cached_tokens": plan.cached_tokens},
        "output_tokens": plan.output_tokens,
        "output_tokens_details": {"reasoning_tokens": plan.reasoning_tokens},
        "total_tokens": plan.input_tokens + plan.output_tokens,
    }

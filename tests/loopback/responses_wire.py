"""The wire format of OpenAI's responses, from the side of the server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

from .openai_wire import error as error
from .replies import Json, ReplyPlan, arguments_text, pieces

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why a reply was not completed, by OpenAI's words in chats; any other reason stands as it is."""


def reply(plan: ReplyPlan, request: Json, n: int) -> Json:
    """Give the body of a ``response``."""
    return _envelope(plan, request, n, list(_items(plan, n)))


def stream(plan: ReplyPlan, request: Json, n: int) -> Iterator[bytes]:
    """Give the events from ``response.created`` to the one that holds the whole response again."""
    numbers = count()
    for kind, fields in _events(plan, request, n):
        body = json.dumps({"type": kind, "sequence_number": next(numbers), **fields}, ensure_ascii=False)
        yield f"event: {kind}\ndata: {body}\n\n".encode()


def _events(plan: ReplyPlan, request: Json, n: int) -> Iterator[tuple[str, dict[str, Any]]]:
    items = list(_items(plan, n))
    whole = _envelope(plan, request, n, items)
    begun = {**whole, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for place, item in enumerate(items):
        for kind, fields in item_events(item):
            yield kind, {"output_index": place, **fields}
    yield f"response.{whole['status']}", {"response": whole}


def _envelope(plan: ReplyPlan, request: Json, n: int, items: list[dict[str, Any]]) -> dict[str, Any]:
    done = plan.finish in ("stop", "tool_calls")
    return {
        "id": f"resp_{n}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed" if done else "incomplete",
        "error": None,
        "incomplete_details": None if done else {"reason": INCOMPLETE.get(plan.finish, plan.finish)},
        "instructions": request.get("instructions"),
        "metadata": {},
        "model": request.get("model", ""),
        "output": items,
        "parallel_tool_calls": True,
        "temperature": request.get("temperature"),
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": request.get("tools", []),
        "top_p": request.get("top_p"),
        "usage": _usage(plan),
    }


def _usage(plan: ReplyPlan) -> dict[str, Any]:
    writes = {"cache_write_tokens": plan.cache_writes} if plan.cache_writes else {}
    return {
        "input_tokens": plan.input_tokens,
        "input_tokens_details": {"cached_tokens": plan.cached_tokens, **writes},
        "output_tokens": plan.output_tokens,
        "output_tokens_details": {"reasoning_tokens": plan.reasoning_tokens},
        "total_tokens": plan.input_tokens + plan.output_tokens,
    }


def _items(plan: ReplyPlan, n: int) -> Iterator[dict[str, Any]]:
    """Give each item of the output: thoughts, what is said or refused, calls."""
    if plan.reasoning:
        summary = [{"type": "summary_text", "text": plan.reasoning}]
        yield {"id": f"rs_{n}", "type": "reasoning", "summary": summary, "encrypted_content": f"sealed-{n}"}
    if plan.refusal:
        yield _message(n, {"type": "refusal", "refusal": plan.refusal})
    elif plan.text or not plan.calls:
        yield _message(n, {"type": "output_text", "text": plan.text, "annotations": [], "logprobs": []})
    for place, (name, args) in enumerate(plan.calls):
        ids = {"id": f"fc_{n}_{place}", "call_id": f"call_{n}_{place}"}
        call = {"type": "function_call", "name": name, "arguments": arguments_text(args)}
        yield {**call, **ids, "status": "completed"}


def _message(n: int, part: Json) -> dict[str, Any]:
    envelope = {"id": f"msg_{n}", "type": "message", "role": "assistant", "status": "completed"}
    return {**envelope, "content": [part]}


def item_events(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the events that tell one item of the output."""
    fields = {"reasoning": {"summary": []}, "message": {"content": []}, "function_call": {"arguments": ""}}
    empty: dict[str, Any] = fields.get(item["type"], {})
    state = {"status": "in_progress"} if "status" in item else {}
    yield "response.output_item.added", {"item": {**item, **empty, **state}}
    tellers = {"reasoning": _thought_events, "message": _part_events, "function_call": _call_events}
    for kind, fields in tellers.get(item["type"], _no_events)(item):
        yield kind, {"item_id": item["id"], **fields}
    yield "response.output_item.done", {"item": item}


def _thought_events(item: Json) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, part in enumerate(item["summary"]):
        at = {"summary_index": place}
        yield "response.reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
        yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
        yield "response.reasoning_summary_part.done", {**at, "part": part}


def _part_events(item: Json) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, part in enumerate(item["content"]):
        at = {"content_index": place}
        field = "refusal" if part["type"] == "refusal" else "text"
        yield "response.content_part.added", {**at, "part": {**part, field: ""}}
        for piece in pieces(part[field]):
            yield f"response.{part['type']}.delta", {**at, "delta": piece}
        yield f"response.{part['type']}.done", {**at, field: part[field]}
        yield "response.content_part.done", {**at, "part": part}


def _no_events(item: Json) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from ()


def _call_events(item: Json) -> Iterator[tuple[str, dict[str, Any]]]:
    for piece in pieces(item["arguments"]):
        yield "response.function_call_arguments.delta", {"delta": piece}
    yield "response.function_call_arguments.done", {"arguments": item["arguments"]}

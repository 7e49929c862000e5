"""The wire format of Anthropic's messages, from the side of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .replies import Json, ReplyPlan, arguments_text, pieces

STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}

USUAL_ERRORS = {
    400: ("invalid_request_error", "The request is invalid."),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "model: no such model"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your organization's rate limit."),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}


def reply(plan: ReplyPlan, request: Json, n: int) -> Json:
    """Give the body of a ``message``."""
    blocks = [
        {**block, field: json.loads(value) if field == "input" else value}
        for block, field, value in _blocks(plan, n, whole=True)
    ]
    usage = {**_input_usage(plan), **_output_usage(plan)}
    return {**_envelope(request, n), "content": blocks, "stop_reason": _stop_reason(plan), "usage": usage}


def stream(plan: ReplyPlan, request: Json, n: int) -> Iterator[bytes]:
    """Give the events from ``message_start`` to ``message_stop``."""
    start = {**_envelope(request, n), "content": [], "usage": {**_input_usage(plan), "output_tokens": 1}}
    yield _event("message_start", message=start)
    yield _event("ping")
    for index, (block, field, value) in enumerate(_blocks(plan, n, whole=False)):
        yield from _block_events(index, block, field, value)
    end = {"stop_reason": _stop_reason(plan), "stop_sequence": None}
    yield _event("message_delta", delta=end, usage=_output_usage(plan))
    yield _event("message_stop")


def error(status: int, message: str, code: str, n: int) -> Json:
    """Give the body that Anthropic sends with this status."""
    kind, usual_message = USUAL_ERRORS.get(status, USUAL_ERRORS[500 if status >= 500 else 400])
    return {
        "type": "error",
        "error": {"type": code or kind, "message": message or usual_message},
        "request_id": f"req_{n}",
    }


def _envelope(request: Json, n: int) -> dict[str, Any]:
    return {
        "id": f"msg_{n}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", ""),
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop_reason(plan: ReplyPlan) -> str:
    return "refusal" if plan.refusal else STOP_REASONS.get(plan.finish, plan.finish)


def _input_usage(plan: ReplyPlan) -> dict[str, int]:
    return {
        "input_tokens": plan.input_tokens - plan.cached_tokens - plan.cache_writes,
        "cache_creation_input_tokens": plan.cache_writes,
        "cache_read_input_tokens": plan.cached_tokens,
    }


def _output_usage(plan: ReplyPlan) -> dict[str, Any]:
    details = {"output_tokens_details": {"thinking_tokens": plan.reasoning_tokens}}
    return {"output_tokens": plan.output_tokens, **(details if plan.reasoning_tokens else {})}


def _blocks(plan: ReplyPlan, n: int, *, whole: bool) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Give each content block in its empty form, the field that fills it, and the text of that field."""
    if plan.reasoning:
        yield {"type": "thinking", "thinking": "", "signature": "c2lnbmVk"}, "thinking", plan.reasoning
    if said := plan.text or plan.refusal:
        yield {"type": "text", "text": ""}, "text", said
    for position, (name, args) in enumerate(plan.calls):
        block = {"type": "tool_use", "id": f"toolu_{n}_{position}", "name": name, "input": {}}
        text = arguments_text(args)
        yield block, "input", _as_object(text) if whole else text


def _as_object(text: str) -> str:
    """Give the text when it is a JSON object, else the object that Anthropic proposes to wrap it in."""
    try:
        is_object = isinstance(json.loads(text), dict)
    except ValueError:
        is_object = False
    return text if is_object else json.dumps({"INVALID_JSON": text}, ensure_ascii=False)


def _block_events(index: int, block: dict[str, Any], field: str, value: str) -> Iterator[bytes]:
    kind, key = {
        "thinking": ("thinking_delta", "thinking"),
        "text": ("text_delta", "text"),
        "input": ("input_json_delta", "partial_json"),
    }[field]
    signature = block.get("signature")
    opening = {**block, "signature": ""} if signature else block
    yield _event("content_block_start", index=index, content_block=opening)
    for piece in pieces(value):
        yield _event("content_block_delta", index=index, delta={"type": kind, key: piece})
    if signature:
        delta = {"type": "signature_delta", "signature": signature}
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _event(kind: str, **fields: Any) -> bytes:
    body = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {body}\n\n".encode()

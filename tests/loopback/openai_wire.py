"""The wire format of OpenAI's chat completions, from the side of the server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from .replies import Json, ReplyPlan, arguments_text, pieces

USUAL_ERRORS = {
    400: ("invalid_request_error", None, "The request is invalid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided: x."),
    403: ("invalid_request_error", "unsupported_country_region_territory", "Country not supported"),
    404: ("invalid_request_error", "model_not_found", "The model does not exist."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests. Please try again in 200ms."),
    500: ("server_error", None, "The server had an error while processing your request. Sorry about that!"),
    503: ("server_error", None, "The engine is currently overloaded, please try again later."),
}


def reply(plan: ReplyPlan, request: Json, n: int) -> Json:
    """Give the body of a ``chat.completion``."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": plan.text or (None if plan.calls or plan.refusal else ""),
        "refusal": plan.refusal or None,
    }
    if plan.reasoning:
        message["reasoning_content"] = plan.reasoning
    if plan.calls:
        message["tool_calls"] = _calls(plan, n)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": plan.finish}
    return {**_envelope(request, n, "chat.completion"), "choices": [choice], "usage": _usage(plan)}


def stream(plan: ReplyPlan, request: Json, n: int) -> Iterator[bytes]:
    """Give the chunks, the usage when it was asked for, and ``[DONE]``."""
    envelope = _envelope(request, n, "chat.completion.chunk")
    for delta in _deltas(plan, n):
        yield _event({**envelope, "choices": [_chunk_choice(delta, None)]})
    yield _event({**envelope, "choices": [_chunk_choice({}, plan.finish)]})
    if (request.get("stream_options") or {}).get("include_usage"):
        yield _event({**envelope, "choices": [], "usage": _usage(plan)})
    yield b"data: [DONE]\n\n"


def error(status: int, message: str, code: str, n: int) -> Json:
    """Give the body that OpenAI sends with this status."""
    kind, usual_code, usual_message = USUAL_ERRORS.get(status, USUAL_ERRORS[500 if status >= 500 else 400])
    return {
        "error": {
            "message": message or usual_message,
            "type": kind,
            "param": None,
            "code": code or usual_code,
        }
    }


def _envelope(request: Json, n: int, kind: str) -> dict[str, Any]:
    model = request.get("model", "")
    return {"id": f"chatcmpl-{n}", "object": kind, "created": int(time.time()), "model": model}


def _calls(plan: ReplyPlan, n: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{n}_{position}",
            "type": "function",
            "function": {"name": name, "arguments": arguments_text(args)},
        }
        for position, (name, args) in enumerate(plan.calls)
    ]


def _usage(plan: ReplyPlan) -> dict[str, Any]:
    writes = {"cache_write_tokens": plan.cache_writes} if plan.cache_writes else {}
    return {
        "prompt_tokens": plan.input_tokens,
        "completion_tokens": plan.output_tokens,
        "total_tokens": plan.input_tokens + plan.output_tokens,
        "prompt_tokens_details": {"cached_tokens": plan.cached_tokens, "audio_tokens": 0, **writes},
        "completion_tokens_details": {"reasoning_tokens": plan.reasoning_tokens, "audio_tokens": 0},
    }


def _deltas(plan: ReplyPlan, n: int) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if plan.text else None}
    for piece in pieces(plan.reasoning):
        yield {"reasoning_content": piece}
    for piece in pieces(plan.text):
        yield {"content": piece}
    for piece in pieces(plan.refusal):
        yield {"refusal": piece}
    for position, call in enumerate(_calls(plan, n) if plan.calls else []):
        function = call["function"]
        opening = {**call, "index": position, "function": {"name": function["name"], "arguments": ""}}
        yield {"tool_calls": [opening]}
        for piece in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": position, "function": {"arguments": piece}}]}


def _chunk_choice(delta: Json, finish: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _event(body: Json) -> bytes:
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"

"""The wire format of Ollama's chat, from the side of the server; a stream is a line of JSON after another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.loopback.replies import Json, ReplyPlan, pieces

AT = "2026-11-22T09:00:00.000000Z"


def reply(plan: ReplyPlan, request: Json, n: int) -> Json:
    """Give the one object of a chat that is not streamed."""
    return _end(request, plan, {"role": "assistant", "content": plan.text, **_calls(plan)})


def stream(plan: ReplyPlan, request: Json, n: int) -> Iterator[bytes]:
    """Give the objects of a streamed chat; calls come whole, in one of them."""
    for piece in pieces(plan.text):
        yield _line({**_head(request), "message": {"role": "assistant", "content": piece}, "done": False})
    if plan.calls:
        message = {"role": "assistant", "content": "", **_calls(plan)}
        yield _line({**_head(request), "message": message, "done": False})
    yield _line(_end(request, plan, {"role": "assistant", "content": ""}))


def _calls(plan: ReplyPlan) -> dict[str, Any]:
    calls = [{"function": {"name": name, "arguments": args}} for name, args in plan.calls]
    return {"tool_calls": calls} if calls else {}


def _head(request: Json) -> dict[str, Any]:
    return {"model": request.get("model", ""), "created_at": AT}


def _end(request: Json, plan: ReplyPlan, message: Json) -> dict[str, Any]:
    counts = {"prompt_eval_count": plan.input_tokens, "eval_count": plan.output_tokens}
    times = {"total_duration": 1, "load_duration": 1, "prompt_eval_duration": 1, "eval_duration": 1}
    done = {"message": message, "done": True, "done_reason": "stop"}
    return {**_head(request), **done, **times, **counts}


def _line(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode() + b"\n"

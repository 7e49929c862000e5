"""The wire format of Cohere's second chat, which pytest-agenteval does not read, from the server's side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.loopback.replies import Json, ReplyPlan, arguments_text


def reply(plan: ReplyPlan, request: Json, n: int) -> Json:
    """Give the body of a whole reply."""
    message: dict[str, Any] = {"role": "assistant"}
    if plan.text:
        message["content"] = [{"type": "text", "text": plan.text}]
    if plan.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{n}_{place}",
                "type": "function",
                "function": {"name": name, "arguments": arguments_text(args)},
            }
            for place, (name, args) in enumerate(plan.calls)
        ]
    tokens = {"input_tokens": plan.input_tokens, "output_tokens": plan.output_tokens}
    return {
        "id": f"chat-{n}",
        "finish_reason": "TOOL_CALL" if plan.calls else "COMPLETE",
        "message": message,
        "usage": {"billed_units": tokens, "tokens": tokens},
    }


def stream(plan: ReplyPlan, request: Json, n: int) -> Iterator[bytes]:
    """Not written: no way of the matrix streams it."""
    raise NotImplementedError

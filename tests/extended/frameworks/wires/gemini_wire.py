"""The wire format of Gemini's generateContent, from the side of the server; calls have no ids there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.loopback.replies import Json, ReplyPlan, pieces


def reply(plan: ReplyPlan, request: Json, n: int) -> Json:
    """Give the body of a ``GenerateContentResponse``."""
    parts = [{"text": plan.text}] if plan.text else []
    return _response(plan, [*parts, *_calls(plan)], n, "STOP")


def stream(plan: ReplyPlan, request: Json, n: int) -> Iterator[bytes]:
    """Give what ``alt=sse`` sends: whole responses, each with what has come since the last."""
    for piece in pieces(plan.text):
        yield _event(_response(plan, [{"text": piece}], n, None))
    yield _event(_response(plan, _calls(plan) or [{"text": ""}], n, "STOP"))


def _calls(plan: ReplyPlan) -> list[dict[str, Any]]:
    return [{"functionCall": {"name": name, "args": args}} for name, args in plan.calls]


def _response(plan: ReplyPlan, parts: list[dict[str, Any]], n: int, finish: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": plan.input_tokens,
            "candidatesTokenCount": plan.output_tokens,
            "totalTokenCount": plan.input_tokens + plan.output_tokens,
        },
        "modelVersion": "gemini-loopback",
        "responseId": f"resp_{n}",
    }


def _event(body: Json) -> bytes:
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\r\n\r\n"

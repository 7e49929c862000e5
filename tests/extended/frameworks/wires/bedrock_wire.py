"""The wire format of Bedrock's Converse, from the side of the server; a stream is AWS's event stream.

A message of the event stream is: length of all, length of the headers, checksum of these 8 bytes, headers,
payload, checksum of all before; lengths and checksums (CRC-32) are 4 bytes, the greatest first.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from tests.loopback.replies import Json, ReplyPlan, arguments_text, pieces


def reply(plan: ReplyPlan, request: Json, n: int) -> Json:
    """Give the body of a ``ConverseResponse``."""
    content: list[dict[str, Any]] = [{"text": plan.text}] if plan.text else []
    for position, (name, args) in enumerate(plan.calls):
        content.append({"toolUse": {**_call(n, position, name), "input": args}})
    message = {"role": "assistant", "content": content}
    return {"output": {"message": message}, "stopReason": _reason(plan), **_metadata(plan)}


def stream(plan: ReplyPlan, request: Json, n: int) -> Iterator[bytes]:
    """Give the messages from ``messageStart`` to ``metadata``."""
    yield _event("messageStart", {"role": "assistant"})
    if plan.text:
        yield from _block(0, None, [{"text": piece} for piece in pieces(plan.text)])
    for position, (name, args) in enumerate(plan.calls):
        start = {"toolUse": _call(n, position, name)}
        deltas = [{"toolUse": {"input": piece}} for piece in pieces(arguments_text(args))]
        yield from _block(bool(plan.text) + position, start, deltas)
    yield _event("messageStop", {"stopReason": _reason(plan)})
    yield _event("metadata", _metadata(plan))


def _block(index: int, start: Json | None, deltas: list[dict[str, Any]]) -> Iterator[bytes]:
    if start is not None:
        yield _event("contentBlockStart", {"contentBlockIndex": index, "start": start})
    for delta in deltas:
        yield _event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})
    yield _event("contentBlockStop", {"contentBlockIndex": index})


def _call(n: int, position: int, name: str) -> dict[str, str]:
    return {"toolUseId": f"tooluse_{n}_{position}", "name": name}


def _reason(plan: ReplyPlan) -> str:
    return "tool_use" if plan.calls else "end_turn"


def _metadata(plan: ReplyPlan) -> dict[str, Any]:
    total = plan.input_tokens + plan.output_tokens
    usage = {"inputTokens": plan.input_tokens, "outputTokens": plan.output_tokens, "totalTokens": total}
    return {"usage": usage, "metrics": {"latencyMs": 1}}


def _event(kind: str, body: Json) -> bytes:
    told = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(_header(name, value) for name, value in told.items())
    payload = json.dumps(body, ensure_ascii=False).encode()
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    whole = lengths + struct.pack(">I", crc32(lengths)) + headers + payload
    return whole + struct.pack(">I", crc32(whole))


def _header(name: str, value: str) -> bytes:
    text = 7  # the kind of value
    key, said = name.encode(), value.encode()
    return bytes([len(key)]) + key + bytes([text]) + struct.pack(">H", len(said)) + said

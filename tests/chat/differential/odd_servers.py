"""What servers write that speak a wire nearly: litellm reads it, and so do direct asks."""

from __future__ import annotations

import json
from typing import Any

from .conversation import ADD, Conversation, once
from .failures import BEGUN, chunk, raw, streamed
from .wire_bodies import chat_body

MESSAGE = BEGUN["messages"][0]["message"]


def called_piece(arguments: str, **more: Any) -> dict[str, Any]:
    """Give a chunk with a piece of a call at the first place."""
    name = {"name": more.pop("name")} if "name" in more else {}
    call = {"index": 0, "type": "function", "function": {**name, "arguments": arguments}, **more}
    return chunk(tool_calls=[call])


def ending(finish: str, **usage: int) -> tuple[Any, ...]:
    """Give a chat's last chunks, and the line behind them."""
    last = chunk()
    last["choices"][0]["finish_reason"] = finish
    counted = {**chunk(), "choices": [], "usage": usage}
    return (last, *((counted,) if usage else ()), "data: [DONE]\n\n")


def messages_events(*blocks: tuple[Any, ...], usage: Any, stop: str = "end_turn") -> list[Any]:
    """Give a stream of Anthropic's, each block being its place, its beginning and its piece."""
    counted = {"input_tokens": 100, "output_tokens": 1}
    told: list[Any] = [{"type": "message_start", "message": {**MESSAGE, "usage": counted}}]
    for place, begun, delta in blocks:
        told += [
            {"type": "content_block_start", "index": place, "content_block": begun},
            {"type": "content_block_delta", "index": place, "delta": delta},
            {"type": "content_block_stop", "index": place},
        ]
    end = {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    return [*told, end, {"type": "message_stop"}]


def add_at_first_place(id: str, arguments: str) -> tuple[Any, ...]:
    """Give a call that is told at the first place."""
    begun = {"type": "tool_use", "id": id, "name": "add", "input": {}}
    return 0, begun, {"type": "input_json_delta", "partial_json": arguments}


SAID = (0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "3"})
TWO_CALLS = (add_at_first_place("call_a", '{"a":1}'), add_at_first_place("call_b", '{"a":2}'))
NEW_IDS = (
    called_piece("", id="call_a", name="add"),
    called_piece('{"a":', id="call_b"),
    called_piece(" 1}", id="call_c"),
)
WHOLE = json.dumps(chat_body().body)

CONVERSATIONS = (
    Conversation(
        "input of 0 at the end",
        once(),
        {"messages": [streamed(*messages_events(SAID, usage={"input_tokens": 0, "output_tokens": 10}))]},
        forms=("streamed",),
    ),
    Conversation(
        "two calls at one place",
        once(tools=[ADD]),
        {"messages": [streamed(*messages_events(*TWO_CALLS, usage={"output_tokens": 10}, stop="tool_use"))]},
        ends="tool_calls",
        forms=("streamed",),
    ),
    Conversation(
        "a new id in each piece",
        once(tools=[ADD]),
        {"chat": [streamed(*NEW_IDS, *ending("tool_calls", prompt_tokens=9, completion_tokens=5))]},
        ends="tool_calls",
        forms=("streamed",),
    ),
    Conversation(
        "a type that is no text",
        once(),
        {
            "chat": [
                streamed(
                    {**chunk(role="assistant", content="3"), "type": {"a": ["b"]}},
                    *ending("stop", prompt_tokens=9, completion_tokens=5),
                )
            ]
        },
        forms=("streamed",),
    ),
    Conversation(
        "an event without a bottom",
        once(),
        {"chat": [streamed("data: " + "[" * 5000 + "]" * 5000 + "\n\n", *BEGUN["chat"])]},
        ends="!provider",
        forms=("streamed",),
    ),
    *(
        Conversation(f"a reply and {name}", once(), {"chat": [raw(body)]}, ends="!provider", forms=("whole",))
        for name, body in (
            ("words", WHOLE + " and so on"),
            ("another", WHOLE + WHOLE),
            ("another on a line", f"{WHOLE}\n{WHOLE}\n"),
        )
    ),
)

"""Requests that fail: every row of the retry table, in each provider's words, and what breaks on the way."""

from __future__ import annotations

import json
from typing import Any

from .conversation import ADD, OK, Conversation, RawReply, ReplyPlan, Wire, once, settings
from .wire_bodies import EVENTS

HTML = b"<html><head><title>502</title></head><body><h1>Bad Gateway</h1></body></html>"
CAUSES: dict[int, str] = {
    400: "bad_request",
    401: "auth",
    402: "quota",
    403: "auth",
    404: "unknown_model",
    408: "timeout",
    409: "provider",
    413: "bad_request",
    422: "bad_request",
    425: "provider",
    429: "rate_limit",
    500: "provider",
    502: "provider",
    503: "provider",
    504: "timeout",
    520: "provider",
    529: "provider",
}
LATER: dict[str, dict[str, str]] = {
    "seconds": {"Retry-After": "7"},
    "a fraction": {"Retry-After": "0.25"},
    "milliseconds": {"retry-after-ms": "1500", "Retry-After": "2"},
    "a date": {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"},
    "nonsense": {"Retry-After": "soon"},
}


def fails(status: int, text: str = "", code: str = "", **more: Any) -> ReplyPlan:
    """Give a refusal."""
    return ReplyPlan(status=status, text=text, error_code=code, **more)


def raw(body: bytes | str, status: int = 200, type: str = "application/json", **more: Any) -> RawReply:
    """Give a reply as bytes."""
    return RawReply(body if isinstance(body, bytes) else body.encode(), status, type, **more)


def streamed(*events: Any, ending: Any = "whole") -> RawReply:
    """Give a stream of these events; a text stands as it is."""
    told = "".join(it if isinstance(it, str) else f"data: {json.dumps(it)}\n\n" for it in events)
    return RawReply(told.encode(), content_type=EVENTS, streamed=True, ending=ending)


def chunk(**delta: Any) -> dict[str, Any]:
    """Give a chunk of a chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


BEGUN: dict[Wire, list[Any]] = {
    "chat": [chunk(role="assistant", content=""), chunk(content="so"), chunk(content=" far")],
    "messages": [
        {
            "type": "message_start",
            "message": {
                "id": "m",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": None,
                "usage": {"input_tokens": 9, "output_tokens": 1},
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "so far"}},
    ],
}
"""How a stream begins that never ends."""

ERRORS: dict[Wire, dict[str, list[Any]]] = {
    "chat": {
        "broken": [{"error": {"message": "The engine fell over", "type": "server_error", "code": None}}],
        "limited": [
            {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
        ],
    },
    "messages": {
        "broken": [
            "event: error\n",
            {"type": "error", "error": {"type": "api_error", "message": "The engine fell over"}},
        ],
        "limited": [
            "event: error\n",
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ],
    },
}
TOO_LONG = {
    "chat": [
        fails(
            400,
            "This model's maximum context length is 128000 tokens. However, your messages have 200000.",
            "context_length_exceeded",
        )
    ],
    "messages": [fails(400, "prompt is too long: 210000 tokens > 200000 maximum")],
}
OTHERS_TOO_LONG = {
    "vllm": "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
    "llama.cpp": "the request exceeds the available context size. try increasing the context size",
    "a long string": "Invalid 'content': string too long. Expected a string with maximum length 9.",
}
FILTERED = {
    "chat": [
        fails(400, "The response was filtered due to our content management policy.", "content_filter"),
    ],
    "messages": [fails(400, "Output blocked by content filtering policy")],
}
NO_CREDIT = {
    "chat": [fails(429, "You exceeded your current quota, please check your plan.", "insufficient_quota")],
    "messages": [fails(400, "Your credit balance is too low to access the Anthropic API.")],
}
OVERLOADED = {
    "chat": [fails(503, "That model is currently overloaded with other requests.")],
    "messages": [fails(529, "Overloaded", "overloaded_error")],
}
WITHOUT = {
    "temperature": settings(temperature=0.0),
    "top_p": settings(top_p=0.5),
    "seed": settings(seed=7),
}


def refusing(name: str, others: str = "") -> Any:
    """Give a server's answers that refuse a setting, and then answer."""
    return [
        fails(400, f"Unsupported parameter: '{others or name}' is not supported with this model."),
        OK,
        OK,
    ]


UNKNOWN_WORDS = "The decoder prompt (length 9000) is longer than the maximum model length of 8192."

CONVERSATIONS = (
    Conversation("too long in unknown words", once(), [fails(400, UNKNOWN_WORDS)], ends="!bad_request"),
    *(
        Conversation(
            f"status {status}", once(), [fails(status, f"It went wrong in way {status}.")], ends=f"!{cause}"
        )
        for status, cause in CAUSES.items()
    ),
    *(
        Conversation(
            f"status {status} in its usual words", once(), [fails(status)], ends=f"!{CAUSES[status]}"
        )
        for status in (400, 401, 403, 404, 429, 500, 503, 529)
    ),
    *(
        Conversation(
            f"{status} with {name}",
            once(),
            [fails(status, "Later.", headers=headers)],
            ends=f"!{CAUSES[status]}",
        )
        for status, names in ((429, LATER), (503, ("seconds",)), (529, ("seconds",)), (500, ("seconds",)))
        for name in names
        for headers in [LATER[name]]
    ),
    Conversation("too long", once(), TOO_LONG, ends="!context_length"),
    *(
        Conversation(
            f"too long for {name}",
            once(),
            {"chat": [fails(400, words)]},
            model={"chat": "hosted_vllm/mine" if "vllm" in name else "openai/mine"},
            ends="!context_length",
        )
        for name, words in OTHERS_TOO_LONG.items()
    ),
    Conversation("against the policy", once(), FILTERED, ends="!content_policy"),
    Conversation("no credit", once(), NO_CREDIT, ends="!quota"),
    Conversation("overloaded", once(), OVERLOADED, ends="!provider"),
    Conversation("slow down", once(), [fails(503, "Slow down")], ends="!provider"),
    Conversation("at length", once(), [fails(400, "word " * 300)], ends="!bad_request"),
    Conversation("in Hangul", once(), [fails(400, "요청이 잘못되었습니다 🙂")], ends="!bad_request"),
    *(
        Conversation(f"{name} with {status}", once(), [raw(body, status, type)], ends=f"!{CAUSES[status]}")
        for status in (400, 502)
        for name, body, type in (
            ("a page", HTML, "text/html"),
            ("nothing", b"", "text/plain"),
            ("a text", b"upstream connect error", "text/plain"),
            ("a list", b"[1, 2]", "application/json"),
            ("a string for an error", b'{"error": "it broke"}', "application/json"),
            ("a detail", b'{"detail": "not so"}', "application/json"),
        )
    ),
    *(
        Conversation(
            f"{name} in a stream",
            once(),
            {wire: [streamed(*BEGUN[wire], *ERRORS[wire][name])] for wire in BEGUN},
            ends=ends,
            forms=("streamed",),
        )
        for name, ends in (
            ("broken", "!provider"),
            ("limited", {"messages": "!provider", "": "!rate_limit"}),
        )
    ),
    Conversation(
        "error before a stream",
        once(),
        {wire: [streamed(*ERRORS[wire]["broken"])] for wire in ERRORS},
        ends="!provider",
        forms=("streamed",),
    ),
    *(
        Conversation(
            f"a stream that {name}",
            once(),
            {wire: [streamed(*BEGUN[wire], *more, ending=ending)] for wire in BEGUN},
            ends=ends,
            forms=("streamed",),
        )
        for name, more, ending, ends in (
            ("is cut", (), "cut", "!connection"),
            ("just ends", (), "whole", "!provider"),
            ("ends in half an event", ('data: {"cho',), "whole", "!provider"),
            ("holds no JSON", ("data: oh\n\n",), "whole", "!provider"),
        )
    ),
    Conversation("a stream of nothing", once(), [streamed()], ends="!provider", forms=("streamed",)),
    Conversation(
        "a stream of comments",
        once(),
        [streamed(": ping\n\n", ": ping\n\n")],
        ends="!provider",
        forms=("streamed",),
    ),
    Conversation(
        "silence in a stream",
        once(),
        {wire: [streamed(*BEGUN[wire], ending="silence")] for wire in BEGUN},
        ends="!timeout",
        forms=("streamed",),
        params={"request_seconds": 0.4},
    ),
    Conversation("silence", once(), [ReplyPlan(hang_s=30)], ends="!timeout", params={"request_seconds": 0.3}),
    Conversation("dropped", once(), [ReplyPlan(drop=True)], ends="!connection"),
    Conversation(
        "half a reply", once(), [raw('{"id": "x"', ending="cut")], ends="!connection", forms=("whole",)
    ),
    Conversation("nobody there", once(), [OK], ends="!connection", host="127.0.0.1:1"),
    *(
        Conversation(f"reply of {name}", once(), [raw(body, type=type)], ends="!provider", forms=("whole",))
        for name, body, type in (
            ("no JSON", "All is well.", "text/plain"),
            ("a page", HTML, "text/html"),
            ("nothing", "", "application/json"),
            ("half JSON", '{"id": "x", "cho', "application/json"),
            ("a list", "[]", "application/json"),
            ("null", "null", "application/json"),
            ("a number", "3", "application/json"),
            ("an empty object", "{}", "application/json"),
            ("an error", '{"error": {"message": "It broke.", "type": "server_error"}}', "application/json"),
        )
    ),
    Conversation(
        "wrong types",
        once(),
        {
            "chat": [raw('{"id": 1, "choices": {"a": 1}, "usage": []}')],
            "messages": [raw('{"id": 1, "content": "3", "usage": []}')],
        },
        ends="!provider",
        forms=("whole",),
    ),
    Conversation(
        "no choices",
        once(),
        {
            "chat": [
                raw('{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}')
            ],
        },
        ends="!provider",
        forms=("whole",),
    ),
    *(
        Conversation(
            f"{name} is refused",
            (*once(settings=asked), *once(settings=asked), *once(settings=asked)),
            {wire: refusing(name) for wire in ("chat", "messages") if (wire, name) != ("messages", "seed")},
            ends="!bad_request stop",
        )
        for name, asked in WITHOUT.items()
    ),
    Conversation(
        "tool_choice is refused",
        once(tools=[ADD], settings=settings(tool_choice="auto")) * 2,
        refusing("tool_choice"),
        ends="!bad_request stop",
    ),
    Conversation(
        "response_format is refused",
        once(schema={"type": "object", "properties": {}}) * 2,
        {"chat": refusing("response_format"), "messages": refusing("output_format")},
        ends="!bad_request stop",
    ),
    Conversation(
        "stream_options is refused",
        once() * 2,
        {"chat": refusing("stream_options")},
        forms=("streamed",),
        ends="!bad_request stop",
    ),
    Conversation(
        "two settings are refused",
        once(settings=settings(temperature=0.0, top_p=0.5)) * 2,
        {"chat": refusing("temperature", "temperature' and 'top_p")},
        ends="!bad_request stop",
    ),
    Conversation(
        "a setting that is none of the optional ones is refused",
        once(settings=settings(max_tokens=5)) * 2,
        refusing("max_tokens"),
        ends="!bad_request stop",
    ),
    Conversation(
        "fails and goes on", once() * 3, [fails(500), OK, fails(429)], ends="!provider stop !rate_limit"
    ),
)

"""A known secret is in no cassette, in whatever form a response holds its pieces."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.wire.response_bodies import aws_frames
from pytest_agenteval.cassettes.wire.traffic import text_of_body
from pytest_agenteval.text.redaction import Secrets

from .exchanges import frame

SECRET = "hunter2-XYZZY-9876"
PIECES = ["It is hunter", "2-XYZ", "ZY-9876, ok"]


def sse(events: list[Any], end: str = "\n\n") -> str:
    """Write server-sent events: a text as it is, all else as JSON."""
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return "".join(f"data: {text}{end}" for text in texts)


def chunks(*, first_only: bool = False, counting: bool = False) -> list[Any]:
    """Give OpenAI's chunks. Their `index` may be in the first alone, or count the pieces."""
    numbers = [{"index": at if counting else 0} for at in range(3)]
    numbers[1:] = [{}, {}] if first_only else numbers[1:]
    return [
        {"id": "c", "choices": [{**number, "delta": {"content": piece}}]}
        for number, piece in zip(numbers, PIECES, strict=True)
    ]


def calls(numbers: list[dict[str, int]]) -> list[Any]:
    """Give chunks of a call's arguments."""
    functions = [
        {**number, "function": {"arguments": it}} for number, it in zip(numbers, PIECES, strict=True)
    ]
    return [{"choices": [{"index": 0, "delta": {"tool_calls": [function]}}]} for function in functions]


def tokens() -> list[Any]:
    """Give the tokens of OpenAI's logprobs."""
    return [{"token": it, "bytes": list(it.encode()), "top_logprobs": [{"token": it}]} for it in PIECES]


BEGUN = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": PIECES[0]}}
GOES_ON = [
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
    for piece in PIECES[1:]
]
GOES_ON_FROM_START = [{**GOES_ON[0], "delta": {"text": piece}} for piece in PIECES]
MESSAGES = [{"type": "message", "content": [{"type": "output_text", "text": piece}]} for piece in PIECES]
WHOLE = {"message": {"content": f"It is {SECRET}, ok"}, "logprobs": {"content": tokens()}}
TOKENS_IN_CHUNKS = [
    {"choices": [{"index": 0, "delta": {"content": it["token"]}, "logprobs": {"content": [it]}}]}
    for it in tokens()
]
LINES = [{"message": {"content": piece}} for piece in PIECES]
BODIES = {
    "BOM": "\ufeff" + sse(chunks()),
    "plain text": sse([*PIECES, "[DONE]"]),
    "JSON strings": sse([json.dumps(piece) for piece in PIECES]),
    "index in the first chunk": sse(chunks(first_only=True)),
    "index counts": sse(chunks(counting=True)),
    "calls, index in the first": sse(calls([{"index": 0}, {}, {}])),
    "calls, index counts": sse(calls([{"index": at} for at in range(3)])),
    "begun in content_block_start": sse([BEGUN, *GOES_ON]),
    "several messages": json.dumps({"output": MESSAGES}),
    "logprobs": json.dumps({"choices": [WHOLE]}),
    "streamed logprobs": sse(TOKENS_IN_CHUNKS),
    "legacy logprobs": json.dumps(
        {"choices": [{"text": f"It is {SECRET}, ok", "logprobs": {"tokens": PIECES}}]}
    ),
    "AI SDK": "".join(f"0:{json.dumps(piece)}\n" for piece in PIECES) + 'd:{"finishReason":"stop"}\n',
    "JSON without lines": "".join(map(json.dumps, LINES)),
    "pretty JSON": "\n".join(json.dumps(line, indent=2) for line in LINES),
    "one event after another": sse(chunks(), "\n"),
    "CR": sse(chunks(), "\r\r"),
    "CRLF": sse(chunks(), "\r\n\r\n"),
    "reason": sse([{"reason": piece} for piece in PIECES]),
    "name": sse([{"function": {"name": piece}} for piece in PIECES]),
    "data of several lines": sse(
        [json.dumps(chunk, indent=1).replace("\n", "\ndata: ") for chunk in chunks()]
    ),
    "cut": json.dumps({"output": MESSAGES})[:-1],
    "a streamed array": json.dumps(
        [{"candidates": [{"content": {"parts": [{"text": it}]}}]} for it in PIECES]
    ),
}


NAMED_TOKEN = ("logprobs", "streamed logprobs")
"""Bodies with keys named `token`, whose values are redacted for that name."""


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("in_bytes", [False, True])
def test_no_piece_stays(body: str, in_bytes: bool) -> None:
    """The secret is replaced by the mark; the text before and behind it stays."""
    redactor = Redactor(secrets=Secrets([SECRET]))
    given = body.encode() if in_bytes else body

    cleaned = text_of_body(redactor.response(Response(200, "OK", body=given)).body)

    assert not [part for part in ("hunter", "2-XYZ", "ZY-98", str(list(b"2-XYZ"))) if part in cleaned]
    assert not [part for part in ("It is ", "<redacted>", ", ok") if part not in cleaned]
    assert redactor.response(Response(200, "OK", body=cleaned)).body == cleaned


@pytest.mark.parametrize("body", [BODIES[name] for name in BODIES if name not in NAMED_TOKEN])
def test_a_body_without_a_secret_stays_as_it_is(body: str) -> None:
    """No character of it changes."""
    assert Redactor(secrets=Secrets(["another-SECRET-1"])).response(Response(200, body=body)).body == body


def test_the_pieces_of_a_secret_may_stand_in_several_fields() -> None:
    """What stands in other fields, and beside the pieces, stays."""
    texts = ["first", "a hunter2-", "XYZZY-", "9876 b", "last"]
    body = json.dumps({f"part {at}": {"text": text} for at, text in enumerate(texts)})

    cleaned = text_of_body(Redactor([SECRET]).response(Response(200, body=body)).body)

    parts = [part["text"] for part in json.loads(cleaned).values()]
    assert parts == ["first", "a <redacted>", "", " b", "last"]


def test_frames_are_written_anew_without_the_pieces() -> None:
    """With their lengths and checksums, be they Bedrock's own or another provider's within."""
    frames = [frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": it}}) for it in PIECES]
    inner = [frame("chunk", event) for event in GOES_ON_FROM_START]
    for raw, kept in ((b"".join(frames), "text"), (b"".join(inner), "bytes")):
        cleaned = Redactor([SECRET]).response(Response(200, body=raw)).body

        assert isinstance(cleaned, bytes)
        held = [json.loads(payload) for _, payload in aws_frames(cleaned)]
        texts = [
            it["delta"] if kept == "text" else json.loads(b64decode(it["bytes"]))["delta"] for it in held
        ]
        assert "".join(delta["text"] for delta in texts) == "It is <redacted>, ok"

"""Bodies of responses: server-sent events, JSON lines, AWS frames or one JSON value; and their errors."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any
from zlib import crc32

import msgspec

from pytest_agenteval.cassettes.interaction import Response, bytes_of
from pytest_agenteval.cassettes.wire.traffic import (
    Json,
    ModelRefused,
    UnreadableTraffic,
    as_text,
    json_object,
    read_json,
    text_of_body,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.tool_spec import JSON_DECODER
from pytest_agenteval.text.json_values import compact_json

_PRELUDE = Struct(">III")
_U32, _U16 = Struct(">I"), Struct(">H")
_FIXED_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Lengths of values, by type of header; values of the types 6 and 7, bytes and text, state their own."""
_SMALLEST = _PRELUDE.size + _U32.size


def is_aws_event_stream(raw: bytes) -> bool:
    """Whether bytes begin with the prelude of a frame, by its checksum."""
    return len(raw) >= _PRELUDE.size and crc32(raw[:8]) == _PRELUDE.unpack_from(raw)[2]


def aws_frames(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give the headers and the payload of each frame.

    A last frame that is not whole, as a connection that broke leaves it, is left out; raises
    UnreadableTraffic for a frame that was damaged.
    """
    place = 0
    while place + _SMALLEST <= len(raw):
        length, headers_length, checksum = _PRELUDE.unpack_from(raw, place)
        if crc32(raw[place : place + 8]) != checksum or length < _SMALLEST + headers_length:
            raise UnreadableTraffic(f"the frame at byte {place} has a damaged prelude")
        frame = raw[place : place + length]
        if len(frame) < length:
            return
        if crc32(frame[:-4]) != _U32.unpack_from(frame, length - 4)[0]:
            raise UnreadableTraffic(f"the frame at byte {place} has a wrong checksum")
        begin = _PRELUDE.size + headers_length
        yield frame[_PRELUDE.size : begin], frame[begin:-4]
        place += length


def aws_frame(headers: bytes, payload: bytes) -> bytes:
    length = _SMALLEST + len(headers) + len(payload)
    lengths = _U32.pack(length) + _U32.pack(len(headers))
    frame = lengths + _U32.pack(crc32(lengths)) + headers + payload
    return frame + _U32.pack(crc32(frame))


def _headers(raw: bytes) -> dict[str, str]:
    """Read the headers that are texts; others are not needed."""
    headers: dict[str, str] = {}
    place = 0
    while place < len(raw):
        name_end = place + 1 + raw[place]
        name, kind = raw[place + 1 : name_end].decode("utf-8", "replace"), raw[name_end]
        start = name_end + 1
        if kind in (6, 7):
            start += 2
            place = start + _U16.unpack_from(raw, start - 2)[0]
        elif kind in _FIXED_SIZES:
            place = start + _FIXED_SIZES[kind]
        else:
            raise UnreadableTraffic(f"a frame has a header of the unknown type {kind}")
        if kind == 7:
            headers[name] = raw[start:place].decode("utf-8", "replace")
    return headers


def _event(headers: dict[str, str], payload: bytes) -> Json:
    """Give an event as a map from its type to its payload; an error as ``{"error": …}``."""
    kind = headers.get(":message-type", "event")
    if kind == "error":
        error = {"type": headers.get(":error-code", ""), "message": headers.get(":error-message", "")}
        return {"error": error}
    held = json_object(payload, "surrogateescape") if payload.strip() else {}
    if kind == "exception":
        return {"error": {**held, "type": headers.get(":exception-type", "")}}
    name = headers.get(":event-type", "")
    # Bedrock's ``invoke`` wraps the events of the model's own format.
    if name == "chunk" and "bytes" in held:
        return json_object(b64decode(as_text(held["bytes"])), "surrogateescape")
    return {name: held}


DONE: Json = {"type": "[DONE]"}
"""Stands for the line that ends a stream of OpenAI's, which is no JSON."""

_LINES = msgspec.json.Decoder()
_LINE = re.compile(r"\r\n|\n|\r")
_SSE_FIELD = re.compile(r"(?:data|event|id|retry)?:")


class BodyParts(FrozenValue, frozen=True):
    """The JSON objects of a response; ``streamed`` says that they are events, and not one whole reply."""

    objects: Sequence[Json]
    streamed: bool


def body_parts(response: Response, *, streamed: bool = True) -> BodyParts:
    """Read a response's body; raises UnreadableTraffic for what is in none of these forms.

    Where the request wants no stream (``streamed`` is False) nothing may follow the one object of a reply: it
    would be lost.

    The form is read off the body and not off the headers: recordings may lack them, and servers send wrong
    ones. An incomplete event at the end of a stream that was cut off is left out, as clients do.
    """
    raw = bytes_of(response.body)
    if is_aws_event_stream(raw):
        return BodyParts([_event(_headers(head), payload) for head, payload in aws_frames(raw)], True)
    # A server may cut a character between two events: its bytes are put together where their texts are.
    text = text_of_body(response.body, "surrogateescape").strip()
    if not text:
        raise UnreadableTraffic("the body is empty")
    if _SSE_FIELD.match(text):
        return BodyParts(_sse_objects(text), True)
    # Gemini streams one JSON array, unless the request wants server-sent events.
    if text.startswith("["):
        return BodyParts(list(_values(text, 1)), True)
    if not streamed and text.startswith("{"):
        return BodyParts([json_object(text)], False)
    objects = list(_values(text, 0))
    if not objects:
        # This raises for a text that is no JSON, and says where it is wrong.
        read_json(text)
        raise UnreadableTraffic("the body is no JSON object")
    return BodyParts(objects, streamed=len(objects) > 1)


def _sse_objects(text: str) -> list[Json]:
    blocks = list(_sse_data(text))
    ended = bool(blocks) and blocks[-1].strip() == "[DONE]"
    values = _values_at_once(blocks[:-1] if ended else blocks)
    if values is None:
        return list(_values_one_by_one(blocks))
    return [*values, DONE] if ended else values


def _values_at_once(blocks: list[str]) -> list[Json] | None:
    """Read blocks each of which is one object; None where they may be something else.

    That is much quicker than reading them one by one.
    """
    # If each block begins and ends with a brace, no value goes on from one block into the next: within JSON,
    # no brace opens right behind one that closes.
    if not all(block.startswith("{") and block.endswith("}") for block in blocks):
        return None
    try:
        values: list[Json] = _LINES.decode_lines("\n".join(blocks))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return values if len(values) == len(blocks) else None


def _values_one_by_one(blocks: list[str]) -> Iterator[Json]:
    for place, data in enumerate(blocks, start=1):
        if data.strip() == "[DONE]":
            yield DONE
            continue
        try:
            value = read_json(data)
        except UnreadableTraffic:
            # The last event of a stream that was cut off may be half of one.
            if place == len(blocks):
                return
            raise
        if isinstance(value, dict):
            yield value


def _sse_data(text: str) -> Iterator[str]:
    """Give the data of each event; what has none, as comments that keep a connection open, is left out."""
    data: list[str] = []
    # Most servers end lines with ``\n`` alone: splitting there takes a tenth of the pattern's time.
    for line in (*(_LINE.split(text) if "\r" in text else text.split("\n")), ""):
        if not line:
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))


def _values(text: str, place: int) -> Iterator[Json]:
    """Give the objects from a place on, up to anything else: commas and blanks may stand between them."""
    while match := _NEXT.match(text, place):
        try:
            value, place = JSON_DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict):
            yield value


_NEXT: Any = re.compile(r"[\s,]*(?=\{)")


_GOOGLE_WORDS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}


def error_response(format: str, status: int, kind: str, message: str) -> Response:
    """Write an error as the provider of a format would, so that its clients can read it.

    ``kind`` is one word, such as ``not_recorded``. The header ``x-should-retry`` keeps the clients of OpenAI
    and Anthropic from sending the request again.
    """
    headers = {"Content-Type": ("application/json",), "x-should-retry": ("false",)}
    if format.startswith("bedrock."):
        headers["x-amzn-ErrorType"] = (kind,)
    body: dict[str, Any] = {"error": {"message": message, "type": kind, "param": None, "code": kind}}
    if format.startswith("anthropic."):
        body = {"type": "error", "error": {"type": kind, "message": message}}
    elif format == "gemini":
        reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": kind, "domain": "agenteval"}
        word = _GOOGLE_WORDS.get(status, "UNKNOWN")
        body = {"error": {"code": status, "message": message, "status": word, "details": [reason]}}
    elif format.startswith("ollama."):
        body = {"error": f"{kind}: {message}"}
    elif format.startswith("bedrock."):
        body = {"message": message}
    return Response(status, "", headers, compact_json(body))


def refusal_of(response: Response) -> ModelRefused:
    """Read a response whose status says that it is an error; a body that is no JSON is quoted."""
    try:
        words, message = _error_parts(body_parts(response).objects[0])
    except (UnreadableTraffic, IndexError):
        words, message = (), text_of_body(response.body).strip() or response.message
    header = next((it[0] for name, it in response.headers.items() if name.lower() == "x-amzn-errortype"), "")
    kinds = words or tuple(filter(None, (header.partition(":")[0],)))
    return ModelRefused(response.status, kinds, message)


def refusal_in(status: int, event: Json) -> ModelRefused | None:
    """Give the error that a body, or an event of a stream, reports under a status of success; else None."""
    # OpenAI's Responses report an error within the response that an event holds.
    inner = event.get("response")
    failed = inner if inner and isinstance(inner, dict) else event
    if not failed.get("error") and event.get("type") != "error":
        return None
    return ModelRefused(status, *_error_parts(failed))


def _error_parts(body: Json) -> tuple[tuple[str, ...], str]:
    """Give an error's words, the most telling last, and its message."""
    error = body.get("error", body)
    if not isinstance(error, dict):
        return (), as_text(error) or compact_json(error)
    words = (as_text(error.get(name)) for name in ("type", "status", "code", "__type"))
    message = as_text(error.get("message")) or as_text(error.get("Message"))
    return tuple(word for word in words if word and word != "error"), message or compact_json(error)

"""Response bodies in parts: server-sent events, JSON lines, a JSON array, AWS frames, or one JSON value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.cassettes.wire.aws_events import is_event_stream, objects_of
from pytest_agenteval.cassettes.wire.json_body import json_object, raw_body, read_json, text_of_body
from pytest_agenteval.cassettes.wire.traffic import Json, UnreadableTraffic
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.tool import JSON_DECODER

DONE: Json = {"type": "[DONE]"}
"""Stands for the line that ends a stream of OpenAI's, which is no JSON."""

_LINES = msgspec.json.Decoder()
_LINE = re.compile(r"\r\n|\n|\r")
_SSE_FIELD = re.compile(r"(?:data|event|id|retry)?:")


class Parts(FrozenValue, frozen=True):
    """The JSON objects of a response; ``streamed`` says that they are events, and not one whole reply."""

    objects: Sequence[Json]
    streamed: bool


def parts_of(response: Response, *, streamed: bool = True) -> Parts:
    """Read a response's body; raises UnreadableTraffic for what is in none of these forms.

    Where no stream was asked for (``streamed`` is False) nothing may follow the one object of a reply: it
    would be lost.

    The body tells its form, not the header: recordings lose headers, and servers are wrong about them. What
    a stream that was cut off ends in is left out, as its client left it out.
    """
    raw = raw_body(response.body)
    if is_event_stream(raw):
        return Parts(list(objects_of(raw)), True)
    # A server may cut a character between two events: its bytes are put together where their texts are.
    text = text_of_body(response.body, "surrogateescape").strip()
    if not text:
        raise UnreadableTraffic("the body is empty")
    if _SSE_FIELD.match(text):
        return Parts(_sse_objects(text), True)
    if text.startswith("["):
        return Parts(_array_objects(text), True)
    if not streamed and text.startswith("{"):
        return Parts([json_object(text)], False)
    objects, whole = _line_objects(text)
    return Parts(objects, not whole)


def _sse_objects(text: str) -> list[Json]:
    blocks = list(_sse_data(text))
    ended = bool(blocks) and blocks[-1].strip() == "[DONE]"
    values = _values_at_once(blocks[:-1] if ended else blocks)
    if values is None:
        return list(_values_one_by_one(blocks))
    return [*values, DONE] if ended else values


def _values_at_once(blocks: list[str]) -> list[Json] | None:
    """Read blocks each of which is one object; None where that is not sure: it is much quicker.

    Where each begins and ends with a brace, no value goes on from one into the next: JSON has no brace that
    opens right behind one that closes.
    """
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
            if place == len(blocks):
                return
            raise
        if isinstance(value, dict):
            yield value


def _sse_data(text: str) -> Iterator[str]:
    """Give the data of each event; what has none, as comments that keep a connection open, is left out."""
    data: list[str] = []
    # Most servers end lines in one way alone: to split there takes a tenth of the pattern's time.
    for line in (*(_LINE.split(text) if "\r" in text else text.split("\n")), ""):
        if not line:
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))


def _line_objects(text: str) -> tuple[list[Json], bool]:
    """Read JSON values that follow each other; say whether it is one alone."""
    values = list(_values(text, 0))
    if not values:
        read_json(text)  # says what is wrong with it
        raise UnreadableTraffic("the body is no JSON object")
    return values, len(values) == 1


def _array_objects(text: str) -> list[Json]:
    return list(_values(text, 1))


def _values(text: str, place: int) -> Iterator[Json]:
    """Give the objects from a place on, until what is none: commas and blanks may stand between them."""
    while match := _NEXT.match(text, place):
        try:
            value, place = JSON_DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict):
            yield value


_NEXT: Any = re.compile(r"[\s,]*(?=\{)")

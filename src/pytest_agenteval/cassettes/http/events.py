"""Bodies that consist of events: which they are, and where one ends and the next begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

Headers = Iterable[tuple[str, str]]

_SERVER_SENT = "text/event-stream"
_LINES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
_AMAZON = "application/vnd.amazon.eventstream"
_EVENTS = _LINES | {_SERVER_SENT, _AMAZON}
_WHOLE = frozenset({"application/json", "text/html", "text/xml", "application/xml"})
"""What is of no use before its end, whether or not its length is told."""

_SERVER_SENT_EVENT = re.compile(rb".+?(?:\r\n\r\n|\n\n|\r\r|\Z)", re.S)
_LEAST_FRAME = 16
"""Bytes of a frame of Amazon's without headers and payload: two lengths and two checksums."""


def is_event_stream(headers: Headers) -> bool:
    """Whether a body consists of events, each of use as soon as it comes."""
    return _kind(headers) in _EVENTS


def comes_in_parts(headers: Headers) -> bool:
    """Whether parts of a body may be of use before its end: of events, and of what tells no length."""
    listed = list(headers)
    kind, sized = _kind(listed), any(name.lower() == "content-length" for name, _ in listed)
    return kind in _EVENTS or not (sized or kind in _WHOLE)


def events(headers: Headers, raw: bytes) -> list[bytes]:
    """Give a body of events one by one, all other bodies in one piece."""
    kind = _kind(headers)
    if kind == _SERVER_SENT:
        return _server_sent_events(raw)
    if kind in _LINES:
        return raw.splitlines(keepends=True)
    if kind == _AMAZON:
        return list(_frames(raw))
    return [raw] if raw else []


def _server_sent_events(raw: bytes) -> list[bytes]:
    if b"\r" in raw:
        return _SERVER_SENT_EVENT.findall(raw)
    *ended, rest = raw.split(b"\n\n")  # a tenth of the pattern's time
    return [event + b"\n\n" for event in ended] + ([rest] if rest else [])


def _frames(raw: bytes) -> Iterator[bytes]:
    """Give frames of Amazon's event stream, whose first four bytes are their length."""
    while raw:
        length = int.from_bytes(raw[:4], "big")
        length = length if length >= _LEAST_FRAME else len(raw)
        yield raw[:length]
        raw = raw[length:]


def _kind(headers: Headers) -> str:
    for name, value in headers:
        if name.lower() == "content-type":
            return value.partition(";")[0].strip().lower()
    return ""

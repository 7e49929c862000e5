"""AWS's event stream: frames of headers and a payload, each with checksums, as Bedrock streams its replies.

A frame is its length, the length of its headers, a checksum of both, the headers, the payload, a checksum of
all before it. Numbers are big-endian, lengths and checksums have 4 bytes; the checksums are CRC-32.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from struct import Struct
from zlib import crc32

from pytest_agenteval.cassettes.wire.json_body import as_text, json_object
from pytest_agenteval.cassettes.wire.traffic import Json, UnreadableTraffic

_PRELUDE = Struct(">III")
_U32, _U16 = Struct(">I"), Struct(">H")
_FIXED_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""How long the values of header types are that have one length; 6 and 7, bytes and text, say theirs."""
_SMALLEST = _PRELUDE.size + _U32.size


def is_event_stream(raw: bytes) -> bool:
    """Whether bytes begin with a frame's prelude, which its checksum tells."""
    return len(raw) >= _PRELUDE.size and crc32(raw[:8]) == _PRELUDE.unpack_from(raw)[2]


def objects_of(raw: bytes) -> Iterator[Json]:
    """Give each event as a map from its type to its payload; an error as ``{"error": …}``.

    An event that holds another format's event (``chunk``) gives that.
    """
    for headers, payload in frames_of(raw):
        yield _event(_headers(headers), payload)


def frames_of(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
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


def frame_of(headers: bytes, payload: bytes) -> bytes:
    """Write a frame, with its lengths and checksums."""
    length = _SMALLEST + len(headers) + len(payload)
    lengths = _U32.pack(length) + _U32.pack(len(headers))
    frame = lengths + _U32.pack(crc32(lengths)) + headers + payload
    return frame + _U32.pack(crc32(frame))


def _headers(raw: bytes) -> dict[str, str]:
    """Read the headers that are texts; the others say nothing that is needed."""
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
    kind = headers.get(":message-type", "event")
    if kind == "error":
        told = {"type": headers.get(":error-code", ""), "message": headers.get(":error-message", "")}
        return {"error": told}
    held = json_object(payload, "surrogateescape") if payload.strip() else {}
    if kind == "exception":
        return {"error": {**held, "type": headers.get(":exception-type", "")}}
    name = headers.get(":event-type", "")
    if name == "chunk" and "bytes" in held:
        return json_object(b64decode(as_text(held["bytes"])), "surrogateescape")
    return {name: held}

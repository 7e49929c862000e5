"""Requests and responses, between what HTTP libraries hold and what cassettes hold."""

from __future__ import annotations

import gzip
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

from pytest_agenteval.cassettes.interaction import Request, Response, bytes_of
from pytest_agenteval.text.secret_forms import MARK

Pairs = Iterable[tuple[str, str]]

_SERVER_SENT = "text/event-stream"
_LINES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
_AMAZON = "application/vnd.amazon.eventstream"
_EVENTS = _LINES | {_SERVER_SENT, _AMAZON}
_WHOLE = frozenset({"application/json", "text/html", "text/xml", "application/xml"})
"""Bodies of these types are of no use before their end, whether or not the headers state a length."""

_SERVER_SENT_EVENT = re.compile(rb".+?(?:\r\n\r\n|\n\n|\r\r|\Z)", re.S)


def is_event_stream(headers: Pairs) -> bool:
    """Whether a body consists of events, each of use as soon as it comes."""
    return _content_type(headers) in _EVENTS


def comes_in_parts(headers: Pairs) -> bool:
    """Whether parts of a body may be of use before its end: of events, and of what tells no length."""
    listed = list(headers)
    kind, sized = _content_type(listed), any(name.lower() == "content-length" for name, _ in listed)
    return kind in _EVENTS or not (sized or kind in _WHOLE)


def split_events(headers: Pairs, raw: bytes) -> list[bytes]:
    """Give a body of events one by one, all other bodies in one piece."""
    kind = _content_type(headers)
    if kind == _SERVER_SENT:
        if b"\r" in raw:
            return _SERVER_SENT_EVENT.findall(raw)
        # Without carriage returns, splitting takes a tenth of the pattern's time.
        *ended, rest = raw.split(b"\n\n")
        return [event + b"\n\n" for event in ended] + ([rest] if rest else [])
    if kind in _LINES:
        return raw.splitlines(keepends=True)
    if kind == _AMAZON:
        return list(_frames(raw))
    return [raw] if raw else []


def _frames(raw: bytes) -> Iterator[bytes]:
    """Give frames of Amazon's event stream, whose first four bytes are their length."""
    while raw:
        length = int.from_bytes(raw[:4], "big")
        # Without headers and payload, a frame is two lengths and two checksums. A smaller length is damage:
        # all that is left is given as one frame.
        length = length if length >= 16 else len(raw)
        yield raw[:length]
        raw = raw[length:]


def _content_type(headers: Pairs) -> str:
    for name, value in headers:
        if name.lower() == "content-type":
            return value.partition(";")[0].strip().lower()
    return ""


# These headers say how a body travelled. It is recorded as it was once it had arrived.
_OF_TRAVEL = frozenset({"content-length", "transfer-encoding", "connection", "keep-alive"})
_OF_ENCODING = frozenset({"content-encoding", "content-length"})
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_CHUNKED = ("Transfer-Encoding", "chunked")
_GZIP = b"\x1f\x8b"
ENCODED, _BARE_DEFLATE = "encoded", "bare-deflate"
"""The key of a recorded response that names the encodings of its body; deflate without zlib's header."""

_BOUNDARY = re.compile(r"(multipart/[\w-]+;.*?boundary=)\"?([^\";\s]+)\"?", re.I)


OF_BODY = ("content-length", "transfer-encoding", "content-encoding")
"""Headers that say how a body travels; another body needs others."""


def recordable_request(method: str, uri: str, headers: Pairs, body: bytes | None) -> Request:
    """Make the request that a cassette holds: its body decoded, so that it can be read, and redacted.

    The boundary of a form, made anew each time, gets one name.
    """
    listed = _header_lists(headers)
    coding = _encodings(listed)
    if coding and body and (decoded := _decode(coding, body)) is not None:
        body = decoded
        listed = {name: values for name, values in listed.items() if name.lower() not in _OF_ENCODING}
    boundary = _BOUNDARY.search(" ".join(_values_of(listed, "content-type")))
    # Clients make a boundary up anew for each request: with it, no form would meet its recording.
    if boundary and body:
        old = boundary[2]
        body = body.replace(old.encode("latin-1"), b"boundary")
        listed = {
            name: [value.replace(old, "boundary") for value in values] for name, values in listed.items()
        }
    return Request(method.upper(), uri, body or None, listed)


def normalize_request(request: Request) -> Request:
    """Give a recorded request as it would be sent today, whichever boundary and encoding it has."""
    kind = _values_of(request.headers, "content-type")
    if not (kind and _BOUNDARY.search(" ".join(kind))) and not _encodings(request.headers):
        return request
    return recordable_request(
        request.method, request.uri, _header_pairs(request.headers), bytes_of(request.body)
    )


def normalize_response(response: Response) -> Response:
    """Give a recorded response with its body decoded, as ``recordable_response`` makes it.

    vcrpy keeps bodies as they travelled or, from what aiohttp and newer urllib3 give it, decoded beneath a
    header that still says how they were encoded; ``sent_response`` encodes them as that says.
    """
    if not response.body or not (coding := _encodings(response.headers)):
        return response
    headers, raw = _header_pairs(response.headers), bytes_of(response.body)
    is_text = isinstance(response.body, str) and not _CONTROL.search(response.body)
    # No encoding gives plain text: such a body was decoded when vcrpy recorded it.
    if is_text or (coding in (["gzip"], ["x-gzip"]) and not raw.startswith(_GZIP)):
        plain_headers = {
            name: it for name, it in response.headers.items() if name.lower() not in _OF_ENCODING
        }
        encoded = {} if coding == ["identity"] else {ENCODED: ", ".join(coding)}
        return replace(response, headers=plain_headers, extra={**response.extra, **encoded})
    decoded = recordable_response("GET", response.status, response.message, headers, raw)
    extra = {**response.extra, **decoded.extra}
    return replace(response, headers=decoded.headers, body=decoded.body, extra=extra)


def recordable_response(
    method: str, status: int, message: str, headers: Pairs, raw: bytes, *, whole: bool = True
) -> Response:
    """Make the response that a cassette holds, its body decoded: so it can be read, and redacted.

    How it was encoded stands beside it, for ``sent_response``. Of one that is not ``whole`` as much is
    decoded as came.
    """
    listed = _header_lists(headers)
    coding = _encodings(listed)
    body: bytes | None = None
    if whole or coding not in (["gzip"], ["x-gzip"], ["deflate"]):
        body = _decode(coding, raw)
    # Of a body that was cut, the beginning is decoded. With 32 added, zlib itself tells gzip from deflate.
    else:
        with suppress(zlib.error):
            body = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(raw)
    dropped, extra = set(_OF_TRAVEL), {}
    if body is not None and coding:
        dropped.add("content-encoding")
        if raw and whole and coding != ["identity"]:
            bare = coding == ["deflate"] and not _has_zlib_header(raw)
            extra[ENCODED] = _BARE_DEFLATE if bare else ", ".join(coding)
    # The response to HEAD has the length of a body that is not sent with it.
    if method.upper() == "HEAD":
        dropped.discard("content-length")
    held_headers = {name: values for name, values in listed.items() if name.lower() not in dropped}
    return Response(status, message, held_headers, raw if body is None else body, extra)


def sent_response(response: Response, request: Request) -> Response:
    """Give a recorded response with its body encoded again, as its server sent it.

    Clients that decode do so again, and others get the bytes that they were written for. It stays plain where
    the request accepts other encodings only, where no package encodes it, and where it consists of events.
    """
    names = [name.strip() for name in str(response.extra.get(ENCODED, "")).split(",")]
    headers = _header_pairs(response.headers)
    if names == [""] or not _has_body(response, request.method) or is_event_stream(headers):
        return response
    accepted = ",".join(_values_of(request.headers, "accept-encoding")).lower()
    listed = [part.partition(";")[0].strip() for part in accepted.split(",")]
    # A client that does not say what it takes gets what its server sends.
    takes_any = not accepted or "*" in listed
    body: bytes | None = bytes_of(response.body)
    for name in names:
        plain = name.replace(_BARE_DEFLATE, "deflate").removeprefix("x-")
        body = _encode(name, body) if body is not None and (takes_any or plain in listed) else None
    if body is None:
        return response
    value = ", ".join(names).replace(_BARE_DEFLATE, "deflate")
    return replace(response, headers={**response.headers, "Content-Encoding": value}, body=body)


def playable_response(response: Response, method: str) -> tuple[list[tuple[str, str]], bytes]:
    """Give headers and body as a library is to get them; it decodes once what is still encoded."""
    raw = bytes_of(response.body) if _has_body(response, method) else b""
    headers = _header_pairs(response.headers)
    # A body that is decoded already is not to be decoded again: the client would raise.
    zipped = raw.startswith(_GZIP) or not raw
    dropped = set() if method.upper() == "HEAD" else set(_OF_TRAVEL)
    played_headers = []
    for name, value in headers:
        is_unzipped = name.lower() == "content-encoding" and "gzip" in value.lower() and not zipped
        if name.lower() not in dropped and (name.lower(), value) != ("set-cookie", MARK) and not is_unzipped:
            played_headers.append((name, value))
    if _has_body(response, method):
        in_events = is_event_stream(played_headers)
        played_headers.append(_CHUNKED if in_events else ("Content-Length", str(len(raw))))
    return played_headers, raw


def on_the_wire(response: Response, method: str) -> bytes:
    return b"".join(parts_on_the_wire(response, method))


def parts_on_the_wire(response: Response, method: str) -> list[bytes]:
    """Write a response as a server would send it, each event of a body of events as a chunk of its own."""
    headers, raw = playable_response(response, method)
    head = head_on_the_wire(response.status, response.message, headers)
    if _CHUNKED not in headers:
        return [head + raw]
    return [head, *map(chunk_on_the_wire, split_events(headers, raw)), chunk_on_the_wire(b"")]


def head_on_the_wire(status: int, message: str, headers: Pairs) -> bytes:
    """Write what comes before a body as a server would send it."""
    from http.client import responses

    first = f"HTTP/1.1 {status} {message or responses.get(status, '')}"
    lines = [first, *(f"{name}: {value}" for name, value in headers)]
    # A line break within a recorded header would end the head, or begin another header.
    head = "".join(re.sub(r"[\r\n\x00]", " ", line) + "\r\n" for line in lines)
    return head.encode("utf-8", "surrogateescape") + b"\r\n"


def chunk_on_the_wire(part: bytes) -> bytes:
    """Write one chunk of a body that comes in chunks; the empty one is its end."""
    return b"%x\r\n%b\r\n" % (len(part), part)


def whole_body(body: Any) -> bytes | None:
    """Give all of a body that a library would send: text, bytes, a file, or parts of it."""
    if body is None or isinstance(body, bytes | bytearray | memoryview):
        return None if body is None else bytes(body)
    if isinstance(body, str):
        return body.encode("utf-8")
    if hasattr(body, "read"):
        return whole_body(body.read())
    return b"".join(whole_body(part) or b"" for part in body)


def _encodings(headers: Mapping[str, Sequence[str]]) -> list[str]:
    values = _values_of(headers, "content-encoding")
    return [word.strip().lower() for value in values for word in value.split(",")]


def _encode(name: str, body: bytes) -> bytes | None:
    """Encode a body; None where no package does."""
    # Without the time, the same body is encoded into the same bytes in every replay.
    if name in ("gzip", "x-gzip"):
        return gzip.compress(body, mtime=0)
    if name in ("deflate", _BARE_DEFLATE):
        encoder = zlib.compressobj(wbits=zlib.MAX_WBITS if name == "deflate" else -zlib.MAX_WBITS)
        return encoder.compress(body) + encoder.flush()
    for package in {"br": ("brotli", "brotlicffi"), "zstd": ("zstandard",)}.get(name, ()):
        with suppress(ImportError):
            encoded: bytes = import_module(package).compress(body)
            return encoded
    return None


def _has_zlib_header(raw: bytes) -> bool:
    # Many servers send deflate without the header that HTTP asks for; 8 is its method of compression.
    return raw[0] & 0x0F == 8


def _decode(coding: list[str], raw: bytes) -> bytes | None:
    """Undo what can be undone here; None where that is not so, and the body stays as it travelled."""
    if not coding or coding == ["identity"] or not raw:
        return raw
    try:
        if coding in (["gzip"], ["x-gzip"]):
            return gzip.decompress(raw)
        if coding == ["deflate"]:
            return zlib.decompress(raw, zlib.MAX_WBITS if _has_zlib_header(raw) else -zlib.MAX_WBITS)
    except (OSError, EOFError, zlib.error):
        return None
    import httpx

    # httpx finds the package for brotli and the like, if there is one.
    try:
        body = httpx.Response(200, headers={"Content-Encoding": ",".join(coding)}, content=raw).content
    except httpx.DecodingError:
        return None
    return None if body == raw else body


def _has_body(response: Response, method: str) -> bool:
    return method.upper() != "HEAD" and response.status not in (204, 304) and response.status >= 200


def _header_lists(headers: Pairs) -> dict[str, list[str]]:
    listed: dict[str, list[str]] = defaultdict(list)
    for name, value in headers:
        listed[_header_text(name)].append(_header_text(value))
    return dict(listed)


def _header_text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _header_pairs(headers: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, values in headers.items() for value in values]


def _values_of(headers: Mapping[str, Sequence[str]], name: str) -> list[str]:
    return [value for key, values in headers.items() if key.lower() == name for value in values]

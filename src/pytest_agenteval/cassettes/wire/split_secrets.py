"""Secrets that a body holds in pieces: over the events of a stream, or over the parts of one message.

Who reads the body joins the pieces, so they are joined here as well, and where the joined text holds a
secret, its pieces are rewritten: joined again, they hold the mark.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.cassettes.interaction import Body
from pytest_agenteval.cassettes.wire.aws_events import frame_of, frames_of, is_event_stream
from pytest_agenteval.cassettes.wire.json_body import as_text, read_json
from pytest_agenteval.cassettes.wire.traffic import UnreadableTraffic
from pytest_agenteval.json_values import whole_text

Clean: TypeAlias = Callable[[str], str]

_DATA = re.compile(r"(?m)^data: ?(.*)$")
_BEGINNINGS = ("{", "[", "data:", "event:", "id:", "retry:", ":")
_NEXT_LINE = re.compile(r"\}[ \t]*[\r\n]+[ \t]*\{")
_EVENT_END = re.compile(r"(\r\n\r\n|\n\n|\r\r)")
_LINE_END = re.compile(r"(\r\n|\n|\r)")
_PLACES = ("index", "output_index", "content_index", "summary_index", "contentBlockIndex", "thought")
"""What says which of several texts of a document a piece belongs to."""
_NO_TEXT = re.compile(
    r"(?:.*[_-])?id|.*Id|object|model|role|type|event|name|.*reason|created.*|.*_at|.*fingerprint|.*[sS]ignature"
    r"|obfuscation|p|service_tier|status|url|.*Version|encrypted.*"
)
"""Names of values that stand in each event for themselves: they are no pieces of a text."""


class _Piece(NamedTuple):
    """A text within a document: ``holder[key]``."""

    document: int
    holder: Any
    key: Any

    @property
    def text(self) -> str:
        return str(self.holder[self.key])


def without_split_secrets(body: Body, clean: Clean) -> Body:
    """Give a body without the secrets that stand in several of its texts; ``clean`` takes them out of one.

    It is the same body where there is none, and where it is neither JSON nor made of events.
    """
    if isinstance(body, bytes):
        return _clean_frames(body, clean) if is_event_stream(body) else body
    begin = (body or "")[:200].lstrip("\ufeff \t\r\n")
    if not body or not begin.startswith(_BEGINNINGS):
        return body
    if not begin.startswith(("{", "[")):
        parts = _EVENT_END.split(body)
    elif begin.startswith("{") and _NEXT_LINE.search(body):
        parts = _LINE_END.split(body)
    elif body.count('"text"') > 1:
        return _clean_whole(body, clean)
    else:
        return body
    documents = [_document(part) for part in parts]
    changed = _clean_texts(documents, clean)
    written = (_written(part, documents[at]) if at in changed else part for at, part in enumerate(parts))
    return "".join(written) if changed else body


def _clean_whole(body: str, clean: Clean) -> str:
    """Clean one document; a list of Gemini's is a stream."""
    document = _document(body)
    changed = _clean_texts(document if isinstance(document, list) else [document], clean)
    return _json(document) if changed else body


def _document(part: str) -> Any:
    """Read the JSON of a part; None where it holds none."""
    if not part or part.isspace():
        return None
    data = "\n".join(match[1].rstrip("\r") for match in _DATA.finditer(part)) or part
    try:
        return read_json(data) if data.lstrip().startswith(("{", "[")) else None
    except UnreadableTraffic:
        return None


def _written(part: str, document: Any) -> str:
    """Write a document in the place of the one that the part held."""
    text = _json(document)
    lines = list(_DATA.finditer(part))
    if not lines:
        return text
    ending = "\r" if lines[-1][0].endswith("\r") else ""
    return f"{part[: lines[0].start()]}data: {text}{ending}{part[lines[-1].end() :]}"


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or not re.search("[\ud800-\udfff]", text) else json.dumps(value)


def _clean_frames(raw: bytes, clean: Clean) -> bytes:
    """Clean AWS's frames, whose lengths and checksums are written anew; each is a document."""
    frames = list(frames_of(raw))
    payloads = [_document(payload.decode("utf-8", "replace")) for _, payload in frames]
    wrapped = [isinstance(it, dict) and isinstance(it.get("bytes"), str) for it in payloads]
    inner = [
        _document(b64decode(as_text(it["bytes"])).decode("utf-8", "replace")) if is_wrapped else it
        for it, is_wrapped in zip(payloads, wrapped, strict=True)
    ]
    changed = _clean_texts(inner, clean, alone=True)
    written = raw
    if changed:
        whole = sum(len(frame_of(*frame)) for frame in frames)
        texts = [
            _json({**payload, "bytes": b64encode(_json(it).encode()).decode()} if is_wrapped else it)
            for payload, it, is_wrapped in zip(payloads, inner, wrapped, strict=True)
        ]
        new = [
            frame_of(headers, texts[at].encode() if at in changed else payload)
            for at, (headers, payload) in enumerate(frames)
        ]
        written = b"".join(new) + raw[whole:]
    return written


def _clean_texts(documents: Sequence[Any], clean: Clean, *, alone: bool = False) -> set[int]:
    """Clean the texts that pieces make; give the places of the documents that were changed.

    Pieces by themselves are clean already, unless they are to be looked at ``alone``.
    """
    texts: dict[Any, list[_Piece]] = defaultdict(list)
    for at, document in enumerate(documents):
        kind = document.get("type") if isinstance(document, dict) else None
        for path, holder, key in _leaves(document, ()):
            texts[kind, path].append(_Piece(at, holder, key))
    changed: set[int] = set()
    for pieces in texts.values():
        if len(pieces) > 1 or alone:
            changed |= _clean_pieces(pieces, clean)
    return changed


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, Any, Any]]:
    """Give the texts of a document, each with a path that is the same for the pieces of one text."""
    if isinstance(value, dict):
        path = (*path, *((name, str(value[name])) for name in _PLACES if name in value))
        inner = [(name, name) for name in value if _may_be_text(name)]
    elif isinstance(value, list):
        # Parts of one text have no number, and follow each other.
        inner = [(at, "text" if _is_part(it) else at) for at, it in enumerate(value)]
    else:
        return
    for key, name in inner:
        if isinstance(value[key], str):
            yield (*path, name), value, key
        else:
            yield from _leaves(value[key], (*path, name))


@lru_cache(1000)
def _may_be_text(name: str) -> bool:
    return _NO_TEXT.fullmatch(name) is None


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("text"), str)


def _clean_pieces(pieces: Sequence[_Piece], clean: Clean) -> set[int]:
    """Rewrite the pieces between the first and the last character that cleaning changes."""
    joined = "".join(piece.text for piece in pieces)
    whole = whole_text(joined)
    cleaned = clean(whole)
    if cleaned == whole:
        return set()
    # Where a character itself is in two pieces, all of the text goes into the first.
    begin = _common(joined, cleaned) if whole == joined else 0
    tail = _common(joined[begin:][::-1], cleaned[begin:][::-1]) if whole == joined else 0
    end, between = len(joined) - tail, cleaned[begin : len(cleaned) - tail]
    changed, at = set(), 0
    for piece in pieces:
        text, start = piece.text, at
        at += len(text)
        if at <= begin or start >= end:
            continue
        before, behind = text[: max(0, begin - start)], text[max(0, end - start) :]
        piece.holder[piece.key] = before + between + behind
        between = ""
        changed.add(piece.document)
    return changed


def _common(left: str, right: str) -> int:
    """Count the characters with which both begin."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (mine, other) in pairs if mine != other), min(len(left), len(right)))

"""Secrets that a body holds in pieces: over the events of a stream, or over the parts of one message.

Who reads the body joins the pieces, so they are joined here as well, and where the joined text holds a
secret, its pieces are rewritten: joined again, they hold the mark. Which pieces make a text is known for the
usual formats. Where it is not, known secrets are looked for in the pieces of one path, then in all texts.
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
from pytest_agenteval.cassettes.wire.traffic import Json, UnreadableTraffic
from pytest_agenteval.text.json_values import whole_text
from pytest_agenteval.text.redaction.spellings import MARK, SHORTEST

Clean: TypeAlias = Callable[[str], str]

_EVENTS = re.compile(r"[\ufeff\s]*(?:data|event|id|retry)?:")
_JSON = re.compile(r"[\ufeff\s\x1e]*(?:\w{1,2}:)?[{\[\"]")
"""JSON, one value or many; lines of an AI SDK begin with a number or a letter (``0:"Hello"``)."""

_DATA = re.compile(r"(?:\A\ufeff?|(?<=[\r\n]))data: ?([^\r\n]*)")
_EVENT_END = re.compile(r"\n\n|\r\r|\n\r")
_NEXT_LINE = re.compile(r"\}[ \t]*[\r\n]+[ \t]*\{")
_VALUE = re.compile(r"[{\[\"]")
_MOST_UNREADABLE = 100
_decoder = json.JSONDecoder(strict=False)
_LOGPROBS = ("logprobs", "logprobsResult")
_PLACES = ("index", "output_index", "content_index", "summary_index", "contentBlockIndex", "thought")
"""What says which of several texts of a document a piece belongs to."""
_NO_TEXT = re.compile(
    r"(?:.*[_-])?id|.*Id|object|model|role|type|event|name|.*reason|created.*|.*_at|.*fingerprint|.*[sS]ignature"
    r"|obfuscation|p|service_tier|status|url|.*Version|encrypted.*"
)
"""Names of values that stand in each event for themselves: they are no pieces of a text."""


class _Document(NamedTuple):
    """A JSON value, or a ``plain`` text, and where it stands in a body."""

    begin: int
    end: int
    value: Any
    plain: bool = False


class _Piece(NamedTuple):
    """A text within a document: ``holder[key]``."""

    document: int
    holder: Any
    key: Any

    @property
    def text(self) -> str:
        return str(self.holder[self.key])


class _Leaf(NamedTuple):
    """Where a text of a document stands: ``path`` says which text it is, ``names`` are the keys alone."""

    path: tuple[Any, ...]
    names: tuple[str, ...]
    may_be_text: bool
    holder: Any
    key: Any


def without_split_secrets(
    body: Body, clean: Clean, known: Clean | None = None, *, holds_secret: bool = False
) -> Body:
    """Give a body without the secrets that stand in several of its texts; ``clean`` takes them out of one.

    ``known``, which takes known values out, is for pieces of which nothing says that they are one text. With
    ``holds_secret``, a whole one was taken out, which the log probabilities of tokens hold in pieces. The
    body is the same where there is no secret, and where it is neither JSON nor made of events.
    """
    if isinstance(body, bytes):
        return _clean_frames(body, clean, known) if is_event_stream(body) else body
    if not body:
        return body
    if _EVENTS.match(body):
        documents = _documents_of_events(body)
    elif not _JSON.match(body):
        return body
    else:
        in_parts = body.count('"text"') > 1
        if known is None and not in_parts and not _NEXT_LINE.search(body):
            return body
        documents = list(_documents_of_json(body))
        if in_parts and len(documents) == 1 and isinstance(documents[0].value, list):  # Gemini's stream
            items = [{"": item} for item in documents[0].value]
            return _with_changes(body, documents, {0} if _clean_texts(items, clean, known) else set())
    holders = [{"": document.value} for document in documents]
    changed = _clean_texts(holders, clean, known)
    if known is not None and (changed or holds_secret):  # they hold the same text once more, and its bytes
        changed |= {at for at, holder in enumerate(holders) if _drop_logprobs(holder)}
    written = [it._replace(value=holder[""]) for it, holder in zip(documents, holders, strict=True)]
    return _with_changes(body, written, changed)


def _documents_of_events(body: str) -> list[_Document]:
    """Read the data of server-sent events: JSON, which may have several lines, or plain text."""
    events: list[list[re.Match[str]]] = []
    for line in _DATA.finditer(body):
        if not events or _EVENT_END.search(body, events[-1][-1].end(), line.start()):
            events.append([])
        events[-1].append(line)
    documents = []
    for lines in events:
        joined = _document("\n".join(line[1] for line in lines)) if len(lines) > 1 else None
        if joined is not None:
            documents.append(_Document(lines[0].start(1), lines[-1].end(), joined))
            continue
        for line in lines:
            value = _document(line[1])
            documents.append(
                _Document(line.start(1), line.end(), line[1] if value is None else value, value is None)
            )
    return documents


def _documents_of_json(body: str) -> Iterator[_Document]:
    """Read the JSON values of a body, whatever stands between them."""
    at = unreadable = 0
    while (found := _VALUE.search(body, at)) and unreadable < _MOST_UNREADABLE:
        try:
            value, at = _decoder.raw_decode(body, found.start())
        except (ValueError, RecursionError):
            unreadable, at = unreadable + 1, found.end()
        else:
            yield _Document(found.start(), at, value)


def _document(text: str) -> Any:
    """Read a JSON text; None where it is none."""
    try:
        return read_json(text) if text.lstrip().startswith(("{", "[", '"')) else None
    except UnreadableTraffic:
        return None


def _with_changes(body: str, documents: Sequence[_Document], changed: set[int]) -> str:
    """Write the changed documents in the places where they stood."""
    parts, done = [], 0
    for at in sorted(changed):
        begin, end, value, plain = documents[at]
        parts += [body[done:begin], value if plain else _json(value)]
        done = end
    return "".join([*parts, body[done:]]) if changed else body


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or not re.search("[\ud800-\udfff]", text) else json.dumps(value)


def _clean_frames(raw: bytes, clean: Clean, known: Clean | None) -> bytes:
    """Clean AWS's frames, whose lengths and checksums are written anew; each is a document."""
    frames = list(frames_of(raw))
    payloads = [_document(payload.decode("utf-8", "replace")) for _, payload in frames]
    wrapped = [isinstance(it, dict) and isinstance(it.get("bytes"), str) for it in payloads]
    inner = [
        _document(b64decode(as_text(it["bytes"])).decode("utf-8", "replace")) if is_wrapped else it
        for it, is_wrapped in zip(payloads, wrapped, strict=True)
    ]
    changed = _clean_texts([{"": it} for it in inner], clean, known, alone=True)
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


def _clean_texts(
    holders: Sequence[Json], clean: Clean, known: Clean | None, *, alone: bool = False
) -> set[int]:
    """Clean the texts that pieces make; give the places of the documents that were changed.

    Pieces by themselves are clean already, unless they are to be looked at ``alone``.
    """
    texts: dict[Any, list[_Piece]] = defaultdict(list)
    paths: dict[tuple[str, ...], list[_Piece]] = defaultdict(list)
    every: list[_Piece] = []
    for at, holder in enumerate(holders):
        kind = holder[""].get("type") if isinstance(holder[""], dict) else None
        for leaf in _leaves(holder, (), (), may_be_text=True):
            piece = _Piece(at, leaf.holder, leaf.key)
            paths[leaf.names].append(piece)
            if leaf.may_be_text:
                texts[kind, leaf.path].append(piece)
                every.append(piece)
    changed: set[int] = set()
    for pieces in texts.values():
        if len(pieces) > 1 or alone:
            changed |= _clean_pieces(pieces, clean)
    if known is not None:
        for names, pieces in paths.items():
            in_logprobs = not set(_LOGPROBS).isdisjoint(names)  # there tokens are pieces of one text
            changed |= _clean_pieces(pieces, clean if in_logprobs else known) if len(pieces) > 1 else set()
        changed |= _clean_pieces(every, known)
    return changed


def _drop_logprobs(value: Any) -> bool:
    """Empty what says how likely each token was; give whether there was any."""
    dropped = False
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if key in _LOGPROBS and inner:
            value[key], dropped = [] if isinstance(inner, list) else None, True
        elif isinstance(inner, dict | list):
            dropped = _drop_logprobs(inner) or dropped
    return dropped


def _leaves(
    value: Any, path: tuple[Any, ...], names: tuple[str, ...], *, may_be_text: bool
) -> Iterator[_Leaf]:
    """Give the texts of a document, each with a path that is the same for the pieces of one text."""
    if isinstance(value, dict):
        path = (*path, *((name, str(value[name])) for name in _PLACES if name in value))
        inner = [(name, name, (*names, name), may_be_text and _may_be_text(name)) for name in value]
    elif isinstance(value, list):
        # Parts of one text have no number, and follow each other.
        inner = [(at, "text" if _is_part(it) else at, names, may_be_text) for at, it in enumerate(value)]
    else:
        return
    for key, step, below, is_text in inner:
        if isinstance(value[key], str):
            yield _Leaf((*path, step), below, is_text, value, key)
        else:
            yield from _leaves(value[key], (*path, step), below, may_be_text=is_text)


@lru_cache(1000)
def _may_be_text(name: str) -> bool:
    return _NO_TEXT.fullmatch(name) is None


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("text"), str)


def _clean_pieces(pieces: Sequence[_Piece], clean: Clean) -> set[int]:
    """Rewrite the pieces where cleaning changes their joined text; a mark stands where its secret began."""
    joined = "".join(piece.text for piece in pieces)
    whole = whole_text(joined)
    cleaned = clean(whole)
    if cleaned == whole:
        return set()
    # Where a character itself is in two pieces, all of the text goes into the first.
    changes = _changes(joined, cleaned, clean) if whole == joined else [(0, len(joined), cleaned)]
    changed, at = set(), 0
    for piece in pieces:
        text, start, done, parts = piece.text, at, 0, []
        at += len(text)
        for begin, end, new in changes:
            if begin < at and end > start:
                parts += [text[done : max(done, begin - start)], new if begin >= start else ""]
                done = min(len(text), end - start)
        if parts:
            piece.holder[piece.key] = "".join([*parts, text[done:]])
            changed.add(piece.document)
    return changed


def _changes(joined: str, cleaned: str, clean: Clean) -> list[tuple[int, int, str]]:
    """Say what of a text gave the marks of the cleaned one: where it begins and ends, and what is there now.

    Where that is not sure, it is all between the first and the last character that differ.
    """
    first, *others = cleaned.split(MARK)
    changes, at = [], len(first)
    for number, literal in enumerate(others, 1):
        is_last = number == len(others)
        end = len(joined) - len(literal) if is_last else joined.find(literal, at + SHORTEST)
        changes.append((at, end, MARK))
        at = end + len(literal)
    are_sure = all(0 <= begin < end and clean(joined[begin:end]) == MARK for begin, end, _ in changes)
    if changes and joined.startswith(first) and are_sure:
        return changes
    begin = _common(joined, cleaned)
    tail = _common(joined[begin:][::-1], cleaned[begin:][::-1])
    return [(begin, len(joined) - tail, cleaned[begin : len(cleaned) - tail])]


def _common(left: str, right: str) -> int:
    """Count the characters with which both begin."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (mine, other) in pairs if mine != other), min(len(left), len(right)))

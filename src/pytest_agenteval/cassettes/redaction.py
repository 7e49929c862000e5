"""Secrets are taken out of requests and responses before they are recorded."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.cassettes.interaction import (
    CHAT,
    TOOL,
    Body,
    Headers,
    Interaction,
    Request,
    Response,
    http_request_of,
    with_http_request,
)
from pytest_agenteval.cassettes.wire.response_bodies import aws_frame, aws_frames, is_aws_event_stream
from pytest_agenteval.cassettes.wire.traffic import Json, UnreadableTraffic, as_text, read_json
from pytest_agenteval.text.json_values import compact_json, mend_surrogates
from pytest_agenteval.text.redaction import KNOWN_SECRETS, MOST_CLEAN_TEXTS, Secrets
from pytest_agenteval.text.secret_forms import MARK, has_shape, is_secret_header

Clean: TypeAlias = Callable[[str], str]

_EVENTS = re.compile(r"[\ufeff\s]*(?:data|event|id|retry)?:")
_JSON_START = re.compile(r"[\ufeff\s\x1e]*(?:\w{1,2}:)?[{\[\"]")
"""JSON, one value or many; lines of an AI SDK begin with a number or a letter (``0:"Hello"``)."""

_DATA = re.compile(r"(?:\A\ufeff?|(?<=[\r\n]))data: ?([^\r\n]*)")
_EVENT_END = re.compile(r"\n\n|\r\r|\n\r")
_NEXT_LINE = re.compile(r"\}[ \t]*[\r\n]+[ \t]*\{")
_VALUE = re.compile(r"[{\[\"]")
_MOST_UNREADABLE = 100
_lenient_decoder = json.JSONDecoder(strict=False)
_LOGPROBS = ("logprobs", "logprobsResult")
_PLACES = ("index", "output_index", "content_index", "summary_index", "contentBlockIndex", "thought")
"""Keys whose values say which of several texts of a document a piece belongs to."""
_NO_TEXT = re.compile(
    r"(?:.*[_-])?id|.*Id|object|model|role|type|event|name|.*reason|created.*|.*_at|.*fingerprint|.*[sS]ignature"
    r"|obfuscation|p|service_tier|status|url|.*Version|encrypted.*"
)
"""Names of values that stand in each event for themselves: they are no pieces of a text."""


class _JsonDocument(NamedTuple):
    """A JSON value, or a ``plain`` text, and where it stands in a body."""

    begin: int
    end: int
    value: Any
    plain: bool = False


class _TextPiece(NamedTuple):
    """A text within a document: ``holder[key]``."""

    document: int
    holder: Any
    key: Any

    @property
    def text(self) -> str:
        return str(self.holder[self.key])


def without_split_secrets(
    body: Body, clean: Clean, known: Clean | None = None, *, holds_secret: bool = False
) -> Body:
    """Give a body without the secrets that stand in several of its texts; ``clean`` takes them out of one.

    ``known``, which takes known values out, is for pieces of which nothing says that they are one text. With
    ``holds_secret``, a whole one was taken out, which the log probabilities of tokens hold in pieces. The
    body is the same where there is no secret, and where it is neither JSON nor made of events.
    """
    if isinstance(body, bytes):
        return _clean_frames(body, clean, known) if is_aws_event_stream(body) else body
    if not body:
        return body
    # A streamed reply cuts its text anywhere, also within a secret, into the events of one body.
    if _EVENTS.match(body):
        documents = _documents_of_events(body)
    elif not _JSON_START.match(body):
        return body
    else:
        in_parts = body.count('"text"') > 1
        # A request with one text, on one line, has no pieces of a text, and needs no parsing.
        if known is None and not in_parts and not _NEXT_LINE.search(body):
            return body
        documents = list(_documents_of_json(body))
        # Gemini streams one JSON array: each item is what an event is elsewhere.
        if in_parts and len(documents) == 1 and isinstance(documents[0].value, list):
            items = [{"": item} for item in documents[0].value]
            return _with_changes(body, documents, {0} if _clean_texts(items, clean, known) else set())
    holders = [{"": document.value} for document in documents]
    changed = _clean_texts(holders, clean, known)
    # Log probabilities hold the same text once more, token by token, and as bytes.
    if known is not None and (changed or holds_secret):
        changed |= {at for at, holder in enumerate(holders) if _drop_logprobs(holder)}
    written = [it._replace(value=holder[""]) for it, holder in zip(documents, holders, strict=True)]
    return _with_changes(body, written, changed)


def _documents_of_events(body: str) -> list[_JsonDocument]:
    """Read the data of server-sent events: JSON, which may have several lines, or plain text."""
    events: list[list[re.Match[str]]] = []
    for line in _DATA.finditer(body):
        # An event ends at an empty line; until then its lines of data are one text.
        if not events or _EVENT_END.search(body, events[-1][-1].end(), line.start()):
            events.append([])
        events[-1].append(line)
    documents = []
    for lines in events:
        joined = _document("\n".join(line[1] for line in lines)) if len(lines) > 1 else None
        if joined is not None:
            documents.append(_JsonDocument(lines[0].start(1), lines[-1].end(), joined))
            continue
        for line in lines:
            value = _document(line[1])
            held = line[1] if value is None else value
            documents.append(_JsonDocument(line.start(1), line.end(), held, value is None))
    return documents


def _documents_of_json(body: str) -> Iterator[_JsonDocument]:
    """Read the JSON values of a body, whatever stands between them."""
    at = unreadable = 0
    while (found := _VALUE.search(body, at)) and unreadable < _MOST_UNREADABLE:
        try:
            value, at = _lenient_decoder.raw_decode(body, found.start())
        except (ValueError, RecursionError):
            unreadable, at = unreadable + 1, found.end()
        else:
            yield _JsonDocument(found.start(), at, value)


def _document(text: str) -> Any:
    """Read a JSON text; None where it is none."""
    try:
        return read_json(text) if text.lstrip().startswith(("{", "[", '"')) else None
    except UnreadableTraffic:
        return None


def _with_changes(body: str, documents: Sequence[_JsonDocument], changed: set[int]) -> str:
    """Write the changed documents in the places where they stood."""
    parts, done = [], 0
    for at in sorted(changed):
        begin, end, value, plain = documents[at]
        parts += [body[done:begin], value if plain else _json(value)]
        done = end
    return "".join([*parts, body[done:]]) if changed else body


def _json(value: Any) -> str:
    # Hangul stays readable; only lone surrogates, which UTF-8 cannot hold, need escapes.
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or not re.search("[\ud800-\udfff]", text) else json.dumps(value)


def _clean_frames(raw: bytes, clean: Clean, known: Clean | None) -> bytes:
    """Clean AWS's frames, whose lengths and checksums are written anew; each is a document."""
    frames = list(aws_frames(raw))
    payloads = [_document(payload.decode("utf-8", "replace")) for _, payload in frames]
    # Bedrock's ``invoke`` wraps the events of another provider as base64 under ``bytes``.
    wrapped = [isinstance(it, dict) and isinstance(it.get("bytes"), str) for it in payloads]
    inner = [
        _document(b64decode(as_text(it["bytes"])).decode("utf-8", "replace")) if is_wrapped else it
        for it, is_wrapped in zip(payloads, wrapped, strict=True)
    ]
    changed = _clean_texts([{"": it} for it in inner], clean, known, alone=True)
    written = raw
    if changed:
        # A frame that was cut off at the end of the body is in no list: its bytes stay as they are.
        whole = sum(len(aws_frame(*frame)) for frame in frames)
        texts = [
            _json({**payload, "bytes": b64encode(_json(it).encode()).decode()} if is_wrapped else it)
            for payload, it, is_wrapped in zip(payloads, inner, wrapped, strict=True)
        ]
        new = [
            aws_frame(headers, texts[at].encode() if at in changed else payload)
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
    texts: dict[Any, list[_TextPiece]] = defaultdict(list)
    paths: dict[tuple[str, ...], list[_TextPiece]] = defaultdict(list)
    every: list[_TextPiece] = []
    for at, holder in enumerate(holders):
        kind = holder[""].get("type") if isinstance(holder[""], dict) else None
        for path, names, is_text, inner, key in _leaves(holder, (), (), may_be_text=True):
            piece = _TextPiece(at, inner, key)
            paths[names].append(piece)
            if is_text:
                texts[kind, path].append(piece)
                every.append(piece)
    changed: set[int] = set()
    for pieces in texts.values():
        if len(pieces) > 1 or alone:
            changed |= _clean_pieces(pieces, clean)
    if known is not None:
        for names, pieces in paths.items():
            # In log probabilities, tokens are known to be pieces of one text: more may be taken out of them.
            in_logprobs = not set(_LOGPROBS).isdisjoint(names)
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
) -> Iterator[tuple[tuple[Any, ...], tuple[str, ...], bool, Any, Any]]:
    """Give where the texts of a document stand: ``holder[key]`` at the end of each tuple.

    The path before it is the same for the pieces of one text; the names are the keys on it alone.
    """
    if isinstance(value, dict):
        path = (*path, *((name, str(value[name])) for name in _PLACES if name in value))
        inner = [(name, name, (*names, name), may_be_text and _may_be_text(name)) for name in value]
    elif isinstance(value, list):
        # Parts of one message have no number of their own, and are one text for a model.
        inner = []
        for at, item in enumerate(value):
            is_part = isinstance(item, dict) and isinstance(item.get("text"), str)
            inner.append((at, "text" if is_part else at, names, may_be_text))
    else:
        return
    for key, step, below, is_text in inner:
        if isinstance(value[key], str):
            yield (*path, step), below, is_text, value, key
        else:
            yield from _leaves(value[key], (*path, step), below, may_be_text=is_text)


@lru_cache(1000)
def _may_be_text(name: str) -> bool:
    return _NO_TEXT.fullmatch(name) is None


def _clean_pieces(pieces: Sequence[_TextPiece], clean: Clean) -> set[int]:
    """Rewrite the pieces where cleaning changes their joined text.

    All that is new, from the first character that differs to the last, goes into one piece.
    """
    joined = "".join(piece.text for piece in pieces)
    whole = mend_surrogates(joined)
    cleaned = clean(whole)
    if cleaned == whole:
        return set()
    begin = _common(joined, cleaned)
    tail = _common(joined[begin:][::-1], cleaned[begin:][::-1])
    end, new = len(joined) - tail, cleaned[begin : len(cleaned) - tail]
    changed, at = set(), 0
    for piece in pieces:
        text, start = piece.text, at
        at += len(text)
        if begin < at and end > start:
            piece.holder[piece.key] = text[: max(0, begin - start)] + new + text[end - start :]
            changed.add(piece.document)
            new = ""
    return changed


def _common(left: str, right: str) -> int:
    """Count the characters with which both begin."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (mine, other) in pairs if mine != other), min(len(left), len(right)))


HEADERS = frozenset({"extra_headers", "headers", "default_headers"})
"""Settings of a model that hold headers."""

_NAMES = (
    r"(?:[\w-]*(?:(?:api|app|service|ttb|confm|crtfc|auth|secret|access|private|approval)[-_]?key"
    r"|(?:access|refresh|auth|bearer|session|security|api)[-_]?token|secret|passw(?:or)?d|passphrase)"
    r"|(?:[\w-]+[-_])?id[-_]?token|authorization|jwt)"
)
# Ordinary words in JSON, where redacting them would make one of different calls; in an address, credentials.
_IN_ADDRESS = rf"(?:{_NAMES}|key|token|sig|pwd|(?:[\w-]+-)?signature)"
# Bare, it is as often the name of a coin as a credential: there the value has to be long.
_IN_JSON = rf"(?:{_NAMES}|token(?=\\*\"\s*:\s*\\*\"[^\s\"\\]{{8,}}))"

_QUERY = re.compile(rf"((?:[?&;#]|^){_IN_ADDRESS}=)[^&;#\s<>\"]+", re.I)
# An address in a parameter of another one, as logins send it.
_INNER = re.compile(rf"((?:%3F|%26|%23){_IN_ADDRESS}%3D)(?:(?!%26|%23)[^&;#\s<>\"])+", re.I)
_LINK = re.compile(rf"((?:[?&#]|&amp;|\\u0026){_NAMES}=)[^&;#\s\"'\\<>]+", re.I)
_PART = re.compile(
    rf"(content-disposition:[^\n]*\bname=\"?{_NAMES}\"?[^\n]*\n(?:[^\r\n]+\r?\n){{0,5}}\r?\n)"
    r".*?(?=\r?\n--)",
    re.I | re.S,
)
_TAG = re.compile(rf"<(?:[\w.-]+:)?{_NAMES}", re.I)
_ELEMENT = re.compile(rf"({_TAG.pattern}(?:\s[^<>]*)?>)[^<>]+(?=</)", re.I)
_USER = re.compile(r"(?<=://)[^/?#@&\s]+(?=@)")
_FORM = re.compile(r"[^\s{}\[\]\"<>=&]+=[^\s{}\[\]\"]*")
_JSON_KEY = re.compile(rf"(\\*\"){_IN_JSON}\1\s*:\s*", re.I)
# How every name ends: to look before each quote takes a twentieth of the time of looking for the names.
_ENDS = ("key", "token", "secret", "passwd", "password", "passphrase", "authorization", "jwt")
_LONGEST_END = max(map(len, _ENDS))
_NUMBER = re.compile(r"-?\d[\w.+-]*")
_TORN = re.compile(r"\"?[^\",}\]\n]*\"?")
_value_decoder = json.JSONDecoder()


class Redactor:
    """Replaces secrets: those that stand under a telling name, and known ones wherever they stand."""

    def __init__(self, values: Iterable[str] = (), secrets: Secrets | None = None) -> None:
        self._secrets = Secrets(values) if secrets is None else secrets
        self._latest: tuple[Request, Request, object] | None = None
        self._clean_parts: set[int] = set()

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Redactor:
        """Know the values of all variables whose names tell of a secret, such as ``*_API_KEY``.

        Without ``environ`` it knows what its process does, also what that learns later.
        """
        secrets = KNOWN_SECRETS if environ is None else Secrets()
        secrets.know_environment(environ)
        return cls(secrets=secrets)

    def interaction(self, given: Interaction) -> Interaction:
        return Interaction(self.request(given.request), self.response(given.response))

    def request(self, given: Request) -> Request:
        """Give the request without secrets; the same request always redacts to the same text."""
        # Remembered, as each request is redacted twice: to search for it, and to record it.
        latest, generation = self._latest, self._secrets.generation
        if latest is None or latest[0] is not given or latest[2] is not generation:
            sent = self._without_header_values(given.body) if given.uri.startswith(CHAT) else given.body
            body, uri, headers = self._body(sent), self.uri(given.uri), self._headers(given.headers)
            redacted = given
            if (body, uri, headers) != (given.body, given.uri, given.headers):
                redacted = replace(given, uri=uri, body=body, headers=headers)
            latest = self._latest = (given, redacted, generation)
        return latest[1]

    def response(self, given: Response) -> Response:
        extra = {name: self.uri(it) if isinstance(it, str) else it for name, it in given.extra.items()}
        headers, body = self._headers(given.headers), self._body(given.body, self._secrets.known_only)
        redacted, sent = replace(given, headers=headers, body=body, extra=extra), http_request_of(given)
        return redacted if sent is None else with_http_request(redacted, self.request(sent))

    def uri(self, uri: str) -> str:
        """Give the address without the secrets of its query, and without user and password."""
        if not uri.startswith((TOOL, CHAT)):
            uri = _INNER.sub(rf"\1{MARK}", _QUERY.sub(rf"\1{MARK}", _USER.sub(MARK, uri)))
        return self.text(uri)

    def text(self, text: str) -> str:
        """Give the text without any value that is known to be secret."""
        return self._secrets.text(text)

    def _body(self, body: Body, known: Callable[[str], str] | None = None) -> Body:
        with suppress(UnreadableTraffic):
            if isinstance(body, bytes) and is_aws_event_stream(body):
                return without_split_secrets(body, self._joined_text, known)
        # Latin-1 gives each byte a character and back: what is no text stays to the last byte.
        if isinstance(body, bytes):
            return self._text_body(body.decode("latin-1")).encode("latin-1")
        if not body:
            return body
        # Found out before values under telling names go: ``token`` is such a name, and in log probabilities
        # it stands before each piece of the text.
        holds_secret = '"logprobs' in body and self._secrets.text(body) != body
        cleaned = self._text_body(body)
        return without_split_secrets(cleaned, self._joined_text, known, holds_secret=holds_secret)

    def _joined_text(self, text: str) -> str:
        return self._secrets.text(_without_telling(text))

    def _without_header_values(self, body: Body) -> Body:
        """Give a chat's request without the values of its headers: any of them may hold a key."""
        text = body.decode() if isinstance(body, bytes) else body
        if not text or "headers" not in text:
            return body
        request = json.loads(text)
        settings = request.get("settings", {})
        for name in HEADERS & settings.keys():
            settings[name] = dict.fromkeys(settings[name], MARK) if isinstance(settings[name], dict) else MARK
        return compact_json(request)

    def _text_body(self, body: str) -> str:
        if _FORM.fullmatch(body):
            return self.uri(body)
        if self._holds_nothing_telling(body):
            return self._secrets.text(body, shapeless=True)
        return self._secrets.text(_without_telling(body))

    def _holds_nothing_telling(self, body: str) -> bool:
        """Whether nothing in a body has a telling name or the shape of a key: never wrongly True."""
        # Names and keys stand between two quotation marks. Each request of a conversation repeats the earlier
        # ones, and each event of a stream has the same names: parts that were clean are not searched again.
        parts = set(body.split('"'))
        fresh = [part for part in parts if hash(part) not in self._clean_parts]
        joined = '"'.join(fresh)
        text = f'{joined}"'
        folded = text.casefold()
        # These tests may be wrongly true, and are much quicker than the patterns themselves.
        may_match = _name_ends_before('"', folded) or any(begins(folded) for begins in _PATTERNS.values())
        if may_match or has_shape(joined):
            return False
        if len(self._clean_parts) < MOST_CLEAN_TEXTS:
            self._clean_parts.update(map(hash, fresh))
        return True

    def _headers(self, headers: Headers) -> Headers:
        return {
            name: (MARK,) if is_secret_header(name) else tuple(map(self.uri, values))
            for name, values in headers.items()
        }


def _without_telling(text: str) -> str:
    folded = text.casefold()
    text = _json_values(text) if _name_ends_before('"', folded) else text
    for pattern, begins in _PATTERNS.items():
        text = pattern.sub(rf"\1{MARK}", text) if begins(folded) else text
    return text


def _name_ends_before(sign: str, folded: str) -> bool:
    """Whether a sign, which may be escaped, stands behind what may end a telling name."""
    parts = folded.split(sign)
    return any(part.rstrip("\\").endswith(_ENDS) for part in parts[:-1])


_PATTERNS: Mapping[re.Pattern[str], Callable[[str], bool]] = {
    _LINK: partial(_name_ends_before, "="),
    _PART: lambda folded: "content-disposition" in folded,
    _ELEMENT: lambda folded: "<" in folded and _TAG.search(folded) is not None,
}
"""Patterns, each with a quick test whether it may match a text in small letters; the first group stays."""


def _json_values(text: str) -> str:
    """Replace texts, numbers and lists that stand under a telling key, also in JSON inside a JSON text.

    Maps are not replaced but looked into: under ``"password"`` a tool's schema says ``{"type": "string"}``.
    """
    parts, done = [], 0
    for key in _telling_keys(text):
        end = _value_end(text, key.end(), key[1])
        if key.start() >= done and end is not None:
            parts += [text[done : key.end()], key[1], MARK, key[1]]
            done = end
    return "".join([*parts, text[done:]]) if parts else text


def _telling_keys(text: str) -> Iterator[re.Match[str]]:
    """Find the telling keys: each stands between two quotes, which have as many backslashes before them."""
    begins = 0
    for part in text.split('"'):
        opening = begins - 1
        begins += len(part) + 1
        if opening >= 0 and part.rstrip("\\")[-_LONGEST_END:].casefold().endswith(_ENDS):
            while opening and text[opening - 1] == "\\":
                opening -= 1
            if key := _JSON_KEY.match(text, opening):
                yield key


def _value_end(text: str, start: int, mark: str) -> int | None:
    """Say where a value ends; None where none is to be replaced."""
    # Maps are looked into; true, false and null are no secrets.
    if text[start : start + 1] in ("{", "t", "f", "n", ""):
        return None
    number = _NUMBER.match(text, start)
    if number:
        return number.end()
    if mark != '"':
        inner = re.compile(rf"{re.escape(mark)}.*?(?<!\\){re.escape(mark)}", re.S).match(text, start)
        return inner.end() if inner else None
    try:
        return int(_value_decoder.raw_decode(text, start)[1])
    except (ValueError, RecursionError):
        torn = _TORN.match(text, start)
        return torn.end() if torn else None

"""Keeps secrets out of cassettes: they are replaced before anything is held, compared or written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_agenteval.cassettes.interaction import (
    CHAT,
    TOOL,
    Body,
    Headers,
    Interaction,
    Request,
    Response,
)
from pytest_agenteval.cassettes.wire.aws_events import is_event_stream
from pytest_agenteval.cassettes.wire.split_secrets import without_split_secrets
from pytest_agenteval.cassettes.wire.traffic import UnreadableTraffic
from pytest_agenteval.text.canonical import compact
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS, MOST_CLEAN_TEXTS, Secrets
from pytest_agenteval.text.redaction.shapes import has_shape, is_secret_header
from pytest_agenteval.text.redaction.spellings import MARK

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
_JSON = re.compile(rf"(\\*\"){_IN_JSON}\1\s*:\s*", re.I)
# How every name ends: to look before each quote takes a twentieth of the time of looking for the names.
_ENDS = ("key", "token", "secret", "passwd", "password", "passphrase", "authorization", "jwt")
_LONGEST_END = max(map(len, _ENDS))
_NUMBER = re.compile(r"-?\d[\w.+-]*")
_TORN = re.compile(r"\"?[^\",}\]\n]*\"?")
_decoder = json.JSONDecoder()


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
        """Give the interaction without secrets."""
        return Interaction(self.request(given.request), self.response(given.response))

    def request(self, given: Request) -> Request:
        """Give the request without secrets; the same request always redacts to the same text."""
        # Each is asked for twice: where it is looked for, and where it is recorded.
        latest, generation = self._latest, self._secrets.generation
        if latest is None or latest[0] is not given or latest[2] is not generation:
            latest = self._latest = (given, self._redacted(given), generation)
        return latest[1]

    def _redacted(self, given: Request) -> Request:
        sent = self._without_header_values(given.body) if given.uri.startswith(CHAT) else given.body
        body, uri, headers = self._body(sent), self.uri(given.uri), self._headers(given.headers)
        if (body, uri, headers) == (given.body, given.uri, given.headers):
            return given
        return replace(given, uri=uri, body=body, headers=headers)

    def response(self, given: Response) -> Response:
        """Give the response without secrets."""
        extra = {name: self._extra(value) for name, value in given.extra.items()}
        return replace(
            given,
            headers=self._headers(given.headers),
            body=self._body(given.body, self._secrets.known_only),
            extra=extra,
        )

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
            if isinstance(body, bytes) and is_event_stream(body):
                return without_split_secrets(body, self._joined_text, known)
        if isinstance(body, bytes):
            return self._text_body(body.decode("latin-1")).encode("latin-1")
        if not body:
            return body
        # Before names are looked at: `token` is one, and there they are pieces of the text.
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
        return compact(request)

    def _text_body(self, body: str) -> str:
        if _FORM.fullmatch(body):
            return self.uri(body)
        if self._holds_nothing_telling(body):
            return self._secrets.text(body, shapeless=True)
        return self._secrets.text(_without_telling(body))

    def _holds_nothing_telling(self, body: str) -> bool:
        """Whether nothing in a body has a telling name or the shape of a key: never wrongly True.

        What says so stands between two quotation marks, and there it is looked for: each request of a
        conversation repeats all that was said, and each event of a stream names the same things.
        """
        parts = set(body.split('"'))
        fresh = [part for part in parts if hash(part) not in self._clean_parts]
        joined = '"'.join(fresh)
        if _is_telling(f'{joined}"') or has_shape(joined):
            return False
        if len(self._clean_parts) < MOST_CLEAN_TEXTS:
            self._clean_parts.update(map(hash, fresh))
        return True

    def _headers(self, headers: Headers) -> Headers:
        return {
            name: (MARK,) if is_secret_header(name) else tuple(map(self.uri, values))
            for name, values in headers.items()
        }

    def _extra(self, value: Any) -> Any:
        return self.uri(value) if isinstance(value, str) else value


def _is_telling(text: str) -> bool:
    """Whether a text may hold a telling name as the patterns look for it, and much quicker than they do."""
    folded = text.casefold()
    return _name_ends_before('"', folded) or any(begins(folded) for begins in _PATTERNS.values())


def _without_telling(text: str) -> str:
    """Replace what stands under a telling name."""
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
"""Patterns that keep their first group, each with what says of a folded text whether it may match."""


def _json_values(text: str) -> str:
    """Replace texts, numbers and lists that stand under a telling key, also in JSON kept inside a JSON text.

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
            if key := _JSON.match(text, opening):
                yield key


def _value_end(text: str, start: int, mark: str) -> int | None:
    """Say where a value ends; None where none is to be replaced."""
    if text[start : start + 1] in ("{", "t", "f", "n", ""):
        return None
    number = _NUMBER.match(text, start)
    if number:
        return number.end()
    if mark != '"':
        inner = re.compile(rf"{re.escape(mark)}.*?(?<!\\){re.escape(mark)}", re.S).match(text, start)
        return inner.end() if inner else None
    try:
        return int(_decoder.raw_decode(text, start)[1])
    except (ValueError, RecursionError):
        torn = _TORN.match(text, start)
        return torn.end() if torn else None

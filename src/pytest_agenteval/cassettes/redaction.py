"""Keeps secrets out of cassettes: they are replaced before anything is held, compared or written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from pytest_agenteval.cassettes.interaction import (
    CHAT,
    TOOL,
    Body,
    Headers,
    Interaction,
    Request,
    Response,
)

MARK = "<redacted>"
SHORTEST = 8

_NAMES = (
    r"(?:[\w-]*(?:(?:api|app|service|ttb|confm|crtfc|auth|secret|access|private|approval)[-_]?key"
    r"|(?:access|refresh|auth|bearer|session|security|api)[-_]?token|secret|passw(?:or)?d)"
    r"|(?:[\w-]+[-_])?id[-_]?token|authorization|jwt)"
)
# Ordinary words in JSON, where redacting them would make one of different calls; in an address, credentials.
_IN_ADDRESS = rf"(?:{_NAMES}|key|token|sig|(?:[\w-]+-)?signature)"
# Bare, it is as often the name of a coin as a credential: there the value has to be long.
_IN_JSON = rf"(?:{_NAMES}|token(?=\\*\"\s*:\s*\\*\"[^\s\"\\]{{8,}}))"

_HEADER = re.compile(
    r"authorization|^x-auth|cookie|passw|secret|session|signature|jwt|token(?!s)"
    r"|(?:api|app|access|service)-?key|(?:^|[-_])key(?:$|[-_])",
    re.I,
)
_QUERY = re.compile(rf"((?:[?&;#]|^){_IN_ADDRESS}=)[^&;#\s<>\"]+", re.I)
# An address in a parameter of another one, as logins send it.
_INNER = re.compile(rf"((?:%3F|%26|%23){_IN_ADDRESS}%3D)(?:(?!%26|%23)[^&;#\s<>\"])+", re.I)
_LINK = re.compile(rf"((?:[?&#]|&amp;|\\u0026){_NAMES}=)[^&;#\s\"'\\<>]+", re.I)
_PART = re.compile(
    rf"(content-disposition:[^\n]*\bname=\"?{_NAMES}\"?[^\n]*\n(?:[^\r\n]+\r?\n){{0,5}}\r?\n)"
    r".*?(?=\r?\n--)",
    re.I | re.S,
)
_USER = re.compile(r"(?<=://)[^/?#@&\s]+(?=@)")
_FORM = re.compile(r"[^\s{}\[\]\"<>=&]+=[^\s{}\[\]\"]*")
_JSON = re.compile(rf"(?<!\\)(\\*\"){_IN_JSON}\1\s*:\s*", re.I)
_NUMBER = re.compile(r"-?\d[\w.+-]*")
_TORN = re.compile(r"\"?[^\",}\]\n]*\"?")
_SECRET_VARIABLE = re.compile(
    r"PASSWORD|PASSWD|(?:^|_)(?:TOKEN|(?:APP|CLIENT)?SECRET)$"
    r"|(?:^|_)(?:API|APP|ACCESS|SECRET|SERVICE|PRIVATE)_?KEY$",
    re.I,
)
_decoder = json.JSONDecoder()


class Redactor:
    """Replaces secrets: those that stand under a telling name, and known values wherever they stand."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        spelled = {form for value in values if _worth(value) for form in _spellings(value)}
        longest_first = sorted(spelled, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if spelled else None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Redactor:
        """Know the values of all variables whose names tell of a secret, such as ``*_API_KEY``."""
        variables = os.environ if environ is None else environ
        return cls(value for name, value in variables.items() if _SECRET_VARIABLE.search(name))

    def interaction(self, given: Interaction) -> Interaction:
        """Give the interaction without secrets."""
        return Interaction(self.request(given.request), self.response(given.response))

    def request(self, given: Request) -> Request:
        """Give the request without secrets; the same request always redacts to the same text."""
        body, uri, headers = self._body(given.body), self.uri(given.uri), self._headers(given.headers)
        if (body, uri, headers) == (given.body, given.uri, given.headers):
            return given
        return replace(given, uri=uri, body=body, headers=headers)

    def response(self, given: Response) -> Response:
        """Give the response without secrets."""
        extra = {name: self._extra(value) for name, value in given.extra.items()}
        return replace(given, headers=self._headers(given.headers), body=self._body(given.body), extra=extra)

    def uri(self, uri: str) -> str:
        """Give the address without the secrets of its query, and without user and password."""
        if not uri.startswith((TOOL, CHAT)):
            uri = _INNER.sub(rf"\1{MARK}", _QUERY.sub(rf"\1{MARK}", _USER.sub(MARK, uri)))
        return self.text(uri)

    def text(self, text: str) -> str:
        """Give the text without any value that is known to be secret."""
        return self._values.sub(MARK, text) if self._values else text

    def _body(self, body: Body) -> Body:
        if isinstance(body, bytes):
            return self._text_body(body.decode("latin-1")).encode("latin-1")
        return self._text_body(body) if body else body

    def _text_body(self, body: str) -> str:
        if _FORM.fullmatch(body):
            return self.uri(body)
        return self.text(_PART.sub(rf"\1{MARK}", _LINK.sub(rf"\1{MARK}", _json_values(body))))

    def _headers(self, headers: Headers) -> Headers:
        return {
            name: (MARK,) if _HEADER.search(name) else tuple(map(self.uri, values))
            for name, values in headers.items()
        }

    def _extra(self, value: Any) -> Any:
        return self.uri(value) if isinstance(value, str) else value


def _worth(value: str) -> bool:
    return len(value.strip()) >= SHORTEST and value not in MARK


def _spellings(value: str) -> set[str]:
    """Give the forms in which a value can stand in a body or an address."""
    once = {value, value.strip(), unquote(value.strip())}
    once |= {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in once for ascii in (True, False)}
    twice = {json.dumps(form, ensure_ascii=False)[1:-1] for form in once}
    in_address = {
        quote(value, errors="replace"),
        quote(value, "", errors="replace"),
        quote_plus(value, errors="replace"),
    }
    return once | twice | in_address


def _json_values(text: str) -> str:
    """Replace texts, numbers and lists that stand under a telling key, also in JSON kept inside a JSON text.

    Maps are not replaced but looked into: under ``"password"`` a tool's schema says ``{"type": "string"}``.
    """
    parts, done = [], 0
    for key in _JSON.finditer(text):
        end = _value_end(text, key.end(), key[1])
        if key.start() >= done and end is not None:
            parts += [text[done : key.end()], key[1], MARK, key[1]]
            done = end
    return "".join([*parts, text[done:]]) if parts else text


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

"""How texts, bodies and addresses may spell a secret, by the libraries that write them so."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from unicodedata import normalize
from urllib.parse import quote, quote_plus


def _json(value: str, times: int) -> str:
    for _ in range(times):
        value = json.dumps({"a": value})
    return value


def _base64(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


SPELLED: dict[str, Callable[[str], str]] = {
    "JSON with escaped slashes": lambda value: json.dumps(value).replace("/", "\\/"),
    "JSON in JSON in JSON": lambda value: _json(value, 3),
    "JSON with escaped slashes in JSON": lambda value: json.dumps(json.dumps(value).replace("/", "\\/")),
    "an address in an address": lambda value: quote(quote(value, ""), ""),
    "a form in an address": lambda value: quote(quote_plus(value), ""),
    "an address in Latin-1": lambda value: quote(value, "", encoding="latin-1", errors="replace"),
    "hex": lambda value: value.encode().hex(),
    "upper hex": lambda value: value.encode().hex().upper(),
    "hex in a longer one": lambda value: f"xy{value}z".encode().hex(),
    "base64 for addresses, unpadded": lambda value: (
        base64.urlsafe_b64encode(b"a" + value.encode()).decode().strip("=")
    ),
    "base64 of base64": lambda value: _base64(_base64(value)),
    "base64 of base64 within others": lambda value: _base64("x" + _base64("me:" + value + "!") + "yz"),
    "entities of what is not ASCII": lambda value: value.encode("ascii", "xmlcharrefreplace").decode(),
    "decomposed": lambda value: normalize("NFD", value),
    "decomposed in an address": lambda value: quote(normalize("NFD", value), ""),
    "bytes of Latin-1": lambda value: repr(value.encode("latin-1", "replace")),
    "ascii()": ascii,
    "bytes read as Latin-1": lambda value: value.encode().decode("latin-1"),
}

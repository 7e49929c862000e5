"""Values that are secrets: which are worth hiding, how texts spell them, and texts without them."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus, unquote

MARK = "<redacted>"
"""What stands in the place of a secret."""

SHORTEST = 8
"""Shorter values are no secrets worth the name, and stand in too many texts."""

SHORTEST_WORD = 16
"""A value of letters only has to be as long: a word such as ``password`` stands in too many texts."""

SHORTEST_NUMBER = 12
"""Figures of fewer digits are dates and amounts."""

CUT = ("…", "...")
"""What stands where a text was cut, be it in the middle of a secret."""


def worth_hiding(value: str) -> bool:
    """Whether a value is long and odd enough that its place in a text is no accident."""
    value = value.strip()
    if len(value) < SHORTEST or value in MARK:
        return False
    if value.isdigit():
        return len(value) >= SHORTEST_NUMBER
    return len(value) >= SHORTEST_WORD or not (value.isalpha() and value.isascii())


def spellings(value: str) -> set[str]:
    """Give the forms in which a value can stand in a text, a body or an address."""
    once = {value, value.strip(), unquote(value.strip())}
    once |= {line.strip() for line in value.splitlines() if len(line.strip()) >= SHORTEST_WORD}
    once |= {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in once for ascii in (True, False)}
    twice = {json.dumps(form, ensure_ascii=False)[1:-1] for form in once}
    in_address = {
        quote(value, errors="replace"),
        quote(value, "", errors="replace"),
        quote_plus(value, errors="replace"),
    }
    in_address |= {_ESCAPE.sub(lambda match: match[0].lower(), form) for form in in_address}
    in_page = {html.escape(value, quote=quoted) for quoted in (True, False)}
    in_page |= {form.replace("&#x27;", "&#39;").replace("&quot;", "&#34;") for form in in_page}
    in_python = {repr(value)[1:-1], repr(value.encode("utf-8", "replace"))[2:-1]}
    spelled = once | twice | in_address | in_page | in_python | set(_in_base64(value))
    return {form for form in spelled if len(form) >= SHORTEST}


_ESCAPE = re.compile("%[0-9A-F]{2}")


def _in_base64(value: str) -> Iterator[str]:
    """Give what base64 makes of a value wherever it stands, as after a name in a basic authorization."""
    raw = value.encode("utf-8", "replace")
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw)[(0, 2, 3)[before] :].decode()
        torn = (before + len(raw)) % 3  # then the last letter holds bits of what follows
        for form in (encoded, encoded.rstrip("=")[:-1]) if torn else (encoded,):
            yield form
            yield form.translate(_IN_ADDRESS)


_IN_ADDRESS = str.maketrans("+/", "-_")


def without_spelling(text: str, form: str) -> str:
    """Take one spelling out of a text, also where the text was cut within it."""
    parts, done, at = [], 0, text.find(form[:SHORTEST])
    while at >= 0:
        end = at + SHORTEST
        while end - at < len(form) and text[end : end + 1] == form[end - at]:
            end += 1
        if end - at == len(form) or end == len(text) or text.startswith(CUT, end):
            parts += [text[done:at], MARK]
            done = end
        at = text.find(form[:SHORTEST], max(end if done == end else at + 1, at + 1))
    return "".join([*parts, text[done:]])


def without_spelling_end(text: str, form: str) -> str:
    """Take the end of one spelling out of a text that was cut before it."""
    end, at = form[-SHORTEST:], 0
    while (at := text.find(end, at)) >= 0:
        begin = max(
            (text.rfind(cut, 0, at + SHORTEST) + len(cut) for cut in CUT if cut in text[:at]), default=-1
        )
        tail = text[begin : at + SHORTEST]
        if 0 <= begin <= at and len(tail) < len(form) and form.endswith(tail):
            text = text[:begin] + MARK + text[at + SHORTEST :]
            at = begin
        at += 1
    return text

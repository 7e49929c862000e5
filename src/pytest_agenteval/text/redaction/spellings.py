"""Values that are secrets: which are worth hiding, how texts spell them, and texts without them."""

from __future__ import annotations

import base64
import html
import json
import quopri
import re
from collections.abc import Iterator
from typing import Literal
from unicodedata import normalize
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
    plain = {value.strip(), unquote(value.strip()), *_lines(value)}
    plain |= {normalize(form, text) for text in plain for form in _UNICODE_FORMS}
    spelled = {value} | _in_json(plain)
    for text in plain:
        raw = {text.encode("utf-8", "replace")} | _in_latin_1(text)
        spelled |= _in_address(text) | _in_page(text)
        spelled |= {repr(text)[1:-1], ascii(text)[1:-1], *(repr(data)[2:-1] for data in raw)}
        for data in raw:
            spelled |= {quopri.encodestring(data).replace(b"=\n", b"").decode(), data.decode("latin-1")}
            spelled |= _character_by_character(data.decode("latin-1"))
            spelled |= {data.hex(), data.hex().upper(), *_in_base32(data)}
            once = set(_in_base64(data))
            spelled |= once.union(*(_in_base64(form.encode()) for form in once))
        spelled |= _character_by_character(text)
    return {form for form in spelled if len(form) >= SHORTEST}


_UNICODE_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
_JSON_IN_JSON = 3
"""So many times a value is looked for that is a text in JSON that is a text in JSON."""
_ESCAPE = re.compile("%[0-9A-F]{2}")
_CODE_POINT = re.compile(r"\\u[0-9a-f]{4}")


def _lines(value: str) -> set[str]:
    return {line.strip() for line in value.splitlines() if len(line.strip()) >= SHORTEST_WORD}


def _in_latin_1(text: str) -> set[bytes]:
    try:
        return {text.encode("latin-1")}
    except UnicodeEncodeError:
        return set()


def _in_json(texts: set[str]) -> set[str]:
    every, level = set(texts), texts
    for _ in range(_JSON_IN_JSON):
        level = {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in level for ascii in (True, False)}
        level |= {text.replace("/", "\\/") for text in level}  # as PHP writes it
        every |= level
    return every | {_CODE_POINT.sub(lambda code: rf"\u{code[0][2:].upper()}", text) for text in every}


def _in_address(text: str) -> set[str]:
    once = {
        quote(text, errors="replace"),
        quote(text, "", errors="replace"),
        quote_plus(text, errors="replace"),
        quote(text, "", encoding="latin-1", errors="replace"),
    }
    once |= {_ESCAPE.sub(lambda match: match[0].lower(), form) for form in once}
    return once | {quote(form, "") for form in once}


def _in_page(text: str) -> set[str]:
    forms = {html.escape(text, quote=quoted) for quoted in (True, False)}
    forms |= {form.replace("&#x27;", "&#39;").replace("&quot;", "&#34;") for form in forms}
    forms |= {form.replace("&#x27;", "&apos;") for form in forms}
    return forms | {form.encode("ascii", "xmlcharrefreplace").decode() for form in forms}


def _character_by_character(text: str) -> set[str]:
    """Give a text all of whose characters are escaped, as numbers in a page, in JSON and in an address."""
    patterns = ("&#{};", "&#x{:x};", "&#x{:X};", "\\u{:04x}", "\\u{:04X}", "\\x{:02x}", "%{:02x}", "%{:02X}")
    return {"".join(map(pattern.format, map(ord, text))) for pattern in patterns}


def _in_base32(raw: bytes) -> Iterator[str]:
    """Give what base32 makes of bytes wherever they stand, without letters that hold bits of neighbours."""
    for before in range(5):
        encoded = base64.b32encode(bytes(before) + raw).decode().rstrip("=")
        torn = (before + len(raw)) % 5 != 0
        yield encoded[-(-before * 8 // 5) : -1 if torn else None]


def _in_base64(raw: bytes) -> Iterator[str]:
    """Give what base64 makes of bytes wherever they stand, as after a name in a basic authorization."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw)[(0, 2, 3)[before] :].decode()
        torn = (before + len(raw)) % 3  # then the last letter holds bits of what follows
        for form in (encoded, encoded.rstrip("=")[:-1]) if torn else (encoded,):
            yield form
            yield form.translate(_IN_ADDRESS)


_IN_ADDRESS = str.maketrans("+/", "-_")


_LONG = 24
"""Forms as long are looked for by what stands here and there in a text, others wherever they begin."""

_MOST_STEP = 32
_CUTS = re.compile(r"…+|\.{3,}")


class Forms:
    """The forms of secrets, and a quick look at whether one may stand in a text.

    There are hundreds of them, and each text of each trial comes by. Of a long form, wherever it stands, some
    ``SHORTEST`` characters lie where a text is looked at every ``step`` characters: a set knows these of all
    forms. So a look takes the same time for any number of secrets.
    """

    def __init__(self) -> None:
        self._longest_first: tuple[str, ...] = ()
        self._short_starts: tuple[str, ...] = ()
        self._step = _MOST_STEP
        self._marks: set[str] = set()
        self._starts: set[str] = set()
        self._parts: set[str] = set()

    def with_more(self, forms: set[str]) -> Forms:
        """Give these forms and more."""
        more = Forms()
        every = {*self._longest_first, *forms}
        more._longest_first = tuple(sorted(every, key=lambda form: (-len(form), form)))
        more._short_starts = tuple({form[:SHORTEST]: None for form in every if len(form) < _LONG})
        longs = [form for form in forms if len(form) >= _LONG]
        more._step = min([self._step, *(len(form) - SHORTEST + 1 for form in longs)])
        more._marks = self._marks.union(
            part for form in longs for part in _parts(form[: more._step + SHORTEST - 1])
        )
        more._starts = self._starts.union(form[:SHORTEST] for form in forms)
        more._parts = self._parts.union(part for form in forms for part in _parts(form))
        return more

    def may_stand_in(self, text: str) -> bool:
        """Whether one of the forms, or a part that was cut off, may stand in a text: never wrongly False."""
        if not self._longest_first:
            return False
        for start in self._short_starts:
            if start in text:
                return True
        return not self._marks.isdisjoint(self._looked_at(text)) or bool(self._cut_parts(text))

    def removed_from(self, text: str) -> str:
        """Give the text with a mark in place of each form, also where the text was cut within one."""
        hits = self._marks.intersection(self._looked_at(text)) | self._cut_parts(text)
        hits.update(start for start in self._short_starts if start in text)
        forms = [form for form in self._longest_first if any(hit in form for hit in hits)]
        for form in forms:
            text = without_spelling(text, form)
        if _is_cut(text):
            for form in forms:
                text = without_spelling_end(text, form)
        return text

    def _looked_at(self, text: str) -> list[str]:
        return [text[at : at + SHORTEST] for at in range(0, len(text) - SHORTEST + 1, self._step)]

    def _cut_parts(self, text: str) -> set[str]:
        """Give what stands beside each cut, and at the end of the text, and may be part of a form."""
        near, cuts = {""}, [*_CUTS.finditer(text)] if _is_cut(text) else []
        for end in (*(cut.start() for cut in cuts), len(text)):
            before = text[max(0, end - self._step - SHORTEST) : end]
            near.update(part for part in _parts(before) if part in self._starts)
        after = (text[cut.end() : cut.end() + SHORTEST] for cut in cuts)
        return near.union(part for part in after if part in self._parts) - {""}


def _is_cut(text: str) -> bool:
    return any(cut in text for cut in CUT)


def _parts(form: str) -> Iterator[str]:
    """Give what of a form is as long as the shortest secret, wherever it begins."""
    return (form[at : at + SHORTEST] for at in range(len(form) - SHORTEST + 1))


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

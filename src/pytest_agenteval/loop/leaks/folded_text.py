"""Texts as they are compared: without case, width, accents, kind of kana, spaces, punctuation.

Case folding and compatibility forms are Unicode's own (UAX 15, and chapter 3.13 of its standard).
What is left are letters, the signs that belong to them, and digits, in any script, with spaces between words.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from urllib.parse import unquote

from pytest_agenteval.records.record import FrozenValue

_ACCENTS = re.compile(
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef"
    "\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u02b0-\u02ff]"
)
"""Accents of Latin, Greek and Cyrillic, vowel signs of Hebrew and Arabic, and variants of one sign.

Vowel signs of India's scripts, of Thai and of kana are not among them: these tell words apart.
"""

_INVISIBLE_LETTERS = frozenset((0x115F, 0x1160, 0x3164, 0xFFA0))
"""Fillers of Hangul: letters by their category, and empty to the eye."""

_ESCAPED = re.compile(
    r"\\u\{([0-9A-Fa-f]{1,6})\}|\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})|\\x([0-9A-Fa-f]{2})|\\([abfnrtv])"
    r"|(&(?:\#\d+|\#[xX][0-9A-Fa-f]+|\w+);)|((?:%[0-9A-Fa-f]{2})+)"
)
_SIGNS = str.maketrans("№℠™", "   ")
"""What compatibility makes letters of, and nobody reads as such."""

_KATAKANA = range(0x30A1, 0x30F7)
_TO_HIRAGANA = -0x60
_MOST_CODE = 0x10FFFF


class _Folding(dict[int, str | None]):
    """What becomes of each character, looked up in Unicode when it is first met."""

    def __missing__(self, code: int) -> str | None:
        self[code] = folded = _folded_character(code)
        return folded


def _folded_character(code: int) -> str | None:
    char = chr(code)
    if _ACCENTS.match(char):
        return None
    if code in _KATAKANA:
        return chr(code + _TO_HIRAGANA)
    category = unicodedata.category(char)
    if category == "Nd":
        return str(unicodedata.digit(char))
    return char if category[0] in "LMN" and code not in _INVISIBLE_LETTERS else " "


_LOOK_ALIKE: dict[int, str | None] = {
    ord(letter): latin
    for letters, latins in (
        ("łđøħŧı", "ldohti"),
        ("авекмнорстухіјѕ", "abekmhopctyxijs"),
        ("αβεηικμνορτυχζ", "abehikmnoptyxz"),
    )
    for letter, latin in zip(letters, latins, strict=True)
}
"""Letters with a stroke, and those of Cyrillic and Greek that are drawn like Latin ones, small or capital.

Most are confusable by Unicode's list too (UTS 39). Both sides are folded, so nothing is lost.
"""

_FOLDING = _Folding(_LOOK_ALIKE)


def fold(text: str) -> str:
    """Give a text as words with spaces between them: ``Café_№ 12`` is ``cafe no 12``."""
    if text.isascii():
        return text.lower().translate(_FOLDING)
    plain = unicodedata.normalize("NFKD", text.translate(_SIGNS).casefold())
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", plain.casefold()).translate(_FOLDING))


def compact(text: str) -> str:
    """Give a text without anything between its letters and digits."""
    return "".join(fold(text).split())


def without_escapes(line: str) -> str:
    """Write out what a line spells by escapes of JSON, Python, HTML or addresses; it stays one line."""
    if not _ESCAPED.search(line):
        return line
    text = _ESCAPED.sub(_character, line)
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return paired.replace("\n", " ")


def _character(match: re.Match[str]) -> str:
    braced, four, eight, two, control, entity, address = match.groups()
    if control:
        return " "
    if entity:
        return html.unescape(entity)
    if address:
        return unquote(address)
    code = int(braced or four or eight or two, 16)
    return chr(code) if code <= _MOST_CODE else match[0]


class FoldedLines(FrozenValue, frozen=True):
    """The lines of a file as one compact text, and where in it words and lines begin and end.

    ``words`` holds the place of the first character of each word, ``ends`` that behind its last.
    ``lines`` holds the place at which each line begins.
    """

    compact: str
    words: frozenset[int]
    ends: frozenset[int]
    lines: tuple[int, ...]

    def line_at(self, place: int) -> int:
        """Give the number of the line, from 1, that the character at a place stands on."""
        return bisect_right(self.lines, place)


def fold_lines(lines: list[str]) -> FoldedLines:
    """Put lines together: a word that is broken over two of them is whole again."""
    pieces, place = list[str](), 0
    starts, words, ends = list[int](), list[int](), list[int]()
    for line in lines:
        starts.append(place)
        for word in fold(line).split():
            pieces.append(word)
            words.append(place)
            place += len(word)
            ends.append(place)
    return FoldedLines("".join(pieces), frozenset(words), frozenset(ends), tuple(starts))

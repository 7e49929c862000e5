"""Texts in the form in which they are compared: no case, width, accents, spaces, punctuation; and in prompts.

Case folding and compatibility forms are Unicode's own (UAX 15, and chapter 3.13 of its standard). What
remains are letters, the signs that belong to them, and digits, in any script, with spaces between words.

A copy is eight words in a row, or as many signs as say as much. A word of a script with spaces counts as one.
Elsewhere signs are counted: 10 of Han, 16 of Hangul (whose spaces people set as they like), 24 of kana, or of
Thai, Lao, Burmese, Khmer and Tibetan, say about what eight English words say. A text whose beginning stands
nowhere in the prompts is not searched for.
"""

from __future__ import annotations

import html
import io
import re
import tokenize
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, cycle
from urllib.parse import unquote

from pytest_agenteval.loop.contamination.task_texts import Spelling
from pytest_agenteval.records.record import FrozenValue

# Accents of Latin, Greek and Cyrillic, vowel signs of Hebrew and Arabic, and variants of one sign. Vowel
# signs of India's scripts, of Thai and of kana are not among them, since they distinguish words.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef"
    "\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u02b0-\u02ff]"
)

# Fillers of Hangul, which Unicode counts as letters although they are invisible.
_INVISIBLE_LETTERS = frozenset((0x115F, 0x1160, 0x3164, 0xFFA0))

_ESCAPED = re.compile(
    r"\\u\{([0-9A-Fa-f]{1,6})\}|\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})|\\x([0-9A-Fa-f]{2})|\\([abfnrtv])"
    r"|(&(?:\#\d+|\#[xX][0-9A-Fa-f]+|\w+);)|((?:%[0-9A-Fa-f]{2})+)"
)
# Signs that compatibility decomposition turns into letters, although nobody reads them as letters.
_SIGNS = str.maketrans("№℠™", "   ")

_KATAKANA = range(0x30A1, 0x30F7)
_TO_HIRAGANA = -0x60
_MOST_CODE = 0x10FFFF

# Letters with a stroke, and letters of Cyrillic and Greek that look like Latin ones, small or capital. Most
# are confusable by Unicode's list, too (UTS 39). Both sides are folded, so nothing is lost.
_LOOK_ALIKE: dict[int, str | None] = {
    ord(letter): latin
    for letters, latins in (
        ("łđøħŧı", "ldohti"),
        ("авекмнорстухіјѕ", "abekmhopctyxijs"),
        ("αβεηικμνορτυχζ", "abehikmnoptyxz"),
    )
    for letter, latin in zip(letters, latins, strict=True)
}

_LEAST_DIGITS, _MOST_DIGITS = 3, 4
# A number of four digits must be written with this many characters, separators included.
_LEAST_WRITTEN = 5

# Longer numbers may have other signs between their digits, as telephone numbers have brackets.
_MOST_PLAIN_DIGITS = 7

_TWO_NUMBERS = re.compile(r"\d[^\w*`\u00ad\u200b-\u200f\u2060]{2,}\d")
_NUMBER = re.compile(
    r"((?<![A-Za-zА-Яа-яΑ-Ωα-ω_\d])\d+(?:[.,:'’·\u066b\u066c]\d+|[ \u00a0\u202f]\d{3}(?!\d))*)"
)
_YEAR = re.compile("(?:19|20)..")

# Eight words with fewer letters than this (``a b c d e f g h``) identify no text.
LEAST_SIGNS = 10

_COPY_WORDS = 8
# Each word is counted as this many parts.
_PARTS_OF_WORD = 60

_UNIT = re.compile(
    "(?P<han>[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
    "|(?P<hangul>[\u1100-\u11ff\uac00-\ud7ff])"
    "|(?P<spelt>[\u0e00-\u109f\u1780-\u17ff\u19e0-\u19ff\u3040-\u31ff])"
    "|(?P<word>[^ \u0e00-\u11ff\u1780-\u17ff\u19e0-\u19ff\u3005-\u3007\u3040-\u31ff\u3400-\u9fff\uac00-\ud7ff"
    "\uf900-\ufaff\U00020000-\U0003ffff]+)"
)
# 480 parts are a copy: 8 words, 10 signs of Han, 16 of Hangul, 24 that spell sounds.
_PARTS_OF = {"word": 60, "han": 48, "hangul": 30, "spelt": 20}


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


_FOLDING = _Folding(_LOOK_ALIKE)


def fold(text: str) -> str:
    """Give a text as words with spaces between them: ``Café_№ 12`` is ``cafe no 12``."""
    # Short cut for most files: ASCII has neither compatibility forms nor accents.
    if text.isascii():
        return text.lower().translate(_FOLDING)
    # Folded twice: compatibility forms may become capitals, which have to be folded again.
    plain = unicodedata.normalize("NFKD", text.translate(_SIGNS).casefold())
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", plain.casefold()).translate(_FOLDING))


def alphanumeric(text: str) -> str:
    """Give a text without anything between its letters and digits."""
    return "".join(fold(text).split())


def _without_escapes(line: str) -> str:
    """Write out what a line spells by escapes of JSON, Python, HTML or addresses; it stays one line."""
    if not _ESCAPED.search(line):
        return line
    text = _ESCAPED.sub(_unescaped, line)
    # Two escapes of a surrogate pair are one character.
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return paired.replace("\n", " ")


def _unescaped(match: re.Match[str]) -> str:
    braced, four, eight, two, control, entity, address = match.groups()
    # An escaped line end or tab separates words, as the character itself does.
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


def _fold_lines(lines: list[str]) -> FoldedLines:
    """Put lines together, so that a word that is broken over two of them is whole again."""
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


def _blank_names(text: str) -> str | None:
    """Give Python code with a blank in the place of each name, line for line; None for what is no Python."""
    # tokenize takes a carriage return for the end of a line, and lines are counted by newlines here.
    text = text.replace("\r", " ")
    lines = [list(line) for line in text.split("\n")]
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                (line, start), (_, end) = token.start, token.end
                lines[line - 1][start:end] = " " * (end - start)
    except (tokenize.TokenError, SyntaxError):
        return None
    return "\n".join("".join(line) for line in lines)


def is_short_number(value: str) -> bool:
    """Whether a compact text is a number that is short, and not a round one."""
    return value.isdigit() and _LEAST_DIGITS <= len(value) <= _MOST_DIGITS and not is_round(value)


def is_round(value: str) -> bool:
    """Whether a compact text is a number that anybody may choose for a limit: 10,000, or 0.001."""
    return value.isdigit() and len(value.strip("0")) <= 1


def _is_one_number(value: str, written: str) -> bool:
    """Whether the few digits of a number are written as one: `48 091`, and not in two cells of a table."""
    return len(value) > _MOST_PLAIN_DIGITS or _TWO_NUMBERS.search(written) is None


def is_price(value: str, text: str) -> bool:
    """Whether a text writes four digits as a price, a time or a measure: 2,386 and 18:45, not 10:30."""
    written = text.strip()
    # Round prices and half hours are in many texts.
    is_usual = value.endswith("00") or (":" in written and value.endswith("30"))
    return (
        is_short_number(value)
        and len(value) == _MOST_DIGITS
        and len(written) >= _LEAST_WRITTEN
        and not is_usual
    )


def _may_be_year(value: str, written: str) -> bool:
    """Whether a number that is written so may be a year: 2026, but not 20:26."""
    return written.isdigit() and _YEAR.fullmatch(value) is not None


def _short_numbers(line: str, place: int) -> Iterator[tuple[str, int, int]]:
    """Give the short numbers of a line as they are written, with start and end in a compact text.

    The line starts at ``place`` in that text.
    """
    parts = _NUMBER.split(line)
    if len(parts) == 1:
        return
    for is_number, part in zip(cycle((False, True)), parts, strict=False):
        value = alphanumeric(part)
        if is_number and is_short_number(value):
            yield part, place, place + len(value)
        place += len(value)


class Passage(FrozenValue, frozen=True):
    """A text that is looked for in pieces: compact, with the places of its words or signs."""

    compact: str
    places: tuple[int, ...]
    parts: tuple[int, ...]

    @property
    def words(self) -> float:
        """How many words it counts as."""
        return sum(self.parts) / _PARTS_OF_WORD

    def end_from(self, number: int) -> int | None:
        """Give the end of the piece that starts at this unit; None where too little is left for a piece."""
        parts = 0
        for unit in range(number, len(self.places)):
            parts += self.parts[unit]
            end = self.places[unit + 1] if unit + 1 < len(self.places) else len(self.compact)
            if parts >= _COPY_WORDS * _PARTS_OF_WORD and end - self.places[number] >= LEAST_SIGNS:
                return end
        return None

    @property
    def is_long(self) -> bool:
        """Whether it has a piece of eight words."""
        return self.end_from(0) is not None


def passage(folded: str) -> Passage:
    """Take a folded text apart into words, or signs where there are no spaces between words."""
    if folded.isascii():
        words = folded.split()
        places = tuple(accumulate(map(len, words[:-1]), initial=0)) if words else ()
        return Passage("".join(words), places, (_PARTS_OF_WORD,) * len(words))
    places_, parts, place = list[int](), list[int](), 0
    for unit in _UNIT.finditer(folded):
        places_.append(place)
        parts.append(_PARTS_OF[str(unit.lastgroup)])
        place += unit.end() - unit.start()
    return Passage(folded.replace(" ", ""), tuple(places_), tuple(parts))


def known_pieces(text: Passage, known: Collection[str]) -> Iterator[str]:
    """Give the pieces of eight words whose first signs are in ``known``, which are those of the prompts."""
    compact = text.compact
    for number, place in enumerate(text.places):
        if compact[place : place + LEAST_SIGNS] in known and (end := text.end_from(number)):
            yield compact[place:end]


# A text with fewer letters and digits than this is too short to be searched for.
LEAST_VALUE = 5

# As many signs of Han or Hangul are enough.
LEAST_DENSE = 3

# A text of this many letters and digits is also found within a longer word.
SURE_VALUE = 8

# How many letters a language may append to a word: phones, Anna's.
MOST_ENDING = 2

# Words of a title that have this many letters begin with a capital.
LEAST_LONG_WORD = 4

_WORD = re.compile(r"[^\W_]+")

_DENSE = re.compile(f"[\u3400-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]{{{LEAST_DENSE}}}")

_NAME_IN_CODE = re.compile(r"[A-Za-z_$][\w$]*(?:[.:\[\]]+[\w$]*)*", re.ASCII)
_CODE_SHAPE = re.compile(r"[_.:\[]|[a-z][A-Z]")


def is_searched(value: str) -> bool:
    """Whether a compact text says enough to be looked for: five letters or digits, or three signs of Han."""
    return len(value) >= LEAST_VALUE or _DENSE.match(value) is not None


class Reading(FrozenValue, frozen=True):
    """A file as it is written, or with its escapes written out: its lines, and these put together.

    In what ``is_code`` words say less. Where ``only_ids`` are looked for, all names of the code are in it.
    """

    file: str
    lines: tuple[str, ...]
    folded: FoldedLines
    is_code: bool = False
    only_ids: bool = False


class Span(FrozenValue, frozen=True, order=True):
    """A stretch of a reading: the number of the reading, and from where to where."""

    reading: int
    start: int
    end: int


def readings(texts: Mapping[str, str], code: Collection[str] = ()) -> Iterator[Reading]:
    """Give each file as it is written and, where that differs, with its escapes written out.

    Python code is read without the names in it, and once more with them.
    """
    for file, text in texts.items():
        whole = unicodedata.normalize("NFC", text)
        nameless = _blank_names(whole) if file.endswith(".py") else None
        yield from _spellings(file, whole if nameless is None else nameless, file in code)
        # An id of a task is a leak in names of code too.
        if nameless is not None:
            lines = whole.split("\n")
            yield Reading(file, tuple(lines), _fold_lines(lines), only_ids=True)


def _spellings(file: str, text: str, is_code: bool) -> Iterator[Reading]:
    lines = text.split("\n")
    yield Reading(file, tuple(lines), _fold_lines(lines), is_code)
    # Both forms are searched: what looks like an escape may be none.
    plain = [_without_escapes(line) for line in lines]
    if plain != lines:
        yield Reading(file, tuple(plain), _fold_lines(plain), is_code)


class PromptIndex:
    """The files that are searched."""

    def __init__(self, texts: Mapping[str, str], code: Collection[str] = ()) -> None:
        self.readings = tuple(readings(texts, code))
        self._ends: dict[tuple[int, int], Sequence[int]] = {}
        self._numbers: defaultdict[str, list[tuple[str, Span]]] = defaultdict(list)
        compacts = [reading.folded.compact for reading in self.readings]
        # One long text for all readings: one str.find over it is far faster than one for each reading.
        self._whole = "\n".join(compacts)
        self._starts = [*accumulate((len(text) + 1 for text in compacts[:-1]), initial=0)]
        # Of thousands of texts most stand nowhere: a look-up of their first signs costs less than a search.
        self._heads = _pieces_of(self._whole, LEAST_VALUE)
        self.beginnings = _pieces_of(self._whole, LEAST_SIGNS)
        for number, reading in enumerate(self.readings):
            text = reading.folded.compact
            for line, start in zip(reading.lines, reading.folded.lines, strict=True):
                for written, first, end in _short_numbers(line, start):
                    self._numbers[text[first:end]].append((written, Span(number, first, end)))

    def places_of_value(self, value: str) -> Iterator[Span]:
        """Give where a compact text stands that is no mere part of a longer word or number."""
        # Three or four digits are in many words and numbers: only whole numbers count, and no years.
        if is_short_number(value):
            numbers = self._numbers.get(value, ())
            yield from (span for written, span in numbers if not _may_be_year(value, written))
            return
        for span in self._places_of(value, self._heads, LEAST_VALUE):
            is_alone = _stands_alone(self.readings[span.reading].folded, span.start, value)
            if is_alone and (not value.isdigit() or _is_one_number(value, self.words_of(span))):
                yield span

    def places_of_piece(self, piece: str) -> Iterator[Span]:
        yield from self._places_of(piece, self.beginnings, LEAST_SIGNS)

    def _places_of(self, text: str, heads: Collection[str], signs: int) -> Iterator[Span]:
        """Give the places of a compact text; none where its first signs are in none of the ``heads``."""
        if len(text) >= signs and text[:signs] not in heads:
            return
        place = self._whole.find(text)
        while place >= 0:
            number = bisect_right(self._starts, place) - 1
            start = place - self._starts[number]
            yield Span(number, start, start + len(text))
            place = self._whole.find(text, place + 1)

    def is_name_of_code(self, span: Span) -> bool:
        """Whether a stretch may be a name in code: `total_count`, `centerLat`."""
        reading = self.readings[span.reading]
        if reading.only_ids or not reading.is_code:
            return reading.only_ids
        words = self.words_of(span)
        return _NAME_IN_CODE.fullmatch(words) is not None and _CODE_SHAPE.search(words) is not None

    def is_spelt(self, span: Span, spelling: Spelling) -> bool:
        """Whether a stretch is written as a text of that spelling has to be."""
        written = self.words_of(span)
        if spelling == "any" or len(written.split()) == 1:
            return True
        long = [word for word in _WORD.findall(written) if len(word) >= LEAST_LONG_WORD]
        return spelling == "title" and not any(word[0].islower() for word in long)

    def ends_word(self, span: Span) -> bool:
        return span.end in self.readings[span.reading].folded.ends

    def is_code(self, span: Span) -> bool:
        """Whether a stretch stands in a tool's description, or in code."""
        return self.readings[span.reading].is_code

    def line_of(self, span: Span) -> int:
        """Give the number of the line, from 1, on which a stretch starts."""
        return self.readings[span.reading].folded.line_at(span.start)

    def whole_line(self, span: Span) -> str:
        return self.readings[span.reading].lines[self.line_of(span) - 1].strip()

    def words_of(self, span: Span) -> str:
        """Give the file's own words for a stretch, on one line."""
        reading, first = self.readings[span.reading], self.line_of(span)
        last = reading.folded.line_at(span.end - 1)
        written = list[str]()
        for number in range(first - 1, last):
            if (span.reading, number) not in self._ends:
                signs = self.readings[span.reading].lines[number]
                # Cached by line: minified texts have many leaks on one line, which is then read only once.
                self._ends[span.reading, number] = [*accumulate(len(alphanumeric(char)) for char in signs)]
            ends = self._ends[span.reading, number]
            line, start = reading.lines[number], reading.folded.lines[number]
            first_sign = bisect_right(ends, span.start - start)
            written.append(line[first_sign : bisect_left(ends, span.end - start) + 1])
        return " ".join(written).strip()


def _pieces_of(text: str, signs: int) -> frozenset[str]:
    return frozenset(text[place : place + signs] for place in range(len(text)))


def _stands_alone(folded: FoldedLines, place: int, value: str) -> bool:
    text, end = folded.compact, place + len(value)
    if place not in folded.words and not _may_join(text[place - 1], value[0], len(value)):
        return False
    if end in folded.ends or end == len(text) or _may_join(value[-1], text[end], len(value)):
        return True
    endings = range(end + 1, end + MOST_ENDING + 1)
    return not value[-1].isdigit() and any(after in folded.ends for after in endings)


def _may_join(left: str, right: str, signs: int) -> bool:
    """Whether a text may begin or end between two signs that nothing separates."""
    if left.isdigit() and right.isdigit():
        return False
    if signs >= SURE_VALUE or left.isdigit() != right.isdigit():
        return True
    # Elsewhere words stand apart. Korean, Arabic and Hebrew join small words to longer ones, and other
    # scripts set no spaces at all.
    return "\u0590" <= right <= "\u08ff" or "\u0e00" <= right <= "\u11ff" or right >= "\u1780"

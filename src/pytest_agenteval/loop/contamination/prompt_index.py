"""Where texts stand in prompts: what does not begin as anything there is not even looked for."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate

from pytest_agenteval.loop.contamination.normalization import (
    LEAST_SIGNS,
    FoldedLines,
    alphanumeric,
    blank_names,
    fold_lines,
    is_one_number,
    is_short_number,
    may_be_year,
    short_numbers,
    without_escapes,
)
from pytest_agenteval.loop.contamination.task_texts import Spelling
from pytest_agenteval.records.record import FrozenValue

LEAST_VALUE = 5
"""Letters and digits below which a text says too little to be looked for."""

LEAST_DENSE = 3
"""Signs of Han or Hangul that say as much."""

SURE_VALUE = 8
"""From so many on a text is found within a longer word too."""

MOST_ENDING = 2
"""Letters that a language may put behind a word: phones, Anna's."""

LEAST_LONG_WORD = 4
"""Letters from which on a word within a title has a capital."""

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
        nameless = blank_names(whole) if file.endswith(".py") else None
        yield from _spellings(file, whole if nameless is None else nameless, file in code)
        if nameless is not None:
            lines = whole.split("\n")
            yield Reading(file, tuple(lines), fold_lines(lines), only_ids=True)


def _spellings(file: str, text: str, is_code: bool) -> Iterator[Reading]:
    lines = text.split("\n")
    yield Reading(file, tuple(lines), fold_lines(lines), is_code)
    plain = [without_escapes(line) for line in lines]
    if plain != lines:
        yield Reading(file, tuple(plain), fold_lines(plain), is_code)


class PromptIndex:
    """Files that are searched."""

    def __init__(self, texts: Mapping[str, str], code: Collection[str] = ()) -> None:
        self.readings = tuple(readings(texts, code))
        self._ends: dict[tuple[int, int], Sequence[int]] = {}
        self._numbers: defaultdict[str, list[tuple[str, Span]]] = defaultdict(list)
        compacts = [reading.folded.compact for reading in self.readings]
        # One long text for all readings: one str.find over it is far faster than one for each reading.
        self._whole = "\n".join(compacts)
        self._starts = [*accumulate((len(text) + 1 for text in compacts[:-1]), initial=0)]
        self._heads = _pieces_of(self._whole, LEAST_VALUE)
        self.beginnings = _pieces_of(self._whole, LEAST_SIGNS)
        for number, reading in enumerate(self.readings):
            text = reading.folded.compact
            for line, start in zip(reading.lines, reading.folded.lines, strict=True):
                for written, first, end in short_numbers(line, start):
                    self._numbers[text[first:end]].append((written, Span(number, first, end)))

    def places_of_value(self, value: str) -> Iterator[Span]:
        """Give where a compact text stands that is no mere part of a longer word or number."""
        # Three or four digits are in many words and numbers: only whole numbers count, and no years.
        if is_short_number(value):
            numbers = self._numbers.get(value, ())
            yield from (span for written, span in numbers if not may_be_year(value, written))
            return
        for span in self._places_of(value, self._heads, LEAST_VALUE):
            is_alone = _stands_alone(self.readings[span.reading].folded, span.start, value)
            if is_alone and (not value.isdigit() or is_one_number(value, self.words_of(span))):
                yield span

    def places_of_piece(self, piece: str) -> Iterator[Span]:
        """Give where a piece of a passage stands."""
        yield from self._places_of(piece, self.beginnings, LEAST_SIGNS)

    def _places_of(self, text: str, heads: Collection[str], signs: int) -> Iterator[Span]:
        """Give where a compact text stands, if one of these beginnings is its own, or it is shorter."""
        if len(text) >= signs and text[:signs] not in heads:
            return
        place = self._whole.find(text)
        while place >= 0:
            number = bisect_right(self._starts, place) - 1
            start = place - self._starts[number]
            yield Span(number, start, start + len(text))
            place = self._whole.find(text, place + 1)

    def is_name_of_code(self, span: Span) -> bool:
        """Whether what stands there may be what code calls something: `total_count`, `centerLat`."""
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
        """Whether a word ends where a stretch does."""
        return span.end in self.readings[span.reading].folded.ends

    def is_code(self, span: Span) -> bool:
        """Whether a stretch stands in a tool's description, or in code."""
        return self.readings[span.reading].is_code

    def line_of(self, span: Span) -> int:
        """Give the number of the line, from 1, on which a stretch begins."""
        return self.readings[span.reading].folded.line_at(span.start)

    def whole_line(self, span: Span) -> str:
        """Give the line on which a stretch begins, as it is read."""
        return self.readings[span.reading].lines[self.line_of(span) - 1].strip()

    def words_of(self, span: Span) -> str:
        """Give the file's own words for a stretch, on one line."""
        reading, first = self.readings[span.reading], self.line_of(span)
        last = reading.folded.line_at(span.end - 1)
        written = list[str]()
        for number in range(first - 1, last):
            if (span.reading, number) not in self._ends:
                signs = self.readings[span.reading].lines[number]
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

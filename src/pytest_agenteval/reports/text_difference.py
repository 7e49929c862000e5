r"""Where two sequences and two texts differ, word by word.

``html/page/difference.js`` has the same algorithms for the report's page, step by step: the test
``tests/extended/browser/test_difference.py`` holds that both give equal results. So everything here is
defined to the last tie, and names characters by their numbers: two languages know different versions of
Unicode.

A text's words are numbers, as 1,200.50 and 9:30, and runs of letters and digits. In Korean, Japanese and
Chinese, which are written without blanks or hang endings on their words, each character is one, as every
other sign is. The blanks behind a word, and newlines among them, go with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from pytest_agenteval.records.record import FrozenValue

MOST_CELLS = 100_000_000
"""The product of two lengths up to which sequences are aligned exactly: some hundredths of a second."""

MOST_STRETCH = 64_000
"""Characters of a stretch of changed lines up to which its words are compared."""

_BLANK = r"\n \t\x0b\x0c\r\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_LETTER = (
    r"0-9A-Za-z_\xaa\xb5\xba\xc0-\xd6\xd8-\xf6\xf8-\u10ff\u1200-\u167f\u1681-\u1fff"
    r"\u2c00-\u2dff\ua4d0-\ua95f\ua980-\uabff\ufb00-\ufdff\ufe70-\ufefe"
)
# A syllable that is stored as its letters, as macOS writes the names of files, stays one word.
_SYLLABLE = r"[\u1100-\u115f\ua960-\ua97f]+[\u1160-\u11ff\ud7b0-\ud7ff]*"
# So do a letter with its accents, and an emoji with its colour and what it is joined with.
_MARK = (
    r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]"
)
_SIGN = rf"[^{_BLANK}](?:{_MARK}|\u200d.)*"
_WORD = re.compile(rf"([0-9]+(?:[.,:][0-9]+)+|[{_LETTER}]+|{_SYLLABLE}|{_SIGN}|)([{_BLANK}]*)", re.DOTALL)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BLANKS = "\n \t\x0b\x0c\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def without_ends(text: str) -> str:
    """Give a text without the blanks at its ends."""
    return text.strip(_BLANKS)


Word: TypeAlias = tuple[str, str]
"""A word and the blanks behind it; the first of a text may be blanks alone."""


def words_of(text: str) -> list[Word]:
    """Split a text into its words; see the module."""
    return [pair for pair in _WORD.findall(text) if pair != ("", "")]


class Block(NamedTuple):
    """A part of two sequences: as long in both and equal, or what differs between two equal parts."""

    is_equal: bool
    old: slice
    new: slice


class Alignment(NamedTuple):
    """Blocks in turn equal and not; ``cells`` is what finding them took.

    ``is_coarse`` where that would have been too much: all between the equal ends is then one block.
    """

    blocks: list[Block]
    cells: int
    is_coarse: bool


def align(old: Sequence[str], new: Sequence[str], most: int = MOST_CELLS) -> Alignment:
    """Find a longest common subsequence of two sequences.

    Equal ends are taken off first. Of what is left, equal items that meet are paired; else the new item is
    passed by where that loses nothing, and otherwise the old one.
    """
    head, shorter = 0, min(len(old), len(new))
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    inner = old[head : len(old) - tail], new[head : len(new) - tail]
    cells = len(inner[0]) * len(inner[1])
    is_coarse = cells > most
    pairs = [(at, at) for at in range(head)]
    if cells and not is_coarse:
        pairs += [(head + at, head + by) for at, by in _common_pairs(*inner)]
    pairs += [(len(old) - at, len(new) - at) for at in range(tail, 0, -1)]
    return Alignment(list(_blocks(pairs, len(old), len(new))), cells, is_coarse)


def _common_pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Give the places of a longest common subsequence in both sequences."""
    # L(i, j) is the length for old[i:] and new[j:]. Bit k of row i is 0 where L(i, m-1-k) is one more than
    # L(i, m-k): all columns of a row are worked out at once (Hyyrö 2004).
    width = len(new)
    places: dict[str, int] = {}
    for bit, item in enumerate(reversed(new)):
        places[item] = places.get(item, 0) | 1 << bit
    full = row = (1 << width) - 1
    rows = [0] * len(old)
    for at in range(len(old) - 1, -1, -1):
        equal = row & places.get(old[at], 0)
        row = rows[at] = (row + equal | row - equal) & full
    at = by = 0
    while at < len(old) and by < width:
        if old[at] == new[by]:
            yield at, by
            at, by = at + 1, by + 1
        elif rows[at] >> (width - 1 - by) & 1:
            by += 1
        else:
            at += 1


def _blocks(pairs: Iterable[tuple[int, int]], olds: int, news: int) -> Iterator[Block]:
    """Join pairs that follow one another into equal blocks, with what lies between as blocks of its own."""
    at = by = start = 0
    # Up to (at, by) all is given, but for the equal block that began at `start` old items.
    for old, new in [*pairs, (olds, news)]:
        if (old, new) == (at, by) and old < olds and new < news:
            at, by = at + 1, by + 1
            continue
        if at > start:
            yield Block(True, slice(start, at), slice(by - at + start, by))
        if old > at or new > by:
            yield Block(False, slice(at, old), slice(by, new))
        start, at, by = old, old + 1, new + 1


Tag = Literal["=", "-", "+", "~"]
Run: TypeAlias = tuple[Tag, str]
"""A part of two texts: in both, only in the old one, only in the new one; ``~`` in both, and left out."""


class TextDifference(FrozenValue, frozen=True):
    """Two texts as runs; where it ``is_coarse``, parts were too long to be compared word by word."""

    runs: tuple[Run, ...]
    is_coarse: bool = False


def compare_texts(old: str, new: str) -> TextDifference:
    """Compare two texts line by line, and the lines that differ word by word."""
    olds, news = _LINE.findall(old), _LINE.findall(new)
    lines = align(olds, news)
    remaining, is_coarse = MOST_CELLS, False
    runs: list[Run] = []
    for block in lines.blocks:
        before, after = "".join(olds[block.old]), "".join(news[block.new])
        if block.is_equal:
            runs.append(("=", before))
            continue
        if not (before and after) or max(len(before), len(after)) > MOST_STRETCH:
            is_coarse |= bool(before and after)
            runs += _changed(before, after)
            continue
        words = words_of(before), words_of(after)
        aligned = align([word for word, _ in words[0]], [word for word, _ in words[1]], remaining)
        is_coarse |= aligned.is_coarse
        remaining -= 0 if aligned.is_coarse else aligned.cells
        runs += _word_runs(*words, aligned.blocks)
    return TextDifference(tuple(_joined(runs)), is_coarse)


def _changed(old: str, new: str) -> list[Run]:
    return [("-", old), ("+", new)]


class _Part(NamedTuple):
    """A stretch of words of both sides."""

    is_equal: bool
    old: list[Word]
    new: list[Word]

    @property
    def size(self) -> int:
        return max(len(self.old), len(self.new))


def _word_runs(old: Sequence[Word], new: Sequence[Word], blocks: Iterable[Block]) -> Iterator[Run]:
    """Give runs that people can read: what two texts share by chance is no equal run."""
    parts = [_Part(block.is_equal, list(old[block.old]), list(new[block.new])) for block in blocks]
    merged: list[_Part] = []
    for place, part in enumerate(parts):
        is_inside = 0 < place < len(parts) - 1
        # A few words between changes that are larger: they are read more easily as one change.
        is_chance = part.is_equal and is_inside and part.size < min(merged[-1].size, parts[place + 1].size)
        follows_change = bool(merged) and not (part.is_equal or merged[-1].is_equal)
        if is_chance or follows_change:
            merged[-1].old.extend(part.old)
            merged[-1].new.extend(part.new)
        else:
            merged.append(part)
    if 4 * sum(part.size for part in merged if part.is_equal) < min(len(old), len(new)):
        merged = [_Part(False, list(old), list(new))]
    for part in merged:
        if part.is_equal:
            for (word, before), (_, after) in zip(part.old, part.new, strict=True):
                yield "=", word
                if before == after:
                    yield "=", before
                else:
                    yield from _changed(before, after)
        else:
            yield from _changed(*("".join(map("".join, side)) for side in (part.old, part.new)))


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    """Join runs of one kind; blanks that a change has in common at its end follow the change."""
    equal = gone = came = ""
    for tag, text in runs:
        if tag == "-":
            gone += text
        elif tag == "+":
            came += text
        elif text:
            if gone or came:
                before, after = _without_common_end(gone, came)
                yield from _filled(equal, before, after)
                equal, gone, came = gone[len(before) :], "", ""
            equal += text
    before, after = _without_common_end(gone, came)
    yield from _filled(equal, before, after)
    yield from _filled(gone[len(before) :])


def _filled(equal: str, gone: str = "", came: str = "") -> Iterator[Run]:
    tagged: tuple[Run, Run, Run] = (("=", equal), ("-", gone), ("+", came))
    return (run for run in tagged if run[1])


def _without_common_end(old: str, new: str) -> tuple[str, str]:
    size, shorter = 0, min(len(old), len(new))
    while size < shorter and old[-1 - size] == new[-1 - size] and old[-1 - size] in _BLANKS:
        size += 1
    return old[: len(old) - size], new[: len(new) - size]


MOST_CONTEXT = 160
"""Characters of an equal run that stay beside a change."""

LEAST_FOLDED = 240
"""Characters from which on the rest of an equal run is left out."""


def fold_runs(runs: Sequence[Run]) -> list[Run]:
    """Leave the middle of long equal runs out, and the outer part of the first and the last one."""
    folded: list[Run] = []
    for place, (tag, text) in enumerate(runs):
        if tag != "=":
            folded.append((tag, text))
            continue
        head = _beginning(text) if place else ""
        tail = _end(text[len(head) :]) if place < len(runs) - 1 else ""
        middle = text[len(head) : len(text) - len(tail)]
        if len(middle) < LEAST_FOLDED:
            folded.append(("=", text))
        else:
            parts: tuple[Run, ...] = (("=", head), ("~", middle), ("=", tail))
            folded += [part for part in parts if part[1]]
    return folded


def _beginning(text: str) -> str:
    """Give the beginning of a text: whole lines where there are any, else whole words."""
    head = text[:MOST_CONTEXT]
    if len(head) == len(text):
        return head
    cut = (head.rfind("\n") + 1) or (head.rfind(" ") + 1) or len(head)
    return head[:cut]


def _end(text: str) -> str:
    tail = text[-MOST_CONTEXT:]
    if len(tail) == len(text):
        return tail
    # The last newline of a text begins no line.
    cut = tail.find("\n", 0, -1) + 1 or tail.find(" ") + 1
    return tail[cut:]

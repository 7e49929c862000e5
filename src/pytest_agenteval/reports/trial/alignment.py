"""Which items of two sequences are equal, in bounded time: lines of a file, steps of a conversation.

``difflib`` takes the cube of the length where items come again and again, as empty lines do, and steps of an
agent that goes in circles. So what is unique on both sides is matched first, as in patience diff (Bram Cohen,
2005), and ``difflib`` has the stretches between.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from typing import NamedTuple

MOST_WORK = 10_000_000
"""Comparisons that ``difflib`` may need for two sequences in all, at worst: a second or two."""


class Window(NamedTuple):
    """Where a stretch begins and ends on both sides."""

    old_low: int
    old_high: int
    new_low: int
    new_high: int


class Alignment(SequenceMatcher[Hashable]):
    """Two sequences beside each other; see ``difflib.SequenceMatcher``, whose ways to tell of it it has.

    Not looked into, and so all different, is a stretch that would take too long: hundreds of items, of which
    none is unique.
    """

    def __init__(self, old: Sequence[Hashable], new: Sequence[Hashable]) -> None:
        super().__init__(None, old, new, autojunk=False)
        self._old, self._new = old, new
        self._work_left = MOST_WORK

    def get_matching_blocks(self) -> list[Match]:
        """Give what is equal, in order, each block as long as it can be; an empty one at the end."""
        whole = Window(0, len(self._old), 0, len(self._new))
        blocks: list[Match] = []
        for block in sorted(self._blocks(whole)):
            if blocks and (blocks[-1].a + blocks[-1].size, blocks[-1].b + blocks[-1].size) == block[:2]:
                block = Match(blocks[-1].a, blocks[-1].b, blocks.pop().size + block.size)
            blocks.append(block)
        return [*blocks, Match(len(self._old), len(self._new), 0)]

    def _blocks(self, whole: Window) -> Iterator[Match]:
        waiting = [whole]
        while waiting:
            window = waiting.pop()
            before, inner, after = self._trimmed(window)
            yield from (block for block in (before, after) if block.size)
            work = self._work(inner)
            if 0 < work <= self._work_left:
                self._work_left -= work
                yield from self._searched(inner)
            elif work and self._work_left > 0:
                self._work_left -= inner.old_high - inner.old_low + inner.new_high - inner.new_low
                waiting += _between(inner, self._unique(inner))

    def _trimmed(self, window: Window) -> tuple[Match, Window, Match]:
        """Give the equal items at both ends, and what is between them."""
        old_low, old_high, new_low, new_high = window
        while old_low < old_high and new_low < new_high and self._old[old_low] == self._new[new_low]:
            old_low, new_low = old_low + 1, new_low + 1
        while (
            old_low < old_high and new_low < new_high and self._old[old_high - 1] == self._new[new_high - 1]
        ):
            old_high, new_high = old_high - 1, new_high - 1
        before = Match(window.old_low, window.new_low, old_low - window.old_low)
        after = Match(old_high, new_high, window.old_high - old_high)
        return before, Window(old_low, old_high, new_low, new_high), after

    def _counts(self, window: Window) -> tuple[Counter[Hashable], Counter[Hashable]]:
        old_low, old_high, new_low, new_high = window
        return Counter(self._old[old_low:old_high]), Counter(self._new[new_low:new_high])

    def _work(self, window: Window) -> int:
        """Give how many comparisons ``difflib`` needs at worst: all equal pairs, for each block anew."""
        old, new = self._counts(window)
        pairs = sum(count * new[item] for item, count in old.items())
        return pairs * min(old.total(), new.total())

    def _searched(self, window: Window) -> Iterator[Match]:
        old_low, old_high, new_low, new_high = window
        old, new = self._old[old_low:old_high], self._new[new_low:new_high]
        for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()[:-1]:
            yield Match(block.a + old_low, block.b + new_low, block.size)

    def _unique(self, window: Window) -> list[tuple[int, int]]:
        """Give where items stand that are unique on both sides: the most that have one order on both."""
        old, new = self._counts(window)
        once = {item for item, count in old.items() if count == new[item] == 1}
        places = {self._new[at]: at for at in range(*window[2:]) if self._new[at] in once}
        pairs = [(at, places[self._old[at]]) for at in range(*window[:2]) if self._old[at] in once]
        return _longest_rising(pairs)


def _between(window: Window, pairs: Sequence[tuple[int, int]]) -> Iterator[Window]:
    """Give the stretches from each pair of equal items up to the next one; none without any pair."""
    if not pairs:
        return
    starts = [(window.old_low, window.new_low), *pairs]
    ends = [*pairs, (window.old_high, window.new_high)]
    for (old_low, new_low), (old_high, new_high) in zip(starts, ends, strict=True):
        yield Window(old_low, old_high, new_low, new_high)


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Give the longest row of pairs, whose firsts rise, in which the seconds rise too."""
    lows: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, second) in enumerate(pairs):
        length = bisect(lows, second)
        lows[length : length + 1], ends[length : length + 1] = [second], [number]
        before.append(ends[length - 1] if length else -1)
    row: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        row.append(pairs[at])
        at = before[at]
    return row[::-1]

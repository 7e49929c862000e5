"""What a trial changed in its workspace: per file, in rows that stand side by side or below each other."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import zip_longest
from typing import Literal, NamedTuple

from pytest_agenteval.records.evidence import FileText, Outcome, Tree
from pytest_agenteval.records.record import FrozenValue

MOST_WORK = 10_000_000
"""Comparisons that ``difflib`` may need for two sequences in all, at worst: a second or two."""


class Window(NamedTuple):
    """Where a stretch begins and ends on both sides."""

    old_low: int
    old_high: int
    new_low: int
    new_high: int


class Alignment(SequenceMatcher[Hashable]):
    """A ``difflib.SequenceMatcher`` whose work has a limit; opcodes and groups are those of its base class.

    A stretch that would take too long (hundreds of items, none of them unique) is not searched: all of it
    counts as different.
    """

    def __init__(self, old: Sequence[Hashable], new: Sequence[Hashable]) -> None:
        # By default difflib ignores items that are frequent in 200 or more, as blank lines of files are.
        super().__init__(None, old, new, autojunk=False)
        self._old, self._new = old, new
        self._work_left = MOST_WORK

    def get_matching_blocks(self) -> list[Match]:
        """Give the blocks that are equal, in order, each as long as it can be; the last one is empty."""
        # difflib promises blocks that do not touch and an empty last one; its other methods build on that.
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
            # Equal ends come first: most changes are small, and what is left is cheap to search.
            before, inner, after = self._trimmed(window)
            yield from (block for block in (before, after) if block.size)
            # difflib searches what it can in time. A larger stretch is split at items that are unique on both
            # sides, as a patience diff does: that costs no more than its length.
            work = self._work(inner)
            if 0 < work <= self._work_left:
                self._work_left -= work
                old_low, old_high, new_low, new_high = inner
                old, new = self._old[old_low:old_high], self._new[new_low:new_high]
                for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()[:-1]:
                    yield Match(block.a + old_low, block.b + new_low, block.size)
            elif work and self._work_left > 0:
                self._work_left -= inner.old_high - inner.old_low + inner.new_high - inner.new_low
                waiting += _between(inner, self._unique(inner))

    def _trimmed(self, window: Window) -> tuple[Match, Window, Match]:
        old_low, old_high, new_low, new_high = window
        while old_low < old_high and new_low < new_high and self._old[old_low] == self._new[new_low]:
            old_low, new_low = old_low + 1, new_low + 1
        most = min(old_high - old_low, new_high - new_low)
        while most and self._old[old_high - 1] == self._new[new_high - 1]:
            old_high, new_high, most = old_high - 1, new_high - 1, most - 1
        before = Match(window.old_low, window.new_low, old_low - window.old_low)
        after = Match(old_high, new_high, window.old_high - old_high)
        return before, Window(old_low, old_high, new_low, new_high), after

    def _counts(self, window: Window) -> tuple[Counter[Hashable], Counter[Hashable]]:
        old_low, old_high, new_low, new_high = window
        return Counter(self._old[old_low:old_high]), Counter(self._new[new_low:new_high])

    def _work(self, window: Window) -> int:
        """Give how many comparisons ``difflib`` needs at worst: all equal pairs, again for each block."""
        old, new = self._counts(window)
        pairs = sum(count * new[item] for item, count in old.items())
        return pairs * min(old.total(), new.total())

    def _unique(self, window: Window) -> list[tuple[int, int]]:
        """Give the places of items that are unique on both sides: the most that have one order on both."""
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
    """Give the longest row of pairs in which the seconds rise; the firsts of ``pairs`` rise already."""
    # Patience sorting, in n log n steps: `lows` holds the lowest second in which a row of each length can
    # end, `ends` the number of that pair, and `before` the pair in front of each pair.
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


CONTEXT = 3
"""Equal lines around a change."""

LARGE = 256 * 1024
"""Characters from which on a file's lines are not compared: that takes seconds, and nobody reads it."""

MOST_ROWS = 2000
MOST_FILES = 200

Tag = Literal[" ", "~", "-", "+"]
Row = tuple[Tag, str | None, str | None]
"""A line of both sides: equal, changed, only old, only new; None where a side has none."""


class Hunk(FrozenValue, frozen=True):
    """Changed lines with some equal ones around; the starts are line numbers that count from 1."""

    old_start: int
    new_start: int
    rows: tuple[Row, ...]


class FileChange(FrozenValue, frozen=True):
    """One file that came, changed or went; ``note`` says why there are no lines, or not all."""

    path: str
    change: Literal["created", "modified", "deleted"]
    note: str = ""
    hunks: tuple[Hunk, ...] = ()


def file_changes(outcome: Outcome) -> Iterator[FileChange]:
    """Give the first ``MOST_FILES`` files that differ: created, then modified, then deleted ones."""
    diff = outcome.diff
    paths = [
        *((path, "created") for path in diff.created),
        *((path, "modified") for path in diff.modified),
        *((path, "deleted") for path in diff.deleted),
    ]
    for path, change in paths[:MOST_FILES]:
        note, hunks = _hunks(outcome.before, outcome.after, path)
        yield FileChange(path, change, note, hunks)  # type: ignore[arg-type]  # pairs of three literals


def _hunks(before: Tree, after: Tree, path: str) -> tuple[str, tuple[Hunk, ...]]:
    sides = [tree.files[path] for tree in (before, after) if path in tree]
    # One side that is no text, or too large, is enough: half a diff would show the other as all new.
    for side in sides:
        if side.text is None:
            return f"{side.why or 'no text'}, {side.size:,} bytes", ()
        if len(side.text) > LARGE:
            return f"too large to compare: {side.size:,} bytes", ()
    old, new = (_lines(tree.files.get(path)) for tree in (before, after))
    hunks = tuple(hunks_of_lines(old, new))
    # Lines are compared without their line breaks, so two files may differ in nothing but these.
    if not hunks:
        return ("empty" if len(sides) == 1 else "only the ends of lines differ"), ()
    rows, whole = 0, sum(len(hunk.rows) for hunk in hunks)
    if whole <= MOST_ROWS:
        return "", hunks
    # Rows after MOST_ROWS are left out, and the note says how many there are.
    first = []
    for hunk in hunks:
        first.append(Hunk(hunk.old_start, hunk.new_start, hunk.rows[: MOST_ROWS - rows]))
        rows += len(hunk.rows)
        if rows >= MOST_ROWS:
            break
    return f"the first {MOST_ROWS:,} of {whole:,} lines", tuple(first)


def _lines(file: FileText | None) -> list[str]:
    return (file.text or "").splitlines() if file else []


def hunks_of_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    """Give where two texts differ, line by line, with ``CONTEXT`` equal lines around."""
    for group in Alignment(old, new).get_grouped_opcodes(CONTEXT):
        rows: list[Row] = []
        for _, old_low, old_high, new_low, new_high in group:
            # Lines of a replaced stretch are paired in order, for views that show both sides side by side.
            for before, after in zip_longest(old[old_low:old_high], new[new_low:new_high]):
                tag: Tag = (
                    " " if before == after else "+" if before is None else "-" if after is None else "~"
                )
                rows.append((tag, before, after))
        yield Hunk(group[0][1] + 1, group[0][3] + 1, tuple(rows))

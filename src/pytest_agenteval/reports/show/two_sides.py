"""Two sides beside each other where there is room, else below; and what differs where both look alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeAlias

from pytest_agenteval.reports.show.diff_lines import hunk_lines
from pytest_agenteval.reports.show.foreign_text import Detail, cut
from pytest_agenteval.reports.trial.file_changes import hunks_of_lines
from pytest_agenteval.text.formatting import CUT, INDENT, Style, StyledLine, pad, pluralize

Lines: TypeAlias = Callable[[Detail], Iterable[StyledLine]]
"""Gives the lines of one side, as much of them as the detail says."""

SIDE_BY_SIDE = 120
"""Columns from which on two trials stand beside each other."""

BETWEEN = " | "
MOST_LINES = 40


def _hidden_difference(old: Lines, new: Lines, detail: Detail) -> Iterator[StyledLine]:
    """Give the lines in which two sides differ, which are folded away in both."""
    whole = Detail(detail.width, full=True)
    texts = [[line.text for line in side(whole)] for side in (old, new)]
    lines = [line for hunk in hunks_of_lines(*texts) for line in hunk_lines([hunk])]
    if not lines:
        yield StyledLine(f"{INDENT * 2}they differ in blanks alone", "dim")
    for line in lines[:MOST_LINES]:
        yield StyledLine(cut(f"{INDENT * 2}{line.text}", detail.width), line.style)
    if len(lines) > MOST_LINES:
        yield StyledLine(
            f"{INDENT * 2}{CUT} {pluralize(len(lines) - MOST_LINES, 'more line')} (--full)", "dim"
        )


def is_wide(detail: Detail) -> bool:
    """Whether both sides stand beside each other."""
    return detail.width >= SIDE_BY_SIDE and not detail.full


def one_side(detail: Detail) -> Detail:
    """Give the detail of one side: half of the width where both stand beside each other."""
    if is_wide(detail):
        return Detail((detail.width - len(BETWEEN)) // 2, detail.full)
    return detail.within(len(INDENT))


def is_hidden(old: Lines, new: Lines, detail: Detail) -> bool:
    """Whether folding hides in what two sides differ: what is visible of them is the same."""
    texts = [list(map(_look, side(one_side(detail)))) for side in (old, new)]
    return not detail.full and texts[0] == texts[1] != []


def _look(line: StyledLine) -> str:
    """Give what a line shows of a text: how long it is, and how long it took, says nothing of where."""
    of_text = line.style not in ("cyan", "dim") and not line.text.endswith("(--full)")
    return line.text if of_text else re.sub(r"\d[\d,.]*", "", line.text)


def sides(old: Lines, new: Lines, detail: Detail) -> Iterator[StyledLine]:
    """Give both sides beside each other or, where folding hides in what they differ, just that."""
    if is_hidden(old, new, detail):
        yield next(iter(old(detail)))._replace(style="dim")
        yield from _hidden_difference(old, new, detail)
    else:
        yield from beside(old(one_side(detail)), new(one_side(detail)), detail)


def beside(old: Iterable[StyledLine], new: Iterable[StyledLine], detail: Detail) -> Iterator[StyledLine]:
    """Put lines of both sides beside each other, or below each other with a mark before each."""
    if not is_wide(detail):
        yield from (StyledLine(f"- {line.text}", "red") for line in old)
        yield from (StyledLine(f"+ {line.text}", "green") for line in new)
        return
    half = one_side(detail).width
    for left, right in zip_longest(old, new):
        texts = [cut(line.text, half) if line else "" for line in (left, right)]
        text = f"{pad(texts[0], half)}{BETWEEN}{texts[1]}"
        yield StyledLine(text.rstrip(), _shared_style([line for line in (left, right) if line]))


def _shared_style(lines: Sequence[StyledLine]) -> Style:
    """Give the look of lines that look alike; a line of the terminal has one."""
    styles = {line.style for line in lines}
    return styles.pop() if len(styles) == 1 else ""

"""The end of a run on one screen: each suite in a line, its worst buckets, what makes the figures doubtful.

Names of buckets and runs are never cut: they are there to be copied. With -v the tables of all buckets stand
in the place of the worst, with -q only suites, what model
an agent chose by itself, and doubts are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.doubts import doubts, doubts_of_the_run
from pytest_agenteval.reports.suite_rows import brief_remarks, even_marks, remarks_on_all, suite_cells
from pytest_agenteval.reports.suite_table import suite_table
from pytest_agenteval.reports.tables import table_lines
from pytest_agenteval.reports.view import RunView
from pytest_agenteval.reports.worst_buckets import BucketRow, WorstBuckets, worst_buckets
from pytest_agenteval.text.formatting import (
    BETWEEN,
    INDENT,
    Style,
    StyledLine,
    cell_width,
    clamp_width,
    flow,
    pad,
    printable,
    wrap,
)

MOST_LINES = 40
"""Lines that the end of a run takes; misses have the room that figures leave, and the worst three always."""

GAP = "  "
SPENT = 4
"""The first cell of a suite's row that says what it took."""

LEAST_NAME_ROOM = 24
"""Columns below which names of buckets stand above their figures."""

EMPTY = StyledLine("")


class ScreenParts(FrozenValue, frozen=True):
    """What others put on a run's screen.

    ``headline`` stands above the suites: the verdict of a comparison. ``totals`` are what benchmarks make of
    suites, in brief or as tables. Below the doubts stand ``remarks`` and ``footer``: gates. ``place`` is
    where the run is kept, ``next_steps`` are commands that go on from there.
    """

    headline: Sequence[StyledLine] = ()
    totals: Sequence[StyledLine] = ()
    remarks: Sequence[StyledLine] = ()
    footer: Sequence[StyledLine] = ()
    place: str = ""
    next_steps: Sequence[str] = ()


def screen_lines(
    view: RunView, width: int = 80, verbosity: int = 0, parts: ScreenParts | None = None
) -> list[StyledLine]:
    """Give a run in brief (verbosity 0), with all buckets (from 1), or suites and doubts alone (below 0)."""
    parts, width = parts or ScreenParts(place=view.path), clamp_width(width)
    blocks: list[Sequence[StyledLine]] = [[*parts.headline, *_suites(view, width, verbosity)]]
    if verbosity > 0:
        blocks += [list(table_lines(suite_table(suite), width)) for suite in view.suites]
        blocks.append(parts.totals)
    elif verbosity == 0:
        blocks[0] = [*blocks[0], *parts.totals]
        blocks += _bucket_blocks(worst_buckets(view), width)
    end = [*_doubts(view, width, verbosity), *parts.remarks, *parts.footer]
    if verbosity >= 0:
        end += _where(parts, width)
    return _apart([*blocks, end]) if verbosity >= 0 else [line for block in [*blocks, end] for line in block]


def _apart(blocks: Sequence[Sequence[StyledLine]]) -> list[StyledLine]:
    """Put blocks below each other with an empty line between them."""
    lines: list[StyledLine] = []
    for block in filter(None, blocks):
        lines += [EMPTY, *block] if lines else block
    return lines


def _suites(view: RunView, width: int, verbosity: int) -> Iterator[StyledLine]:
    yield from (StyledLine(line, "bold") for line in fold_rows(list(suite_cells(view)), width))
    remarks = remarks_on_all(view) if verbosity >= 0 else brief_remarks(view)
    yield from (StyledLine(line) for line in flow(remarks, width))


def fold_rows(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Put cells below each other, the first two to the left; what has no room goes on in a line below.

    A name that is wider than the terminal stays whole.
    """
    if not rows:
        return
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    folds = _folds(widths, width)
    for row in rows:
        for fold in folds:
            cells = [pad(row[at], widths[at], right=at > 1) for at in fold]
            yield ("" if 0 in fold else INDENT) + GAP.join(cells).rstrip()


def _folds(widths: Sequence[int], width: int) -> list[list[int]]:
    """Give the columns that stand side by side, line by line; what a suite took is kept together."""
    joined = sum(widths[SPENT:]) + len(GAP) * len(widths[SPENT:])
    together = joined <= width
    folds, used = [[0]], widths[0]
    for at, wide in enumerate(widths[1:], 1):
        needed = joined if at == SPENT and together else len(GAP) + wide
        if used + needed > width:
            folds.append([])
            used = len(INDENT) - len(GAP)
        folds[-1].append(at)
        used += len(GAP) + wide
    return folds


def _bucket_blocks(suites: Sequence[WorstBuckets], width: int) -> Iterator[Sequence[StyledLine]]:
    rows = [row for suite in suites for row in suite.rows]
    figures = _figures(rows, width)
    figures_width = sum(len(GAP) + cell_width(cell) for cell in figures[0]) if figures else 0
    longest = max((cell_width(_name(suite, row)) for suite in suites for row in suite.rows), default=0)
    names = max(longest, *(cell_width(suite.title) for suite in suites)) if suites else 0
    names = min(names, width - figures_width)
    head, *figures = figures or [[]]
    for suite in suites:
        lines = [StyledLine(line, "dim") for line in _titled(suite.title, head, names, width)]
        for row in suite.rows:
            lines += map(StyledLine, _beside(row.names, figures.pop(0), names, width, INDENT))
        if suite.more:
            lines.append(StyledLine(f"{INDENT}{suite.more} more with misses (-v)", "dim"))
        yield lines


def _titled(title: str, head: Sequence[str], room: int, width: int) -> list[str]:
    lines = _beside([title], head, room, width)
    return [*wrap(title, width), *lines[1:]] if cell_width(lines[0]) > width else lines


def _name(suite: WorstBuckets, row: BucketRow) -> str:
    return INDENT + ", ".join(row.names)


def _figures(rows: Sequence[BucketRow], width: int) -> list[list[str]]:
    """Give the cells of the head and of each row, in columns; no interval where no row has one."""
    columns = [
        ["score", *even_marks([row.score for row in rows])],
        ["95 %", *(row.interval for row in rows)],
        ["tasks passed" if width >= 80 else "passed", *(row.passed for row in rows)],
    ]
    if not any(row.interval for row in rows):
        del columns[1]
    widths = [max(map(cell_width, column)) for column in columns]
    return [
        [pad(cell, wide, right=True) for cell, wide in zip(row, widths, strict=True)]
        for row in zip(*columns, strict=True)
    ]


def _beside(
    names: Sequence[str], figures: Sequence[str], room: int, width: int, indent: str = ""
) -> list[str]:
    """Give names with the figures beside their first line, or on a line below where they have no room."""
    cells = GAP.join(figures).rstrip()
    if room >= LEAST_NAME_ROOM:
        lines = _packed(names, room, indent)
        if all(cell_width(line) <= room for line in lines):
            return [f"{pad(lines[0], room)}{GAP}{cells}", *lines[1:]]
    below = " " * room if room >= LEAST_NAME_ROOM else INDENT
    return [*_packed(names, width, indent), f"{below}{GAP}{cells}"]


def _packed(names: Sequence[str], width: int, indent: str) -> list[str]:
    """Put as many whole names on a line as there is room for, the later lines hung below the first."""
    lines, line = [], indent + names[0]
    for name in names[1:]:
        if cell_width(line) + cell_width(name) + 3 <= width:  # two before it, and the comma after it
            line += f", {name}"
        else:
            lines.append(f"{line},")
            line = indent + INDENT + name
    return [*lines, line]


def _doubts(view: RunView, width: int, verbosity: int) -> Iterator[StyledLine]:
    # With -v the notes of each table say all but what holds for the whole run.
    for note in doubts_of_the_run(view) if verbosity > 0 else doubts(view):
        style: Style = "red" if note.bad else "yellow"
        yield from (StyledLine(piece, style) for piece in wrap(f"! {note.text}", width))


def _where(parts: ScreenParts, width: int) -> Iterator[StyledLine]:
    """Say where the run is kept and what to type next: paths and commands stay whole, side by side or not."""
    steps = [f"{'or' if at else 'next'}: {step}" for at, step in enumerate(parts.next_steps)]
    place = [f"run: {printable(parts.place)}"] if parts.place else []
    for texts in ([[*place, *steps]], [place, steps], [place, *([step] for step in steps)]):
        lines = [BETWEEN.join(line) for line in texts if line]
        if all(cell_width(line) <= width for line in lines):
            break
    yield from map(StyledLine, lines)

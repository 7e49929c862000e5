"""A table before it is known how wide it may be: as lines of a terminal, or in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_agenteval.reports.formatting import NOT_KNOWN
from pytest_agenteval.reports.github import escape_markdown
from pytest_agenteval.reports.terminal import INDENT, Line
from pytest_agenteval.reports.text_width import align_columns, cell_width, wrap

WIDEST_NAME = 44
GAP = 2


class Column(NamedTuple):
    """A column: its title and a cell for each row."""

    title: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A title, what is to be said above and below, a name for each row, groups of columns."""

    title: str
    head: str
    names: tuple[str, ...]
    groups: tuple[tuple[Column, ...], ...]
    notes: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()


def grid_lines(grid: Grid, width: int) -> Iterator[Line]:
    """Give a grid as lines of at most ``width`` columns.

    Where not all columns fit beside the names, each group gets a table of its own, and one that is still
    too wide continues below. A name that has no room beside its figures stands whole on a line above them.
    """
    yield from (Line(piece, "bold") for piece in wrap(grid.title, width))
    for caveat in grid.caveats:
        yield from (Line(piece, "yellow") for piece in wrap(INDENT + caveat, width))
    room = width - len(INDENT)
    for columns in _blocks(grid, room):
        head, *rows = _aligned(grid, columns, room)
        yield Line(INDENT + head.rstrip(), "dim")
        yield from (Line(INDENT + row.rstrip()) for row in rows)
    for note in grid.notes:
        yield from (Line(piece) for piece in wrap(INDENT + note, width))


def grid_markdown(grid: Grid) -> str:
    """Give a grid as a Markdown table with its title above and its notes below."""
    columns = [column for group in grid.groups for column in group]
    rows = [[grid.head, *(column.title for column in columns)]]
    rows += [[name, *(column.cells[at] for column in columns)] for at, name in enumerate(grid.names)]
    head, *body = [f"| {' | '.join(escape_markdown(cell) or NOT_KNOWN for cell in row)} |" for row in rows]
    rule = f"| {' | '.join(['---', *('---:' for _ in columns)])} |"
    parts = [
        f"### {escape_markdown(grid.title)}",
        *map(escape_markdown, grid.caveats),
        "\n".join([head, rule, *body]),
    ]
    if grid.notes:
        parts.append("\n".join(f"- {escape_markdown(note)}" for note in grid.notes))
    return "\n\n".join(parts) + "\n"


def _blocks(grid: Grid, room: int) -> Iterator[Sequence[Column]]:
    everything = [column for group in grid.groups for column in group]
    longest = max(map(cell_width, (grid.head, *grid.names)))
    if min(longest, WIDEST_NAME) + _taken(everything) <= room:
        yield everything
        return
    for group in grid.groups:
        columns = list(group)
        while columns:
            some = next(n for n in range(len(columns), 0, -1) if n == 1 or _fits(grid, columns[:n], room))
            yield columns[:some]
            columns = columns[some:]


def _fits(grid: Grid, columns: Sequence[Column], room: int) -> bool:
    """Whether the figures of these columns have room; names that have none beside them stand above."""
    return cell_width(grid.head) + _taken(columns) <= room


def _taken(columns: Sequence[Column]) -> int:
    return sum(max(map(cell_width, (column.title, *column.cells))) + GAP for column in columns)


def _aligned(grid: Grid, columns: Sequence[Column], room: int) -> list[str]:
    most = max(cell_width(grid.head), room - _taken(columns))
    beside = [name if cell_width(name) <= most else "" for name in grid.names]
    rows = [[grid.head, *(column.title for column in columns)]]
    rows += [[name, *(column.cells[at] for column in columns)] for at, name in enumerate(beside)]
    head, *lines = align_columns(rows, GAP)
    table = [head]
    for name, short, line in zip(grid.names, beside, lines, strict=True):
        table += [line] if short else [*wrap(name, room), line]
    return table

"""Tables before it is known how wide they may be: as lines of a terminal, or in Markdown.

Every table of every report is drawn here. A report says what is in its columns; how they find room is the
same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.formatting import (
    INDENT,
    NOT_KNOWN,
    WIDEST,
    StyledLine,
    align_columns,
    cell_width,
    escape_markdown,
    one_line,
    wrap,
    wrapped_lines,
)

WIDEST_NAME = 40
"""A table makes room for names up to this width; a longer one may stand on a line above its figures."""

GAP, NARROW_GAP = 2, 1


class TableColumn(NamedTuple):
    """A column: its title and a cell for each row.

    Where there is no room, columns that are ``spare`` are left out, those with the lowest number first; 0
    is never left out.
    """

    title: str
    cells: tuple[str, ...]
    spare: int = 0


class TableNote(NamedTuple):
    """One thing to know about a table; it is ``bad`` where figures are incomplete because of it.

    Some is ``of_an_end``: while a run goes on, it says nothing but that.
    """

    text: str
    bad: bool = False
    of_an_end: bool = False


class ReportTable(FrozenValue, frozen=True):
    """A title, a name for each row below the head ``head``, groups of columns, and the texts around them.

    ``caveats`` stand above the figures: readers need them first. ``notes`` stand below. ``names_beside`` says
    that spare columns give way before names go to lines of their own.
    """

    title: str
    head: str
    names: tuple[str, ...]
    groups: tuple[tuple[TableColumn, ...], ...]
    notes: tuple[TableNote, ...] = ()
    caveats: tuple[str, ...] = ()
    names_beside: bool = False

    @property
    def columns(self) -> list[TableColumn]:
        return [column for group in self.groups for column in group]

    @property
    def rows(self) -> list[list[str]]:
        """The head and a row for each name, with all columns."""
        titles = [self.head, *(column.title for column in self.columns)]
        rows = ([name, *(each.cells[at] for each in self.columns)] for at, name in enumerate(self.names))
        return [titles, *rows]


class _Block(NamedTuple):
    """Columns that stand side by side, how far apart, and how wide a name beside them may be."""

    columns: Sequence[TableColumn]
    gap: int
    name_room: int


def table_lines(table: ReportTable, width: int) -> Iterator[StyledLine]:
    """Give a table as lines of at most ``width`` columns, with its title, caveats and notes."""
    yield from wrapped_lines(one_line(table.title, WIDEST), width, "bold", indent="")
    for caveat in table.caveats:
        yield from wrapped_lines(caveat, width, "yellow")
    yield from body_lines(table, width)
    for note in table.notes:
        yield from wrapped_lines(note.text, width, "red" if note.bad else "")


def stacked_lines(tables: Iterable[ReportTable], width: int) -> Iterator[StyledLine]:
    """Give tables below each other with an empty line between them; see ``table_lines``."""
    for number, table in enumerate(tables):
        if number:
            yield StyledLine("")
        yield from table_lines(table, width)


def body_lines(table: ReportTable, width: int, indent: str = INDENT) -> Iterator[StyledLine]:
    """Give the head and the rows of a table as lines of at most ``width`` columns.

    Where not all columns fit beside the names, those that are spare are left out and the last line names
    them. A table without spare columns leaves nothing out: each group gets a table of its own, and one that
    is still too wide continues below. A name that has no room beside its figures stands whole on a line above
    them.
    """
    room = width - cell_width(indent)
    for block in _blocks(table, room):
        beside = [name if cell_width(name) <= block.name_room else "" for name in table.names]
        body = [[table.head, *(column.title for column in block.columns)]]
        body += [[name, *(column.cells[at] for column in block.columns)] for at, name in enumerate(beside)]
        top, *lines = align_columns(body, block.gap)
        table_rows = [top]
        # A name that has no room beside its figures stands above them, whole: it is there to be pasted.
        for name, short, line in zip(table.names, beside, lines, strict=True):
            table_rows += [line] if short or not name else [*wrap(name, room), line]
        # Only spare columns are left out: what is missing of the others stands in the next block.
        left_out = [column.title for column in table.columns if column.spare and column not in block.columns]
        more = wrap(f"no room for columns: {', '.join(left_out)}", room) if left_out else []
        head, *rows = [*table_rows, *more]
        yield StyledLine((indent + head).rstrip(), "dim")
        yield from (StyledLine((indent + row).rstrip()) for row in rows)


def table_markdown(table: ReportTable) -> str:
    """Give a table in Markdown, with its title and caveats above and its notes below."""
    title = f"### {escape_markdown(table.title)}"
    # All columns, also spare ones: a page scrolls.
    parts = [title, *map(escape_markdown, table.caveats), markdown_rows(table.rows)]
    if table.notes:
        parts.append("\n".join(f"- {escape_markdown(note.text)}" for note in table.notes))
    return "\n\n".join(parts)


def markdown_rows(rows: Sequence[Sequence[str]], texts: Sequence[str] = ()) -> str:
    """Give rows as a table in Markdown: the first is the head.

    The first column stands to the left, as do those of texts, by their titles.
    """
    head, *body = [f"| {' | '.join(escape_markdown(cell) or NOT_KNOWN for cell in row)} |" for row in rows]
    rule = f"| {' | '.join(['---', *('---' if title in texts else '---:' for title in rows[0][1:])])} |"
    return "\n".join([head, rule, *body])


def folded_markdown(head: str, body: str) -> str:
    """Give a text that GitHub shows folded away below its head."""
    # GitHub renders Markdown within HTML only after an empty line.
    return f"<details><summary>{head}</summary>\n\n{body}\n\n</details>"


def _blocks(table: ReportTable, room: int) -> Iterator[_Block]:
    everything = table.columns
    longest = min(WIDEST_NAME, max(map(cell_width, (table.head, *table.names))))
    narrowest = cell_width(table.head)
    if any(column.spare for column in everything):
        needed = [column for column in everything if not column.spare]
        beside = table.names_beside and _name_room(needed, room, NARROW_GAP) >= longest
        yield _without_spare(everything, room, longest, longest if beside else narrowest)
    elif _name_room(everything, room) >= longest:
        yield _Block(everything, GAP, _name_room(everything, room))
    else:
        for group in table.groups:
            columns = list(group)
            while columns:
                many = len(columns)
                # As many columns side by side as there is room for; a single one always stands.
                while many > 1 and _name_room(columns[:many], room) < narrowest:
                    many -= 1
                yield _Block(columns[:many], GAP, max(narrowest, _name_room(columns[:many], room)))
                columns = columns[many:]


def _without_spare(columns: Sequence[TableColumn], room: int, longest: int, narrowest: int) -> _Block:
    # Gaps give way first, then the room for names, which may stand on lines of their own, and columns last.
    spare = sorted((column for column in columns if column.spare), key=lambda column: column.spare)
    for dropped in range(len(spare) + 1):
        here = [column for column in columns if column not in spare[:dropped]]
        for enough, gap in product((longest, narrowest), (GAP, NARROW_GAP)):
            if _name_room(here, room, gap) >= enough:
                return _Block(here, gap, _name_room(here, room, gap))
    return _Block(here, NARROW_GAP, narrowest)


def _name_room(columns: Sequence[TableColumn], room: int, gap: int = GAP) -> int:
    """Give the columns of a terminal that are left for names; below 0 where not even the figures fit."""
    return room - sum(max(map(cell_width, (column.title, *column.cells))) + gap for column in columns)

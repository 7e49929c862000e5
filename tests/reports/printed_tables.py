"""Tables read back from what was printed, row by row: on a terminal, and in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tests.reports.figure_cells import Row, Table


def one_space(text: str) -> str:
    """Give a line without the spaces that put its cells into columns."""
    return " ".join(text.split())


def _squeezed(text: str) -> str:
    return "".join(text.split())


def check_table(table: Table, lines: Sequence[str], start: int = 0) -> int:
    """Check that the first table with these titles after a line has exactly these rows; gives where it ends.

    A name that has no room beside its figures stands above them, perhaps on several lines.
    """
    head = one_space(" ".join(table.titles))
    at = next((at for at in range(start, len(lines)) if one_space(lines[at]) == head), len(lines))
    assert at < len(lines), f"there is no table: {head}"
    at += 1
    for row in table.rows:
        at = _check_row(row, lines, at)
    return at


def check_wide_table(table: Table, lines: Sequence[str], start: int) -> int:
    """Check a table of which columns without room go on below; only its first title is looked for."""
    at, first, many = start, 0, len(table.titles) - 1
    while first < many:
        at = next(at for at in range(at, len(lines)) if one_space(lines[at]).split(" ")[0] == table.titles[0])
        last = first + len(re.split(r" {2,}", lines[at].strip())) - 1
        at += 1
        for row in table.rows:
            at = _check_row(Row(row.name, row.cells[first:last]), lines, at)
        first = last
    assert first == many
    return at


def _check_row(row: Row, lines: Sequence[str], at: int) -> int:
    cells = one_space(" ".join(row.cells))
    if at < len(lines) and one_space(lines[at]) == one_space(f"{row.name} {cells}"):
        return at + 1
    name, wanted, end = "", _squeezed(row.name), at
    while end < len(lines) and wanted.startswith(name) and name != wanted:
        name += _squeezed(lines[end])
        end += 1
    if end == len(lines) or name != wanted:
        end = at
    found = one_space(lines[end]) if end < len(lines) else ""
    assert found == cells, f"{row.name}: {found!r} instead of {cells!r}"
    return end + 1


def folded_rows(lines: Sequence[str]) -> list[str]:
    """Give rows whose later columns may go on in indented lines below, each as one line."""
    rows: list[str] = []
    for line in lines:
        if line.startswith("  ") and rows:
            rows[-1] += f" {line}"
        else:
            rows.append(line)
    return [one_space(row) for row in rows]


def row_text(row: Row) -> str:
    """Give a row as one line."""
    return one_space(" ".join([row.name, *row.cells]))


def blocks(lines: Sequence[str]) -> list[list[str]]:
    """Give the stretches of lines between empty ones."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


# ---- Markdown

ESCAPED = re.compile(r"\\([\\`*_{}\[\]|~#$!])")
ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "\u200b": ""}


def plain_markdown(text: str) -> str:
    """Give a text as a reader of the page sees it."""
    plain = ESCAPED.sub(r"\1", text)
    for entity, sign in ENTITIES.items():
        plain = plain.replace(entity, sign)
    return plain


def markdown_tables(text: str) -> Iterator[list[list[str]]]:
    """Give the tables of a page, each as rows of cells, the head first."""
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("| "):
            # A bar within a cell has a backslash before it.
            cells = re.split(r"(?<!\\)\|", line.strip()[1:-1])
            table.append([plain_markdown(cell.strip()) for cell in cells])
        elif table:
            head, _rule, *rows = table
            yield [head, *rows]
            table = []


def has_markdown_table(table: Table, tables: Sequence[list[list[str]]], *, titled: bool = True) -> bool:
    """Whether one of a page's tables is exactly this one."""
    expected = [[row.name, *row.cells] for row in table.rows]
    shortened = [[_cut(cell) for cell in row] for row in expected]
    return any(
        found == shortened and (head == list(table.titles) or (not titled and head[0] == table.titles[0]))
        for head, *found in tables
    )


MOST_CELL = 300


def _cut(cell: str) -> str:
    return (cell if len(cell) <= MOST_CELL else f"{cell[: MOST_CELL - 1]}…") or "-"

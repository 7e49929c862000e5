"""What a query gave, as a table for people, as CSV for spreadsheets, as JSON for programs."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.reports.exports.csv_file import spreadsheet_text
from pytest_agenteval.text.canonical import compact
from pytest_agenteval.text.formatting import (
    CUT,
    NOT_KNOWN,
    StyledLine,
    cell_width,
    one_line,
    pad,
    pluralize,
    truncate,
)
from pytest_agenteval.text.json_form import jsonable

MOST_CELL = 100_000
NARROWEST_CELL = 8
"""Columns to which a text gives way where a table has no room."""
GAP = 2


class QueryResult(FrozenValue, frozen=True):
    """What a query gave: its columns' names, and rows of values of JSON, whole numbers of any size."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def json_value(value: Any) -> Any:
    """Give a value of a database as one of JSON: times are ISO 8601, decimals numbers, bytes hexadecimal."""
    if isinstance(value, Decimal):  # what SQL's sum gives for whole numbers, among others
        exponent = value.as_tuple().exponent
        return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "nanoseconds"):  # an interval, in Arrow's form
        months = f"{pluralize(value.months, 'month')} " if value.months else ""
        return f"{months}{timedelta(days=value.days, microseconds=value.nanoseconds // 1000)}"
    if isinstance(value, Mapping):
        return {name: json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    return jsonable(value)


class QueryDocument(Document, frozen=True, kw_only=True):
    """What a query gave: a map for each row, with all digits."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]


def query_document(result: QueryResult) -> QueryDocument:
    """Give the rows for programs."""
    rows = (dict(zip(result.columns, row, strict=True)) for row in result.rows)
    return QueryDocument(columns=result.columns, rows=tuple(rows))


def result_csv(result: QueryResult) -> str:
    """Give CSV as ``write_csv`` writes it, with all digits."""
    text = StringIO(newline="")
    lines = csv.writer(text)
    lines.writerow(map(spreadsheet_text, result.columns))
    lines.writerows([map(_csv_cell, row) for row in result.rows])
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, str):
        return spreadsheet_text(value)
    return compact(value) if isinstance(value, bool | list | dict) else value


def result_lines(result: QueryResult, width: int | None) -> Iterator[StyledLine]:
    """Give an aligned table: figures to the right with four digits, texts to the left and on one line.

    Texts give way where there is no room in ``width`` columns; None is room for everything.
    """
    rows = [[_cell(value) for value in row] for row in result.rows]
    table = [[one_line(name, MOST_CELL) for name in result.columns], *rows]
    figures = [_all_figures(row[at] for row in result.rows) for at in range(len(result.columns))]
    widths = [max(map(cell_width, column)) for column in zip(*table, strict=True)]
    if width is not None:
        widths = _narrowed(widths, figures, width)
    head, *body = [_line(row, widths, figures) for row in table]
    yield StyledLine(head, "dim")
    yield from map(StyledLine, body)
    yield StyledLine(pluralize(len(rows), "row"), "dim")


def _cell(value: Any) -> str:
    if value is None:
        return NOT_KNOWN
    if isinstance(value, float):
        return f"{value:.4g}" if 0 < abs(value) < 0.001 else f"{value:.4f}"
    return one_line(value if isinstance(value, str) else compact(value), MOST_CELL)


def _all_figures(values: Iterator[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, int | float) for value in present)


def _narrowed(widths: Sequence[int], figures: Sequence[bool], room: int) -> list[int]:
    """Take columns from the widest text again and again, until all has room or no text can give way."""
    narrow = list(widths)
    while sum(narrow) + GAP * (len(narrow) - 1) > room:
        texts = [at for at, figure in enumerate(figures) if not figure and narrow[at] > NARROWEST_CELL]
        if not texts:
            break
        narrow[max(texts, key=narrow.__getitem__)] -= 1
    return narrow


def _line(cells: Sequence[str], widths: Sequence[int], figures: Sequence[bool]) -> str:
    fitting = [
        cell if cell_width(cell) <= width else truncate(cell, width - 1) + CUT
        for cell, width in zip(cells, widths, strict=True)
    ]
    padded = [pad(*cell) for cell in zip(fitting, widths, figures, strict=True)]
    return (" " * GAP).join(padded).rstrip()

"""Reading tables: CSV, lines of JSON, and lists in JSON, each row with the line on which it begins."""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from pytest_agenteval.tasks.documents import read_bytes, short_path
from pytest_agenteval.tasks.rows.row_problems import RowProblems
from pytest_agenteval.tasks.rows.spec import RowSource
from pytest_agenteval.tasks.rows.strict_json import STRICT_JSON
from pytest_agenteval.tasks.validation_errors import value_text
from pytest_agenteval.text.errors import Problem, ProblemsFound

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")


class Row(NamedTuple):
    """One row: the line on which it begins, or its number where there are none, and its values by column."""

    line: int
    values: Mapping[str, Any]


class Table(NamedTuple):
    """The names of the columns, in their order, and the rows."""

    columns: tuple[str, ...]
    rows: Sequence[Row]


def read_table(path: Path, source: RowSource, problems: RowProblems) -> Table:
    """Read a table by its name's ending: the rows that can be read; what is wrong with the others is added.

    Raises ProblemsFound where the file is no text. No row is left where it has none, or its first line is
    wrong; that is added too.
    """
    text = _text(path, source.encoding)
    wrong = _BrokenRows(short_path(path), problems)
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        table = _read_csv(text, source.delimiter or _delimiter(text, suffix), wrong)
    else:
        rows = list(_json_list(text, wrong) if suffix == ".json" else _json_lines(text, wrong))
        table = table_of(rows)
    if not table.rows and not wrong:
        wrong.add(1, "at least one row", "none")
    return table


def table_of(rows: Sequence[Row]) -> Table:
    """Give rows with every column that any of them has."""
    return Table(tuple(dict.fromkeys(name for row in rows for name in row.values)), rows)


class _BrokenRows:
    """What is wrong with the rows of one file."""

    def __init__(self, file: str, wrong: RowProblems) -> None:
        self._file, self._all, self._before = file, wrong, wrong.rows

    def __bool__(self) -> bool:
        """Whether anything is."""
        return self._all.rows > self._before

    def add(self, line: int | None, expected: str, found: str, hint: str = "") -> None:
        self._all.add([Problem(self._file, line, (), expected, found, hint)])


def _text(path: Path, encoding: str) -> str:
    data = read_bytes(path)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # as Excel's "Unicode text"
        encoding = "utf-16"
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        hint = "save the file as UTF-8, or say `rows: {file: ..., encoding: cp949}`"
        _refuse(path, line, f"a text in {encoding}", f"the byte 0x{data[error.start]:02x}", hint)
    except (LookupError, ValueError):  # codecs that are none of texts, a zero byte in the name
        _refuse(path, None, "the name of an encoding, as in cp949", repr(encoding))


def _refuse(path: Path, line: int | None, expected: str, found: str, hint: str = "") -> NoReturn:
    raise ProblemsFound([Problem(short_path(path), line, (), expected, found, hint)]) from None


def _delimiter(text: str, suffix: str) -> str:
    """Tell what stands between cells: a comma, unless the first line has none and has semicolons or tabs."""
    if suffix == ".tsv":
        return "\t"
    first = text.partition("\n")[0]
    return "," if "," in first else next((mark for mark in ";\t" if mark in first), ",")


def _read_csv(text: str, delimiter: str, wrong: _BrokenRows) -> Table:
    # newline="": a line break within quotes is the cell's own.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    longest = csv.field_size_limit(sys.maxsize)
    try:
        return _rows_of(_cells(reader, wrong), wrong)
    finally:
        csv.field_size_limit(longest)


def _cells(reader: Any, wrong: _BrokenRows) -> Iterator[tuple[int, list[str]]]:
    """Give the cells of each row, with the line on which it begins."""
    begins = 1
    try:
        for cells in reader:
            yield begins, cells
            begins = reader.line_num + 1
    except csv.Error as broken:
        wrong.add(begins, "a table in CSV", str(broken), _way_out(str(broken)))


def _way_out(reason: str) -> str:
    if "end of data" in reason:
        return "a cell that begins with a quote ends with one; within it a quote is written twice"
    return "within a cell in quotes a quote is written twice" if "expected after" in reason else ""


def _rows_of(lines: Iterable[tuple[int, list[str]]], wrong: _BrokenRows) -> Table:
    columns: tuple[str, ...] = ()
    rows: list[Row] = []
    for line, cells in lines:
        if not any(cells):  # a blank line, or one of nothing but delimiters
            continue
        if not columns:
            columns = tuple(cell.strip() for cell in cells)
            if not _is_header(columns, line, wrong):
                return Table(columns, ())
        elif len(cells) != len(columns):
            hint = "a text with a delimiter in it stands in quotes" if len(cells) > len(columns) else ""
            wrong.add(line, f"{len(columns)} cells, as the first line has", f"{len(cells)}", hint)
        else:
            rows.append(Row(line, dict(zip(columns, cells, strict=True))))
    return Table(columns, rows)


def _is_header(columns: Sequence[str], line: int, wrong: _BrokenRows) -> bool:
    """Whether each column has a name of its own; else that is told."""
    for at, name in enumerate(columns):
        if not name:
            wrong.add(line, f"a name for column {at + 1}", "nothing")
        elif name in columns[:at]:
            wrong.add(line, "each column's name only once", f"{name!r} a second time, in column {at + 1}")
    return not wrong


def _json_lines(text: str, wrong: _BrokenRows) -> Iterator[Row]:
    # Not splitlines: JSON's texts may hold what Unicode calls a line break.
    for line, written in enumerate(text.split("\n"), start=1):
        if written.strip():
            yield from _json_row(written, line, wrong)


def _json_row(written: str, line: int, wrong: _BrokenRows) -> Iterator[Row]:
    try:
        value = STRICT_JSON.decode(written)
    except RecursionError:
        wrong.add(line, "lists and maps not nested too deeply", "more levels than can be read")
    except ValueError as broken:
        wrong.add(line, "a JSON object", _reason(broken))
    else:
        yield from _checked(value, line, wrong)


def _checked(value: Any, line: int, wrong: _BrokenRows) -> Iterator[Row]:
    if isinstance(value, dict):
        yield Row(line, value)
    else:
        wrong.add(line, "a JSON object: a map from columns to values", value_text(value))


def _reason(broken: ValueError) -> str:
    return broken.msg if isinstance(broken, json.JSONDecodeError) else str(broken)


def _json_list(text: str, wrong: _BrokenRows) -> Iterator[Row]:
    """Read a list element by element: so each has its line."""
    at, line, counted = _next(text, 0), 1, 0
    if text[at : at + 1] != "[":
        wrong.add(1, "a list of JSON objects", value_text(_whole(text)))
        return
    at = _next(text, at + 1)
    while text[at : at + 1] not in ("]", ""):
        line += text.count("\n", counted, at)
        counted = at
        try:
            value, at = STRICT_JSON.raw_decode(text, at)
        except (ValueError, RecursionError) as broken:
            broken_at = broken.lineno if isinstance(broken, json.JSONDecodeError) else line
            found = _reason(broken) if isinstance(broken, ValueError) else "more levels than can be read"
            wrong.add(broken_at, "a JSON object", found)
            return
        yield from _checked(value, line, wrong)
        at = _next(text, at)
        if text[at : at + 1] == ",":
            at = _next(text, at + 1)
        elif text[at : at + 1] != "]":
            break
    if text[at : at + 1] != "]" or _next(text, at + 1) != len(text):
        wrong.add(text.count("\n", 0, at) + 1, "a comma, or ] as the list's end", repr(text[at : at + 20]))


def _next(text: str, at: int) -> int:
    """Give the place of the next character that is no blank."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _whole(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text[:40]

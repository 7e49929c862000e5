"""Reads tables of rows: CSV, JSON, JSON Lines and datasets; lists the problems of rows.

Rows become tasks, and the examples of a calibration.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.tasks.documents import STRICT_JSON, read_bytes, read_json, short_path
from pytest_agenteval.tasks.suite_spec import RowSource
from pytest_agenteval.tasks.validation import value_text
from pytest_agenteval.text.errors import Problem, ProblemsFound
from pytest_agenteval.text.json_values import jsonable

# How many rows with problems are listed one by one; further ones are only counted.
MOST_PROBLEMS = 20
SCHEME = "hf://"
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")

Report: TypeAlias = Callable[..., None]
"""Takes what is wrong with a row: its line, what is expected, what was found and, perhaps, a hint."""


class RowProblems:
    """The problems of rows: their shape, their cells, and the tasks that are made of them."""

    def __init__(self) -> None:
        self.rows = 0
        self._problems: list[Problem] = []

    def add(self, problems: Iterable[Problem]) -> None:
        """Add the problems of one row, if it has any."""
        found = list(problems)
        self.rows += bool(found)
        # Of a table in which every row is wrong, the others are only counted.
        if self.rows <= MOST_PROBLEMS:
            self._problems += found

    def raise_any(self) -> None:
        """Raise ProblemsFound if there are any: those of all rows once, the rest in the order of lines."""
        if not self._problems:
            return
        once = list(dict.fromkeys(self._problems))
        files = list(dict.fromkeys(problem.file for problem in once))
        found = sorted(once, key=lambda problem: (files.index(problem.file), problem.line or 0))
        if (more := self.rows - MOST_PROBLEMS) > 0:
            text = f"{more} more rows with problems"
            found.append(Problem(once[-1].file, None, (), "rows without problems", text))
        raise ProblemsFound(found)


class RowMistake(Exception):
    """Why a dataset, or a cell of a row, cannot be read: what is expected, what there is, and what to do."""

    def __init__(self, expected: str, found: str, hint: str = "") -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.expected, self.found, self.hint = expected, found, hint


class Row(NamedTuple):
    """One row: its line, or its number where the table has no lines, and its values by column."""

    line: int
    values: Mapping[str, Any]


class RowTable(NamedTuple):
    """The names of the columns, in their order, and the rows."""

    columns: tuple[str, ...]
    rows: Sequence[Row]


def read_table(path: Path, source: RowSource, problems: RowProblems) -> RowTable:
    """Read a table by the ending of its name; the problems of rows that cannot be read are added.

    Raises ProblemsFound where the file is no text, or no list of JSON. Without rows, or with a wrong first
    line, the table has no row, and that is added as well.
    """
    hint = "save the file as UTF-8, or write `rows: {file: ..., encoding: cp949}`"
    text = read_text(path, source.encoding, hint)
    file, suffix, before = short_path(path), path.suffix.lower(), problems.rows

    def report(line: int | None, expected: str, found: str, hint: str = "") -> None:
        problems.add([Problem(file, line, (), expected, found, hint)])

    if suffix in (".csv", ".tsv"):
        table = _table_of(csv_lines(text, source.delimiter or _delimiter(text, suffix), report), report)
    else:
        values = _json_list(text, file) if suffix == ".json" else json_lines(text, report)
        rows = []
        for line, value in values:
            if isinstance(value, dict):
                rows.append(Row(line, value))
            else:
                report(line, "a JSON object: a map from columns to values", value_text(value))
        # Rows of JSON may lack a key: the table has every column that any of them has.
        table = RowTable(tuple(dict.fromkeys(name for row in rows for name in row.values)), rows)
    if not table.rows and problems.rows == before:
        report(1, "at least one row", "none")
    return table


def read_text(path: Path, encoding: str = "UTF-8", hint: str = "save the file as UTF-8") -> str:
    """Read a table's text, whose line ends stay as they are; raises ProblemsFound where it is none."""
    data = read_bytes(path)
    # Excel's "Unicode text" is UTF-16.
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line, found = data.count(b"\n", 0, error.start) + 1, f"the byte 0x{data[error.start]:02x}"
        problem = Problem(short_path(path), line, (), f"a text in {encoding}", found, hint)
    # An unknown name, a codec that does not give text, or a zero byte in the name.
    except (LookupError, ValueError):
        expected = "the name of an encoding, as in cp949"
        problem = Problem(short_path(path), None, (), expected, repr(encoding))
    raise ProblemsFound([problem])


def _delimiter(text: str, suffix: str) -> str:
    """Give the mark between cells: a comma, unless the first line has none and has semicolons or tabs."""
    if suffix == ".tsv":
        return "\t"
    first = text.partition("\n")[0]
    return "," if "," in first else next((mark for mark in ";\t" if mark in first), ",")


def csv_lines(text: str, delimiter: str, report: Report) -> list[tuple[int, list[str]]]:
    """Give the cells of each row that is not blank, with its line; the first row names the columns."""
    # newline="": a line break within quotes is the cell's own. Strict, so that a quote that is never closed
    # is an error and does not swallow the rest of the file.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines: list[tuple[int, list[str]]] = []
    # The csv module refuses cells of more than 128 KiB, by a bound for the whole process, which is put back.
    longest = csv.field_size_limit(sys.maxsize)
    begins = 1
    try:
        for cells in reader:
            width = len(lines[0][1]) if lines else len(cells)
            if len(cells) == width and any(cell.strip() for cell in cells):
                lines.append((begins, cells))
            elif any(cell.strip() for cell in cells):
                hint = "a text with a delimiter in it stands in quotes" if len(cells) > width else ""
                report(begins, f"{width} cells, as the first line has", f"{len(cells)}", hint)
            # A cell in quotes may have several lines: the next row begins behind the last of them.
            begins = reader.line_num + 1
    except csv.Error as broken:
        reason, hint = str(broken), ""
        if "end of data" in reason:
            hint = "a cell that begins with a quote ends with one; within it a quote is written twice"
        elif "expected after" in reason:
            hint = "write a quote twice within a quoted cell"
        report(begins, "a table in CSV", reason, hint)
    finally:
        csv.field_size_limit(longest)
    return lines


def _table_of(lines: Sequence[tuple[int, list[str]]], report: Report) -> RowTable:
    if not lines:
        return RowTable((), ())
    line, names = lines[0]
    columns = tuple(name.strip() for name in names)
    for at, name in enumerate(columns):
        if not name:
            report(line, f"a name for column {at + 1}", "nothing")
        elif name in columns[:at]:
            report(line, "each column's name only once", f"{name!r} a second time, in column {at + 1}")
    # Without right columns every row would be wrong as well.
    is_right = all(columns) and len(set(columns)) == len(columns)
    rows = [Row(line, dict(zip(columns, cells, strict=True))) for line, cells in lines[1:]]
    return RowTable(columns, rows if is_right else ())


def json_lines(text: str, report: Report) -> Iterator[tuple[int, Any]]:
    """Give the value of each line that is not blank, with its number."""
    # Not splitlines: JSON's texts may hold what Unicode calls a line break.
    for line, written in enumerate(text.split("\n"), start=1):
        if written.strip():
            try:
                value = STRICT_JSON.decode(written)
            except RecursionError:
                report(line, "lists and maps not nested too deeply", "more levels than can be read")
            except ValueError as broken:
                reason = broken.msg if isinstance(broken, json.JSONDecodeError) else str(broken)
                report(line, "a JSON object", reason)
            else:
                yield line, value


def _json_list(text: str, file: str) -> Iterator[tuple[int, Any]]:
    """Give each value of a list with its line; raises ProblemsFound where there is no such list."""
    try:
        values = read_json(text, file)
    except RecursionError:
        values = "more levels than can be read"
    if not isinstance(values, list):
        raise ProblemsFound([Problem(file, 1, (), "a list of JSON objects", value_text(values))])
    line, seen, end = 1, 0, text.index("[") + 1
    # Decoded once more, one by one, for their places.
    for _ in values:
        begin = end
        while text[begin] in ", \t\r\n":
            begin += 1
        line += text.count("\n", seen, begin)
        value, end = STRICT_JSON.raw_decode(text, begin)
        seen = begin
        yield line, value


def is_saved_dataset(path: Path | None) -> bool:
    """Whether a folder is what ``Dataset.save_to_disk`` writes."""
    names = ("dataset_info.json", "dataset_dict.json", "state.json")
    return path is not None and path.is_dir() and any((path / name).is_file() for name in names)


def read_dataset(source: RowSource, split: str | None, folder: Path | None) -> RowTable:
    """Read one split of a dataset, from its folder or by its name; rows are counted from 1.

    Raises RowMistake.
    """
    try:
        # Imported here: it is an extra that most projects do not install.
        import datasets
    except ImportError:
        raise RowMistake(
            "the package datasets, which reads Hugging Face's datasets",
            "it is not installed",
            "pip install 'pytest-agenteval[datasets]'",
        ) from None
    try:
        if folder is not None:
            found = datasets.load_from_disk(str(folder))
        else:
            name, revision = source.dataset, source.revision
            found = datasets.load_dataset(name, source.config, split=split, revision=revision)
    # The hub, the network and the loading script of a dataset raise errors of any kind.
    except Exception as raised:
        reason = " ".join(f"{type(raised).__name__}: {raised}".split())[:400]
        raise RowMistake("a dataset that can be read", reason) from None
    if isinstance(found, dict):  # DatasetDict is one
        found = _one_split(found, None if folder is None else split)
    rows = [Row(number, jsonable(values)) for number, values in enumerate(found, start=1)]
    return RowTable(tuple(map(str, found.column_names)), rows)


def _one_split(splits: Mapping[Any, Any], split: str | None) -> Any:
    if split is None and len(splits) == 1:
        (split,) = splits
    if split not in splits:
        expected = f"the name of one of the dataset's splits: {', '.join(map(str, splits))}"
        found = "none is named" if split is None else repr(split)
        raise RowMistake(expected, found, "add `split: ...`")
    return splits[split]

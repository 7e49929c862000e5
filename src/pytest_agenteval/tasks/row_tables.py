"""Reads tables whose rows become tasks: CSV, JSON, JSON Lines and datasets; lists the problems of rows."""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from pytest_agenteval.tasks.documents import STRICT_JSON, read_bytes, short_path
from pytest_agenteval.tasks.suite_spec import RowSource
from pytest_agenteval.tasks.validation import value_text
from pytest_agenteval.text.errors import Problem, ProblemsFound
from pytest_agenteval.text.json_values import jsonable

# How many rows with problems are listed one by one; further ones are only counted.
MOST_PROBLEMS = 20


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


SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")


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

    Raises ProblemsFound where the file is no text. Without rows, or with a wrong first line, the table has no
    row, and that is added as well.
    """
    text = _text(path, source.encoding)
    wrong = _BrokenRows(short_path(path), problems)
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        table = _read_csv(text, source.delimiter or _delimiter(text, suffix), wrong)
    else:
        rows = list(_json_list(text, wrong) if suffix == ".json" else _json_lines(text, wrong))
        # Rows of JSON may lack a key: the table has every column that any of them has.
        table = RowTable(tuple(dict.fromkeys(name for row in rows for name in row.values)), rows)
    if not table.rows and not wrong:
        wrong.add(1, "at least one row", "none")
    return table


class _BrokenRows:
    """What is wrong with the rows of one file."""

    def __init__(self, file: str, wrong: RowProblems) -> None:
        self._file, self._all, self._before = file, wrong, wrong.rows

    def __bool__(self) -> bool:
        return self._all.rows > self._before

    def add(self, line: int | None, expected: str, found: str, hint: str = "") -> None:
        self._all.add([Problem(self._file, line, (), expected, found, hint)])


def _text(path: Path, encoding: str) -> str:
    data = read_bytes(path)
    # Excel's "Unicode text" is UTF-16.
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        hint = "save the file as UTF-8, or say `rows: {file: ..., encoding: cp949}`"
        _refuse(path, line, f"a text in {encoding}", f"the byte 0x{data[error.start]:02x}", hint)
    # An unknown name, a codec that does not give text, or a zero byte in the name.
    except (LookupError, ValueError):
        _refuse(path, None, "the name of an encoding, as in cp949", repr(encoding))


def _refuse(path: Path, line: int | None, expected: str, found: str, hint: str = "") -> NoReturn:
    raise ProblemsFound([Problem(short_path(path), line, (), expected, found, hint)]) from None


def _delimiter(text: str, suffix: str) -> str:
    """Give the mark between cells: a comma, unless the first line has none and has semicolons or tabs."""
    if suffix == ".tsv":
        return "\t"
    first = text.partition("\n")[0]
    return "," if "," in first else next((mark for mark in ";\t" if mark in first), ",")


def _read_csv(text: str, delimiter: str, wrong: _BrokenRows) -> RowTable:
    # newline="": a line break within quotes is the cell's own.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    # The csv module refuses cells of more than 128 KiB, by a bound for the whole process, which is put back.
    longest = csv.field_size_limit(sys.maxsize)
    try:
        return _rows_of(_cells(reader, wrong), wrong)
    finally:
        csv.field_size_limit(longest)


def _cells(reader: Any, wrong: _BrokenRows) -> Iterator[tuple[int, list[str]]]:
    begins = 1
    try:
        for cells in reader:
            yield begins, cells
            # A cell in quotes may have several lines: the next row begins behind the last of them.
            begins = reader.line_num + 1
    except csv.Error as broken:
        reason, hint = str(broken), ""
        if "end of data" in reason:
            hint = "a cell that begins with a quote ends with one; within it a quote is written twice"
        elif "expected after" in reason:
            hint = "within a cell in quotes a quote is written twice"
        wrong.add(begins, "a table in CSV", reason, hint)


def _rows_of(lines: Iterable[tuple[int, list[str]]], wrong: _BrokenRows) -> RowTable:
    columns: tuple[str, ...] = ()
    rows: list[Row] = []
    for line, cells in lines:
        if not any(cells):  # a blank line, or one of nothing but delimiters
            continue
        if not columns:
            columns = tuple(cell.strip() for cell in cells)
            for at, name in enumerate(columns):
                if not name:
                    wrong.add(line, f"a name for column {at + 1}", "nothing")
                elif name in columns[:at]:
                    again = f"{name!r} a second time, in column {at + 1}"
                    wrong.add(line, "each column's name only once", again)
            if wrong:
                # Without right columns every row would be wrong as well.
                return RowTable(columns, ())
        elif len(cells) != len(columns):
            hint = "a text with a delimiter in it stands in quotes" if len(cells) > len(columns) else ""
            wrong.add(line, f"{len(columns)} cells, as the first line has", f"{len(cells)}", hint)
        else:
            rows.append(Row(line, dict(zip(columns, cells, strict=True))))
    return RowTable(columns, rows)


def _json_lines(text: str, wrong: _BrokenRows) -> Iterator[Row]:
    # Not splitlines: JSON's texts may hold what Unicode calls a line break.
    for line, written in enumerate(text.split("\n"), start=1):
        if written.strip():
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
    """Read a list element by element, so that each has its line."""
    at, line, counted = _next(text, 0), 1, 0
    if text[at : at + 1] != "[":
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            whole = text[:40]
        wrong.add(1, "a list of JSON objects", value_text(whole))
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
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


SCHEME = "hf://"


class DatasetProblem(Exception):
    """Why a dataset cannot be read: what is expected, what there is, and what to do."""

    def __init__(self, expected: str, found: str, hint: str = "") -> None:
        super().__init__(expected)
        self.expected, self.found, self.hint = expected, found, hint


class DatasetName(NamedTuple):
    """Which rows of which dataset; ``name`` is ``owner/name``, or the folder of a saved one."""

    name: str
    config: str | None = None
    split: str | None = None
    revision: str | None = None


def is_saved_dataset(path: Path) -> bool:
    """Whether a folder is what ``Dataset.save_to_disk`` writes."""
    names = ("dataset_info.json", "dataset_dict.json", "state.json")
    return path.is_dir() and any((path / name).is_file() for name in names)


def read_dataset(wanted: DatasetName, folder: Path | None) -> RowTable:
    """Read one split of a dataset, from its folder or by its name; rows are counted from 1.

    Raises DatasetProblem.
    """
    try:
        # Imported here: it is an extra that most projects do not install.
        import datasets
    except ImportError:
        raise DatasetProblem(
            "the package datasets, which reads Hugging Face's datasets",
            "it is not installed",
            "pip install 'pytest-agenteval[datasets]'",
        ) from None
    try:
        if folder is not None:
            every = datasets.load_from_disk(str(folder))
        else:
            every = datasets.load_dataset(
                wanted.name, wanted.config, split=wanted.split, revision=wanted.revision
            )
    # The hub, the network and the loading script of a dataset raise errors of any kind.
    except Exception as raised:
        found = " ".join(f"{type(raised).__name__}: {raised}".split())[:400]
        raise DatasetProblem("a dataset that can be read", found) from None
    return _table(_one_split(every, wanted.split if folder is not None else None))


def _one_split(every: Any, split: str | None) -> Any:
    if not isinstance(every, dict):  # DatasetDict is one
        return every
    names = ", ".join(map(str, every))
    if split is None and len(every) == 1:
        (split,) = every
    if split not in every:
        found = "none is named" if split is None else repr(split)
        raise DatasetProblem(f"the name of one of the dataset's splits: {names}", found, "say `split: ...`")
    return every[split]


def _table(dataset: Any) -> RowTable:
    rows = [Row(number, jsonable(values)) for number, values in enumerate(dataset, start=1)]
    return RowTable(tuple(map(str, dataset.column_names)), rows)

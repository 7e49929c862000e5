"""Makes tasks of rows: fills the template of a suite with the cells of each row."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import STRICT_JSON, ParsedDocument, short_path
from pytest_agenteval.tasks.row_tables import (
    SCHEME,
    SUFFIXES,
    Row,
    RowMistake,
    RowProblems,
    RowTable,
    is_saved_dataset,
    read_dataset,
    read_table,
)
from pytest_agenteval.tasks.suite_spec import TASK_KEYS, Rows, RowSource
from pytest_agenteval.tasks.validation import value_text
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean, nearest_names
from pytest_agenteval.text.json_values import (
    ABSENT,
    PathError,
    compact_json,
    parse_path,
    text_digest,
    value_at,
)

_COLUMN = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


class _Column(NamedTuple):
    """A column that a template names: the steps to its value in a row, and how the value is read."""

    steps: KeyPath
    reading: str

    def value(self, row: Mapping[str, Any]) -> Any:
        """Give the value for a row, None where it has none; raises RowMistake."""
        value, read = value_at(row, self.steps), READINGS.get(self.reading)
        value = None if value is ABSENT else value
        return value if read is None else read(value)


class RowTemplate:
    """A value of a suite file that is filled in with one row after another.

    Each of its ``problems`` has its path below the value, what is expected, what was found, and a hint.
    """

    def __init__(self, value: Any, columns: Sequence[str]) -> None:
        self.value, self._columns = value, columns
        self.problems: list[tuple[KeyPath, str, str, str]] = []
        # Each text with columns, parsed once: what stands around them, and the columns.
        self._parsed: dict[str, tuple[list[str], list[_Column]]] = {}
        for path, text in _texts(value, ()):
            pieces = _COLUMN.split(text)
            if len(pieces) > 1:
                self._parsed[text] = pieces[0::2], [self._column(name, path) for name in pieces[1::2]]

    def filled(self, row: Mapping[str, Any]) -> Any:
        """Give the value for a row; raises RowMistake.

        Where the row has no value, the key of the map or the place in the list is left out.
        """
        return self._fill(self.value, row)

    def _fill(self, value: Any, row: Mapping[str, Any]) -> Any:
        if isinstance(value, str):
            return self._fill_text(value, row)
        # A null that the template itself has stays; one that the row gives leaves its place out.
        if isinstance(value, Mapping):
            filled = ((key, self._fill(inner, row)) for key, inner in value.items())
            return {key: inner for key, inner in filled if inner is not ABSENT}
        if isinstance(value, list | tuple):
            return [inner for each in value if (inner := self._fill(each, row)) is not ABSENT]
        return value

    def _fill_text(self, text: str, row: Mapping[str, Any]) -> Any:
        if text not in self._parsed:
            return text
        around, columns = self._parsed[text]
        # A column that stands alone gives the value of the row itself, of whatever type.
        if len(columns) == 1 and not any(map(str.strip, around)):
            value = columns[0].value(row)
            return ABSENT if value is None else value
        cells = [cell_text(column.value(row)) for column in columns]
        return around[0] + "".join(map("".join, zip(cells, around[1:], strict=True)))

    def _column(self, written: str, path: KeyPath) -> _Column:
        name, bar, reading = (part.strip() for part in written.rpartition("|"))
        # The name of a column may itself have a bar.
        if not bar or written.strip() in self._columns:
            name, reading = written.strip(), ""
        steps: KeyPath = (name,)
        if name not in self._columns:
            with suppress(PathError):
                steps = parse_path(name)
        if steps[0] not in self._columns:
            known = f"a column: one of {nearest_names(name, self._columns)}"
            self.problems.append((path, known, repr(name), did_you_mean(name, self._columns)))
        if reading and reading not in READINGS:
            known, hint = f"one of {', '.join(READINGS)} behind |", did_you_mean(reading, READINGS)
            self.problems.append((path, known, repr(reading), hint))
        return _Column(steps, reading)


def has_columns(value: Any, path: KeyPath = ()) -> bool:
    """Whether a value, or the value at a path in it, differs from row to row."""
    for step in path:
        if isinstance(value, str):
            break
        try:
            value = value[step]
        except (LookupError, TypeError):
            break
    return any(_COLUMN.search(text) for _, text in _texts(value, ()))


def _texts(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Give each text in a value with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping | list | tuple):
        for step, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _texts(inner, (*path, step))


def cell_text(value: Any) -> str:
    """Write a row's value as text: nothing for no value, JSON for what is neither text nor number."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact_json(value)


def _number(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = value.strip() if isinstance(value, str) else ""
    # An empty cell is no value.
    if value == "":
        return None
    try:
        number = STRICT_JSON.decode(text)
    except (ValueError, RecursionError):
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise RowMistake("a number, as in 12 or 0.5", value_text(value))
    return number


def _json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return STRICT_JSON.decode(value)
    except RecursionError:
        found = "more levels than can be read"
    except ValueError as wrong:
        found = f"{value[:60]!r} ({wrong})"
    raise RowMistake("JSON", found)


def _list(value: Any) -> Any:
    if value is None or isinstance(value, list):
        return value
    return [part.strip() for part in cell_text(value).split(",") if part.strip()]


# What may follow a column's name, with the function that reads its text in this way.
READINGS: Mapping[str, Callable[[Any], Any]] = {"number": _number, "json": _json, "list": _list}


SPLITS = ("dev", "held_out")
_UNSAFE = re.compile(r"[\s/\\:\[\]\x00-\x1f\x7f\ud800-\udfff]+")  # halves of a character fit no file's name

# Keys of a task that have another name in the suite's file.
_KEYS: Mapping[KeyPath, KeyPath] = {
    ("metadata", "failure_bucket"): ("bucket",),
    ("input", "content"): ("input",),
}


class RowPlace(FrozenValue, frozen=True):
    """Where a row is: in a file, on a line. Of a dataset, which has no lines, ``file`` is None.

    ``at`` leads to the part of the suite's file that names the table. ``line`` is the number of the row in a
    dataset, from 1.
    """

    suite: ParsedDocument
    at: KeyPath
    template: Mapping[str, Any]
    source: str
    file: Path | None
    line: int

    def problem(self, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
        """Give the problem at a key of the task: on the row's line if the key differs from row to row."""
        if has_columns(self.template, path):
            return self.row_problem(path, expected, found, hint)
        return _in_suite(self.suite, (*self.at, *_KEYS.get(path, path)), expected, found, hint)

    def row_problem(self, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
        if self.file is not None:
            return Problem(short_path(self.file), self.line, path, expected, found, hint)
        return Problem(f"{self.source}, row {self.line}", None, path, expected, found, hint)


class RowTask(FrozenValue, frozen=True):
    """A row as the value of a task, as a task file would hold it, and where the row is."""

    value: dict[str, Any]
    place: RowPlace
    bucket: str


def row_tasks(
    tables: Sequence[Rows], document: ParsedDocument, at: Sequence[KeyPath], wrong: RowProblems
) -> Iterator[RowTask]:
    """Give a task's value for each chosen row that can be read; the problems of the others are added.

    ``at`` leads to each table in the suite's file. Tables are looked up from the folder of that file.
    """
    tasks: list[RowTask] = []
    for rows, place in zip(tables, at, strict=True):
        try:
            tasks += _tasks_of_table(rows, document, place, wrong)
        except ProblemsFound as found:
            wrong.add(found.problems)
    # From the second row of an id on, a number is put behind it, which makes no id that another row has.
    ids = {task.value["id"] for task in tasks}
    times: Counter[str] = Counter()
    for task in tasks:
        id = task.value["id"]
        times[id] += 1
        if times[id] == 1:
            yield task
            continue
        while (numbered := f"{id}-{times[id]}") in ids:
            times[id] += 1
        ids.add(numbered)
        yield RowTask({**task.value, "id": numbered}, task.place, task.bucket)


def _tasks_of_table(
    rows: Rows, document: ParsedDocument, at: KeyPath, wrong: RowProblems
) -> Iterator[RowTask]:
    before = wrong.rows
    table, name, file = _read_source(rows, document, at, wrong)
    if not table.rows and wrong.rows > before:
        return
    compiled = _compiled(rows, table, document, at)
    place = partial(RowPlace, document, at, compiled.value, name, file)
    wanted = {
        column: value if isinstance(value, list | tuple) else (value,) for column, value in rows.where.items()
    }
    meant = [row for row in table.rows if _is_meant(row, wanted)][: rows.limit]
    # Where rows could not be read, the chosen one may be among them.
    if not meant and wrong.rows == before:
        expected = f"at least one row of {name} for which this holds"
        raise ProblemsFound([_in_suite(document, (*at, "where"), expected, "none")])
    yield from _filled(meant, compiled, place, Path(name).stem, wrong)


def _is_meant(row: Row, wanted: Mapping[str, Sequence[Any]]) -> bool:
    """Whether each column has one of its wanted values."""
    for column, options in wanted.items():
        value = row.values.get(column)
        # In CSV a number is a text.
        if not any(value == option or cell_text(value) == cell_text(option) for option in options):
            return False
    return True


def _compiled(rows: Rows, table: RowTable, document: ParsedDocument, at: KeyPath) -> RowTemplate:
    """Make the template of a task; raises ProblemsFound where it names unknown columns."""
    compiled = RowTemplate(_template(rows, table.columns), table.columns)
    wrong = [_in_suite(document, (*at, *_KEYS.get(path, path)), *what) for path, *what in compiled.problems]
    for column in (column for column in rows.where if column not in table.columns):
        known = f"a column: one of {nearest_names(column, table.columns)}"
        hint = did_you_mean(column, table.columns)
        wrong.append(_in_suite(document, (*at, "where", column), known, repr(column), hint))
    if wrong:
        raise ProblemsFound(wrong)
    return compiled


def source_of(rows: Rows) -> RowSource:
    name = rows.rows
    if isinstance(name, RowSource):
        return name
    if name.startswith(SCHEME):
        return RowSource(dataset=name.removeprefix(SCHEME))
    return RowSource(file=name)


def _read_source(
    rows: Rows, document: ParsedDocument, at: KeyPath, wrong: RowProblems
) -> tuple[RowTable, str, Path | None]:
    """Give the table that a suite names, its name, and its file, if it is one; raises ProblemsFound."""
    source = source_of(rows)
    path = rows_path(source, document.path.parent)

    def problem(key: str, expected: str, found: str, hint: str = "") -> ProblemsFound:
        return ProblemsFound([_in_suite(document, (*at, key), expected, found, hint)])

    if (source.file is None) == (source.dataset is None):
        raise problem("rows", "either `file` or `dataset`", "both" if source.file else "neither")
    folder = path if is_saved_dataset(path) else None
    if source.dataset is not None or folder is not None:
        name = source.dataset or source.file or ""
        split = source.split or (rows.split if _split_is_of_dataset(rows) else None)
        try:
            table = read_dataset(source, split, folder)
        except RowMistake as broken:
            raise problem("rows", broken.expected, broken.found, broken.hint) from None
        return table, name if folder else f"{SCHEME}{name}", None
    if path is None or not path.is_file():
        expected = f"a file: {short_path(document.path.parent / (source.file or ''))}"
        raise problem("rows", expected, f"{source.file!r}, which is not there")
    if path.suffix.lower() not in SUFFIXES:
        raise problem("rows", f"a file that ends with {', '.join(SUFFIXES)}", repr(source.file))
    if _split_is_of_dataset(rows):
        raise problem("split", "dev or held_out: a file has no splits", repr(rows.split))
    return read_table(path, source, wrong), path.name, path


def _split_is_of_dataset(rows: Rows) -> bool:
    """Whether the split is one of the dataset: it is neither one of ours nor a column."""
    return rows.split is not None and rows.split not in SPLITS and not has_columns(rows.split)


def rows_path(source: RowSource, folder: Path) -> Path | None:
    """Give the file or folder that rows are read from, looked up from ``folder``; None if not there."""
    name = source.file or source.dataset
    path = Path(os.path.normpath(folder / name)) if name else None
    return path if path is not None and path.exists() else None


def _in_suite(document: ParsedDocument, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
    return Problem(short_path(document.path), document.line_of(path), path, expected, found, hint)


def _template(rows: Rows, columns: Sequence[str]) -> dict[str, Any]:
    task: dict[str, Any] = {}
    id = rows.id or ("id" if "id" in columns else None)
    if id is not None:
        task["id"] = _column(id, columns)
    task["input"] = {"content": _column(rows.input, columns)} if isinstance(rows.input, str) else rows.input
    task["graders"] = rows.graders
    task |= {key: value for key in TASK_KEYS if (value := getattr(rows, key)) is not None}
    if rows.split is not None and not _split_is_of_dataset(rows):
        task["split"] = rows.split
    if rows.bucket is not None:
        bucket = _column(rows.bucket, columns) if rows.bucket in columns else rows.bucket
        metadata = rows.metadata if isinstance(rows.metadata, Mapping) else {}
        task["metadata"] = {**metadata, "failure_bucket": bucket}
    return task


def _column(text: str, columns: Sequence[str]) -> str:
    """Make a template of the bare name of a column; a text with columns in it is one already."""
    return text if "{{" in text and text not in columns else "{{" + text + "}}"


def _filled(
    rows: Iterable[Row], template: RowTemplate, place: Any, bucket: str, wrong: RowProblems
) -> Iterator[RowTask]:
    for row in rows:
        where = place(row.line)
        try:
            value = template.filled(row.values)
            id = safe_id(value["id"]) if "id" in value else f"row_{row.line}"
            if not id:
                raise RowMistake("a text for the task's id", repr(value.get("id", "")))
        except RowMistake as cell:
            wrong.add([where.row_problem((), cell.expected, cell.found)])
            continue
        yield RowTask({**value, "id": id}, where, bucket)


def safe_id(value: Any) -> str:
    """Give an id that node ids and file names can hold: no blank, slash, colon or bracket, not too long."""
    text = _UNSAFE.sub("_", cell_text(value)).strip("_")
    # A longer id is cut, and a digest distinguishes it from others.
    return text if len(text) <= 80 else f"{text[:71]}-{text_digest(text)[:8]}"

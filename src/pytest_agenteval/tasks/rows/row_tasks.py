"""Rows filled into tasks: each with the place that its problems are told at."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import Document, short_path
from pytest_agenteval.tasks.rows.datasets import (
    SCHEME,
    DatasetName,
    DatasetProblem,
    is_saved_dataset,
    read_dataset,
)
from pytest_agenteval.tasks.rows.row_problems import RowProblems
from pytest_agenteval.tasks.rows.spec import TASK_KEYS, Rows, RowSource
from pytest_agenteval.tasks.rows.tables import SUFFIXES, Row, Table, read_table
from pytest_agenteval.tasks.rows.templates import Template, UnreadableCell, cell_text, has_columns
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean, nearest_names
from pytest_agenteval.text.json_values import text_digest

SPLITS = ("dev", "held_out")
LONGEST_ID = 80
_UNSAFE = re.compile(r"[\s/\\:\[\]\x00-\x1f\x7f\ud800-\udfff]+")  # halves of a character fit no file's name


class RowPlace(FrozenValue, frozen=True):
    """Where a row stands: in a file, on a line; of a dataset, which has no lines, ``file`` is None.

    ``at`` leads to what the suite's file makes of it. ``number`` counts the rows from 1.
    """

    suite: Document
    at: KeyPath
    template: Mapping[str, Any]
    source: str
    file: Path | None
    line: int

    def problem(self, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
        """Tell what is wrong at a key of the task: on the row's line where it differs from row to row."""
        written = _template_place(self.template, path)
        if has_columns(*written):
            return self.row_problem(path, expected, found, hint)
        place = (*self.at, *written[1])
        return Problem(short_path(self.suite.path), self.suite.line_of(place), place, expected, found, hint)

    def row_problem(self, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
        """Tell what is wrong with the row itself."""
        if self.file is not None:
            return Problem(short_path(self.file), self.line, path, expected, found, hint)
        return Problem(f"{self.source}, row {self.line}", None, path, expected, found, hint)


def _template_place(template: Mapping[str, Any], path: KeyPath) -> tuple[Any, KeyPath]:
    """Give where the suite's file says what stands at a key of a task, which has other keys for some."""
    if path[:2] == ("metadata", "failure_bucket"):
        return template, ("bucket",) if "bucket" in template else path
    return template, path


class RowTask(FrozenValue, frozen=True):
    """A row as the value of a task, as a task file would hold it, and where it stands."""

    value: dict[str, Any]
    place: RowPlace
    bucket: str


def row_tasks(
    tables: Sequence[Rows], document: Document, at: Sequence[KeyPath], wrong: RowProblems
) -> Iterator[RowTask]:
    """Give a task's value for each row that is meant and can be read; what is wrong with the rest is added.

    ``at`` leads to each table in the suite's file, from whose folder they are looked up.
    """
    tasks: list[RowTask] = []
    for rows, place in zip(tables, at, strict=True):
        try:
            tasks += _tasks_of_table(rows, document, place, wrong)
        except ProblemsFound as found:
            wrong.add(found.problems)
    yield from _with_unique_ids(tasks)


def _tasks_of_table(rows: Rows, document: Document, at: KeyPath, wrong: RowProblems) -> Iterator[RowTask]:
    before = wrong.rows
    tables = _Source(source_of(rows), rows.split, document, at)
    table, name, file = tables.read(wrong)
    if not table.rows and wrong.rows > before:
        return
    compiled = _compiled(rows, table, document, at, is_split=tables.split_is_datasets)
    place = partial(RowPlace, document, at, _as_written(rows), name, file)
    meant = [row for row in table.rows if _is_meant(row, rows.where)][: rows.limit]
    if not meant and wrong.rows == before:  # else the row that is meant may be one that cannot be read
        expected = f"at least one row of {name} for which this holds"
        raise ProblemsFound([_in_suite(document, (*at, "where"), expected, "none")])
    yield from _filled(meant, compiled, place, Path(name).stem, wrong)


def _compiled(rows: Rows, table: Table, document: Document, at: KeyPath, *, is_split: bool) -> Template:
    """Give the task that rows are filled into; raises ProblemsFound where it names unknown columns."""
    template = _template(rows, table.columns, is_split=is_split)
    compiled = Template(template, table.columns)
    wrong = [
        _in_suite(document, (*at, *_key_of(template, each.path)), *each[1:]) for each in compiled.problems
    ]
    wrong += _unknown_where(rows, table, document, at)
    if wrong:
        raise ProblemsFound(wrong)
    return compiled


def source_of(rows: Rows) -> RowSource:
    """Give where rows are read from."""
    name = rows.rows
    if isinstance(name, RowSource):
        return name
    if name.startswith(SCHEME):
        return RowSource(dataset=name.removeprefix(SCHEME))
    return RowSource(file=name)


class _Source:
    """The table that a suite names."""

    def __init__(self, source: RowSource, split: str | None, document: Document, at: KeyPath) -> None:
        self._source, self._document, self._at = source, document, at
        self._split = split
        self._path = rows_path(source, document.path.parent)
        self.split_is_datasets = split is not None and split not in SPLITS and not has_columns(split)

    def read(self, wrong: RowProblems) -> tuple[Table, str, Path | None]:
        """Give the table, its name, and its file, if it is one; raises ProblemsFound."""
        source, path = self._source, self._path
        if (source.file is None) == (source.dataset is None):
            found = "both" if source.file else "neither"
            raise ProblemsFound([self._problem("rows", "either `file` or `dataset`", found)])
        if source.dataset is not None or (path is not None and is_saved_dataset(path)):
            return self._dataset(path)
        if path is None or not path.is_file():
            raise ProblemsFound(
                [
                    self._problem(
                        "rows",
                        f"a file: {short_path(self._document.path.parent / (source.file or ''))}",
                        f"{source.file!r}, which is not there",
                    )
                ]
            )
        if path.suffix.lower() not in SUFFIXES:
            expected = f"a file that ends with {', '.join(SUFFIXES)}"
            raise ProblemsFound([self._problem("rows", expected, repr(source.file))])
        if self.split_is_datasets:
            raise ProblemsFound(
                [self._problem("split", "dev or held_out: a file has no splits", repr(self._split))]
            )
        return read_table(path, source, wrong), path.name, path

    def _dataset(self, path: Path | None) -> tuple[Table, str, Path | None]:
        source = self._source
        name = source.dataset or source.file or ""
        split = source.split or (self._split if self.split_is_datasets else None)
        folder = path if path is not None and is_saved_dataset(path) else None
        try:
            table = read_dataset(DatasetName(name, source.config, split, source.revision), folder)
        except DatasetProblem as wrong:
            raise ProblemsFound([self._problem("rows", wrong.expected, wrong.found, wrong.hint)]) from None
        return table, name if folder else f"{SCHEME}{name}", None

    def _problem(self, key: str, expected: str, found: str, hint: str = "") -> Problem:
        return _in_suite(self._document, (*self._at, key), expected, found, hint)


def rows_path(source: RowSource, folder: Path) -> Path | None:
    """Give the file or folder that rows are read from, from the suite's folder, if it is there."""
    name = source.file or source.dataset
    path = Path(os.path.normpath(folder / name)) if name else None
    return path if path is not None and path.exists() else None


def _in_suite(document: Document, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
    return Problem(short_path(document.path), document.line_of(path), path, expected, found, hint)


def _template(rows: Rows, columns: Sequence[str], *, is_split: bool) -> dict[str, Any]:
    """Give the task that rows are filled into; a column's bare name is that column."""
    task: dict[str, Any] = {}
    id = rows.id or ("id" if "id" in columns else None)
    if id is not None:
        task["id"] = _column(id, columns)
    task["input"] = {"content": _column(rows.input, columns)} if isinstance(rows.input, str) else rows.input
    task["graders"] = rows.graders
    task |= {key: value for key in TASK_KEYS if (value := getattr(rows, key)) is not None}
    if rows.split is not None and not is_split:
        task["split"] = rows.split
    if rows.bucket is not None:
        bare = rows.bucket in columns
        bucket = _column(rows.bucket, columns) if bare else rows.bucket
        metadata = rows.metadata if isinstance(rows.metadata, Mapping) else {}
        task["metadata"] = {**metadata, "failure_bucket": bucket}
    return task


def _column(text: str, columns: Sequence[str]) -> str:
    """Give the template of a column's bare name; a text with columns in it is one already."""
    return text if "{{" in text and text not in columns else "{{" + text + "}}"


def _key_of(template: Mapping[str, Any], path: KeyPath) -> KeyPath:
    """Give the key of the suite's file behind a key of the task."""
    if path == ("metadata", "failure_bucket"):
        return ("bucket",)
    return ("input",) if path == ("input", "content") else path


def _as_written(rows: Rows) -> Mapping[str, Any]:
    """Give what the suite's file says of the rows, columns' bare names in braces."""
    names = ("id", "bucket", "split", "input")
    bare = {name: "{{column}}" for name in names if isinstance(getattr(rows, name), str) and name != "split"}
    written = {name: value for name in (*names, "graders", *TASK_KEYS) if (value := getattr(rows, name))}
    return {**written, **bare, "id": "{{column}}"}


def _unknown_where(rows: Rows, table: Table, document: Document, at: KeyPath) -> Iterator[Problem]:
    for column in rows.where:
        if column not in table.columns:
            known = f"a column: one of {nearest_names(column, table.columns)}"
            hint = did_you_mean(column, table.columns)
            yield _in_suite(document, (*at, "where", column), known, repr(column), hint)


def _is_meant(row: Row, where: Mapping[str, Any]) -> bool:
    return all(_is_one_of(row.values.get(column), value) for column, value in where.items())


def _is_one_of(value: Any, meant: Any) -> bool:
    """Whether a row's value is the one that is meant, or one of a list; a number in CSV is a text."""
    options = meant if isinstance(meant, list | tuple) else (meant,)
    return any(value == option or cell_text(value) == cell_text(option) for option in options)


def _filled(
    rows: Iterable[Row], template: Template, place: Any, bucket: str, wrong: RowProblems
) -> Iterator[RowTask]:
    for row in rows:
        where = place(row.line)
        try:
            value = template.filled(row.values)
            id = safe_id(value["id"]) if "id" in value else f"row_{row.line}"
            if not id:
                raise UnreadableCell("a text for the task's id", repr(value.get("id", "")))
        except UnreadableCell as cell:
            wrong.add([where.row_problem((), cell.expected, cell.found)])
            continue
        yield RowTask({**value, "id": id}, where, bucket)


def safe_id(value: Any) -> str:
    """Give an id that node ids and files can bear: no blank, slash, colon or bracket, not too long."""
    text = _UNSAFE.sub("_", cell_text(value)).strip("_")
    return text if len(text) <= LONGEST_ID else f"{text[: LONGEST_ID - 9]}-{text_digest(text)[:8]}"


def _with_unique_ids(tasks: Sequence[RowTask]) -> Iterator[RowTask]:
    """Give rows of one id a number behind it, from the second on."""
    own = {task.value["id"] for task in tasks}
    times: Counter[str] = Counter()
    for task in tasks:
        id = task.value["id"]
        times[id] += 1
        if times[id] == 1:
            yield task
            continue
        while (numbered := f"{id}-{times[id]}") in own:
            times[id] += 1
        own.add(numbered)
        yield RowTask({**task.value, "id": numbered}, task.place, task.bucket)

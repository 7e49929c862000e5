"""Rows of runs as CSV (RFC 4180) and Parquet: a file is written whole or not at all, and holds no secret."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.store.record_files import replacing
from pytest_agenteval.store.rows import Column, Row, RowContext, RowKind, row_kind
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.json_values import compact_json
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pyarrow import RecordBatch, RecordBatchReader, Schema


OneRun = TypeVar("OneRun", bound=RowContext)


@contextmanager
def export_file(path: Path) -> Iterator[Path]:
    """Give a place to write to, which becomes the file when all is written; what was there stays until then.

    Raises UsageMistake where the file cannot be written.
    """
    path = path.resolve()
    try:
        if path.exists() and not path.is_file():  # a pipe, or the terminal: there is nothing to replace
            yield path
        else:
            with replacing(path) as beside:
                yield beside
    except OSError as refused:
        raise UsageMistake(f"{path}: cannot be written ({refused.strerror or refused})") from None


def distinct_runs(runs: Iterable[OneRun]) -> Iterator[OneRun]:
    """Give runs one after the other, each once; raises UsageMistake for two that share a name.

    Rows say by their run's name whose they are.
    """
    folders: dict[str, Path] = {}
    for run in runs:
        other = folders.get(run.name)
        if other is None:
            folders[run.name] = run.folder
            yield run
        elif other.resolve() != run.folder.resolve():
            where = f"{other} and {run.folder}"
            raise UsageMistake(f"two runs are called {run.name}, {where}: their rows could not be told apart")


def clean_rows(kind: RowKind, runs: Iterable[RowContext]) -> Iterator[Row]:
    """Give rows without what is known to be secret now: runs may be older than what is known."""
    for row in kind.rows(distinct_runs(runs)):
        # One look at the whole row, not one at each cell: it is a fifth of the time.
        texts = (cell if isinstance(cell, list) else [cell] for cell in row if isinstance(cell, str | list))
        dirty = KNOWN_SECRETS.dirty("\n".join(chain.from_iterable(texts)))
        yield tuple(map(KNOWN_SECRETS.value, row)) if dirty else row


# What spreadsheets take for the beginning of a formula (OWASP, "CSV Injection"), in full width too. A text
# that has apostrophes before it gets one more: whoever takes one away has the text again, whatever it was.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")


def write_csv(path: Path, source: ReportSource) -> None:
    """Write the rows of all runs, of the kind that is asked for, below one line with their columns' names.

    No value is an empty cell, true and false are words, times are ISO 8601 in UTC, lists are JSON. A text at
    which a spreadsheet would begin to calculate has an apostrophe before it. Raises UsageMistake where the
    file cannot be written, and for rows that there are not.
    """
    kind = row_kind(source.rows)
    with export_file(path) as place, place.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow([column.name for column in kind.columns])
        for row in clean_rows(kind, source.all_runs):
            lines.writerow(map(_cell, kind.columns, row))


def _cell(column: Column, value: Any) -> Any:
    if value is None:
        return ""
    if column.type == "text":
        return spreadsheet_text(value)
    if column.type == "flag":
        return "true" if value else "false"
    if column.type == "texts":
        return compact_json(value)
    return value.isoformat() if isinstance(value, datetime) else value


def spreadsheet_text(text: str) -> str:
    """Give a text so that spreadsheets show it and do not calculate: with an apostrophe where one is due."""
    text = text.replace("\0", "\\x00")  # at which many readers take a text for ended
    return f"'{text}" if _FORMULA.match(text) else text


MOST_ROWS = 20_000
MOST_CHARACTERS = 8_000_000
"""Of texts in one batch: a run's transcripts are larger than what a batch may hold in memory."""


def write_parquet(path: Path, source: ReportSource) -> None:
    """Write the rows of all runs, of the kind that is asked for, with their types also where there are none.

    Raises UsageMistake where pyarrow is not installed, where the file cannot be written, and for rows that
    there are not.
    """
    kind = row_kind(source.rows)
    schema = _schema(kind, "a Parquet file", "parquet")
    from pyarrow import parquet

    with (
        export_file(path) as place,
        place.open("wb") as file,  # whose error says why in words, where pyarrow's has a sentence of its own
        parquet.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        for batch in _batches(schema, clean_rows(kind, source.all_runs)):
            writer.write_batch(batch)


def arrow_rows(kind: RowKind, runs: Iterable[Run]) -> RecordBatchReader:
    """Give the rows of runs batch by batch, to be read once; raises UsageMistake without pyarrow."""
    schema = _schema(kind, "SQL", "sql")
    from pyarrow import RecordBatchReader

    return RecordBatchReader.from_batches(schema, _batches(schema, kind.rows(runs)))


def _schema(kind: RowKind, what: str, extra: str) -> Schema:
    try:
        import pyarrow
    except ImportError as missing:
        raise UsageMistake(
            f"{what} needs pyarrow ({missing}): pip install 'pytest-agenteval[{extra}]'"
        ) from missing
    types: dict[str, Any] = {
        "text": pyarrow.string(),
        "texts": pyarrow.list_(pyarrow.string()),
        "json": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "flag": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
    }
    fields = [
        pyarrow.field(column.name, types[column.type], metadata={"meaning": column.meaning})
        for column in kind.columns
    ]
    return pyarrow.schema(fields)


def _batches(schema: Schema, rows: Iterable[Row]) -> Iterator[RecordBatch]:
    from pyarrow import RecordBatch, array

    for batch in _parts(rows):
        cells = zip(*batch, strict=True)
        yield RecordBatch.from_arrays(
            [array(values, field.type) for values, field in zip(cells, schema, strict=True)], schema=schema
        )


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Give as many rows at a time as a batch may hold."""
    part: list[Row] = []
    characters = 0
    for row in rows:
        part.append(row)
        characters += sum([len(cell) for cell in row if isinstance(cell, str)])
        if len(part) == MOST_ROWS or characters > MOST_CHARACTERS:
            yield part
            part, characters = [], 0
    if part:
        yield part

"""Rows as Parquet, and as the batches of Apache Arrow that other libraries take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.reports.exports.export_files import clean_rows, export_file
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.store.rows.row_kinds import Row, RowKind, row_kind
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    from pyarrow import RecordBatch, RecordBatchReader, Schema

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

"""Rows of runs as CSV (RFC 4180) and Parquet, and answers to SQL over them.

A file is written whole or not at all, and holds no secret. The database of a query can reach nothing else.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import StringIO
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pytest_agenteval.processes.files import replacing
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.store.rows import ROW_KINDS, Column, Row, RowContext, RowKind, arrow_rows, row_kind
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake, writing
from pytest_agenteval.text.formatting import NOT_KNOWN, StyledLine, cell_width, cut, one_line, pad, pluralize
from pytest_agenteval.text.json_values import compact_json, jsonable
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Database


@contextmanager
def export_file(path: Path) -> Iterator[Path]:
    """Give a path to write to, which replaces the file once everything is written.

    Raises UsageMistake where the file cannot be written.
    """
    # Resolved, so that a link stays and the file that it leads to is replaced.
    path = path.resolve()
    with writing(path):
        # A pipe or a terminal is written to as it is: there is nothing to replace.
        if path.exists() and not path.is_file():
            yield path
        else:
            with replacing(path) as beside:
                yield beside


def _clean_rows(kind: RowKind, runs: Iterable[RowContext]) -> Iterator[Row]:
    """Give rows without the secrets that are known now, of which some may be newer than the run."""
    for row in kind.rows(runs):
        # One look at the whole row, not one at each cell: it is a fifth of the time.
        texts = (cell if isinstance(cell, list) else [cell] for cell in row if isinstance(cell, str | list))
        dirty = KNOWN_SECRETS.dirty("\n".join(chain.from_iterable(texts)))
        yield tuple(map(KNOWN_SECRETS.value, row)) if dirty else row


# What spreadsheets take for the beginning of a formula (OWASP, "CSV Injection"), in full width too. A text
# that has apostrophes before it gets one more: whoever takes one away has the text again, whatever it was.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")


def write_csv(path: Path, source: ReportSource) -> None:
    """Write the rows of all runs, of the source's kind, below one line with the names of their columns.

    A missing value is an empty cell, true and false are words, times are ISO 8601 in UTC, lists are JSON. A
    text that a spreadsheet would take for a formula has an apostrophe before it. Raises UsageMistake where
    the file cannot be written, and for an unknown kind of rows.
    """
    kind = row_kind(source.rows)
    with export_file(path) as place, place.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow([column.name for column in kind.columns])
        for row in _clean_rows(kind, source.all_runs):
            lines.writerow(map(_cell, kind.columns, row))


def _cell(column: Column, value: Any) -> Any:
    if value is None:
        return ""
    if column.type == "text":
        return _spreadsheet_text(value)
    if column.type == "flag":
        return "true" if value else "false"
    if column.type == "texts":
        return compact_json(value)
    return value.isoformat() if isinstance(value, datetime) else value


def _spreadsheet_text(text: str) -> str:
    """Give a text with an apostrophe before it where a spreadsheet would calculate in place of showing it."""
    # Many readers of CSV end a text at a NUL.
    text = text.replace("\0", "\\x00")
    return f"'{text}" if _FORMULA.match(text) else text


def write_parquet(path: Path, source: ReportSource) -> None:
    """Write the rows of all runs, of the source's kind; a file without rows has their types all the same.

    Raises UsageMistake where pyarrow is not installed, where the file cannot be written, and for an unknown
    kind of rows.
    """
    kind = row_kind(source.rows)
    rows = arrow_rows(kind, _clean_rows(kind, source.all_runs), "a Parquet file", "parquet")
    from pyarrow import parquet

    # Opened here: Python's error gives the reason in a few words, where pyarrow's is a sentence of its own.
    with (
        export_file(path) as place,
        place.open("wb") as file,
        parquet.ParquetWriter(file, rows.schema, compression="zstd") as writer,
    ):
        for batch in rows:
            writer.write_batch(batch)


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
    # SQL's sum of whole numbers is a decimal, among others.
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    # An interval in Arrow's form; a month has no fixed number of days, so months stay months.
    if hasattr(value, "nanoseconds"):
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
    rows = (dict(zip(result.columns, row, strict=True)) for row in result.rows)
    return QueryDocument(columns=result.columns, rows=tuple(rows))


def result_csv(result: QueryResult) -> str:
    """Give CSV as ``write_csv`` writes it, with all digits."""
    text = StringIO(newline="")
    lines = csv.writer(text)
    lines.writerow(map(_spreadsheet_text, result.columns))
    lines.writerows([map(_csv_cell, row) for row in result.rows])
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, str):
        return _spreadsheet_text(value)
    return compact_json(value) if isinstance(value, bool | list | dict) else value


def result_lines(result: QueryResult, width: int | None) -> Iterator[StyledLine]:
    """Give an aligned table: figures to the right with four digits, texts to the left and on one line.

    Texts are cut where there is no room in ``width`` columns; with None nothing is cut.
    """
    rows = [list(map(_result_cell, row)) for row in result.rows]
    table = [[one_line(name, MOST_CELL) for name in result.columns], *rows]
    figures = []
    for at in range(len(result.columns)):
        present = [row[at] for row in result.rows if row[at] is not None]
        figures.append(bool(present) and all(isinstance(value, int | float) for value in present))
    widths = [max(map(cell_width, column)) for column in zip(*table, strict=True)]
    if width is not None:
        # The widest text gives way again and again, until all has room or no text can give way.
        while sum(widths) + GAP * (len(widths) - 1) > width:
            texts = [at for at, figure in enumerate(figures) if not figure and widths[at] > NARROWEST_CELL]
            if not texts:
                break
            widths[max(texts, key=widths.__getitem__)] -= 1
    lines = []
    for row in table:
        cells = zip(row, widths, figures, strict=True)
        lines.append((" " * GAP).join(pad(cut(cell, width), width, right) for cell, width, right in cells))
    head, *body = map(str.rstrip, lines)
    yield StyledLine(head, "dim")
    yield from map(StyledLine, body)
    yield StyledLine(pluralize(len(rows), "row"), "dim")


def _result_cell(value: Any) -> str:
    if value is None:
        return NOT_KNOWN
    if isinstance(value, float):
        return f"{value:.4g}" if 0 < abs(value) < 0.001 else f"{value:.4f}"
    return one_line(value if isinstance(value, str) else compact_json(value), MOST_CELL)


_TASK = ("run", "suite", "bucket", "task", "agent", "model", "variant")
TASK_COLUMNS: Mapping[str, tuple[str, str]] = {
    **{name: (name, "as of trials") for name in _TASK},
    "kind": ("any_value(kind)", "as of trials"),
    "file": ("any_value(file)", "as of trials"),
    "tags": ("any_value(tags)", "as of trials"),
    "trial_count": ("count(*)", "trials"),
    "decided": ("count(score)", "with a score"),
    "passed_count": ("count(*) filter (passed)", "that passed"),
    "errored_count": ("count(*) filter (ending = 'errored')", "that errored"),
    "score": ("avg(score)", "mean of its trials; missing without any"),
    "worst": ("min(score)", "lowest score"),
    "best": ("max(score)", "highest score"),
    "all_tokens": (
        "case when count(all_tokens) = count(*) then sum(all_tokens)::bigint end",
        "sum over its trials; missing if any is unknown",
    ),
    "all_cost_usd": (
        "case when count(all_cost_usd) = count(*) then sum(all_cost_usd) end",
        "sum over its trials; missing if any is unknown",
    ),
    "all_seconds": (
        "case when count(all_seconds) = count(*) then sum(all_seconds) end",
        "sum over its trials; missing if any is unknown",
    ),
}
"""The view of tasks over trials: how each column is reckoned, and what it is.

The mean of tasks' scores is the score of a bucket or a suite, as reports have it.
"""

_SETTINGS = (
    "set timezone = 'UTC'",
    "set enable_progress_bar = false",
    "set enable_external_access = false",  # no file, no network, no other database, no extension
    "set autoinstall_known_extensions = false",
    "set autoload_known_extensions = false",
    "set python_enable_replacements = false",  # no variable of ours as a table
    "set lock_configuration = true",  # and no query takes any of it back
)
_READING = ("SELECT", "MULTI")
"""Kinds of statements that give rows and change none; pivot is made of several."""
MOST_ERROR, MOST_QUERY = 1000, 80


def query_runs(query: str, runs: Iterable[Run]) -> QueryResult:
    """Run one query over the tables ``runs``, ``trials``, ``grades``, ``calls`` and ``messages``.

    One run is in memory at a time. Raises UsageMistake for a query that DuckDB refuses, in its words, and
    where duckdb or pyarrow is not installed.
    """
    with _database() as database:
        import duckdb

        try:
            # A query is refused before any run is read.
            statements = database.extract_statements(query)
            if len(statements) != 1:
                raise UsageMistake(f"expected one query; found {len(statements)}")
            if statements[0].type.name not in _READING:
                found = one_line(query, MOST_QUERY)
                raise UsageMistake(f"expected a query that reads, as select does; found {found!r}")
            database.sql(query)
            words = set(re.findall(r"\w+", query.lower()))
            if "tasks" in words:
                words.add("trials")
            # Only tables that the query names are filled: calls and messages make it wait for transcripts. A
            # name that stands in the query as something else does no harm.
            tables = [kind for kind in ROW_KINDS.values() if kind.name in words]
            database.begin()
            for run in runs:
                for kind in tables:
                    rows = arrow_rows(kind, kind.rows([run]), "SQL", "sql")
                    database.register("rows_of_a_run", rows)
                    database.execute(f"insert into {kind.name} select * from rows_of_a_run")
                    database.unregister("rows_of_a_run")
            database.commit()
            # By way of Arrow: DuckDB's own way to Python needs pytz for times.
            table = database.sql(query).to_arrow_table()
            columns = [list(map(json_value, column.to_pylist())) for column in table.columns]
            return QueryResult(tuple(_unique_names(table.column_names)), tuple(zip(*columns, strict=True)))
        except duckdb.Error as refused:
            # DuckDB shows the query below its message, which whoever typed it has before their eyes.
            message = re.split(r"\n+LINE \d+:", str(refused), maxsplit=1)[0]
            raise UsageMistake(one_line(message, MOST_ERROR)) from None


@contextmanager
def _database() -> Iterator[Database]:
    """Give a database with empty tables in a temporary file, as memory may not hold the rows."""
    try:
        import duckdb
    except ImportError as missing:
        raise UsageMistake(f"SQL needs duckdb ({missing}): pip install 'pytest-agenteval[sql]'") from missing
    with (
        TemporaryDirectory(prefix="agenteval-sql-") as folder,
        duckdb.connect(Path(folder) / "rows.duckdb") as database,
    ):
        for setting in _SETTINGS:
            database.execute(setting)
        for kind in ROW_KINDS.values():
            database.register("no_rows", arrow_rows(kind, (), "SQL", "sql"))
            database.execute(f"create table {kind.name} as select * from no_rows")
            database.unregister("no_rows")
        tasks = ", ".join(f"{value} as {name}" for name, (value, _) in TASK_COLUMNS.items())
        database.execute(f"create view tasks as select {tasks} from trials group by {', '.join(_TASK)}")
        yield database


def _unique_names(names: Iterable[str]) -> Iterator[str]:
    """Number columns that share a name: ``run`` and ``run_2``."""
    # A JSON object would hold only the last of two columns with one name.
    unique: set[str] = set()
    for name in names:
        candidates = (name if number == 1 else f"{name}_{number}" for number in count(1))
        unique.add(own := next(each for each in candidates if each not in unique))
        yield own

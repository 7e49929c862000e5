"""SQL over the rows of stored runs, in a database of its own that can reach nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pytest_agenteval.reports.exports.export_files import distinct_runs
from pytest_agenteval.reports.exports.parquet_file import arrow_rows
from pytest_agenteval.reports.exports.query_result import QueryResult, json_value
from pytest_agenteval.store.rows.columns import ColumnType
from pytest_agenteval.store.rows.row_kinds import ROW_KINDS, RowKind
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Database

_TASK = ("run", "suite", "bucket", "task", "agent", "model", "variant")
TASK_COLUMNS: Mapping[str, tuple[str, str]] = {
    **{name: (name, "as of trials") for name in _TASK},
    "kind": ("any_value(kind)", "as of trials"),
    "file": ("any_value(file)", "as of trials"),
    "tags": ("any_value(tags)", "as of trials"),
    "trial_count": ("count(*)", "how many trials it has"),
    "decided": ("count(score)", "how many of them have a score"),
    "passed_count": ("count(*) filter (passed)", "how many passed"),
    "errored_count": ("count(*) filter (ending = 'errored')", "how many errored"),
    "score": ("avg(score)", "the mean of its trials' scores; missing where none has one"),
    "worst": ("min(score)", "the lowest of them"),
    "best": ("max(score)", "the highest"),
    "all_tokens": (
        "case when count(all_tokens) = count(*) then sum(all_tokens)::bigint end",
        "what all its trials took; none where a part of it is unknown",
    ),
    "all_cost_usd": ("case when count(all_cost_usd) = count(*) then sum(all_cost_usd) end", "likewise"),
    "all_seconds": ("case when count(all_seconds) = count(*) then sum(all_seconds) end", "likewise"),
}
"""The view of tasks over trials: how each column is reckoned, and what it is.

The mean of tasks' scores is the score of a bucket or a suite, as reports have it.
"""

_TYPES: Mapping[ColumnType, str] = {
    "text": "varchar",
    "texts": "varchar[]",
    "json": "varchar",
    "integer": "bigint",
    "number": "double",
    "flag": "boolean",
    "time": "timestamptz",
}

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
    """Ask one query of the tables ``runs``, ``trials``, ``grades``, ``calls`` and ``messages``.

    Only tables that the query names are filled, so that only those who ask for calls or messages wait for
    transcripts; one run is in memory at a time. Raises UsageMistake for a query that DuckDB refuses, in its
    words, and where duckdb or pyarrow is not installed.
    """
    with _database() as database:
        import duckdb

        try:
            _check(database, query)
            _fill(database, _kinds_in(query), runs)
            return _result(database, query)
        except duckdb.Error as refused:
            raise UsageMistake(_in_one_line(refused)) from None


@contextmanager
def _database() -> Iterator[Database]:
    """Give a database with empty tables, in a file that is gone afterwards: memory may not hold them."""
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
            columns = ", ".join(f"{column.name} {_TYPES[column.type]}" for column in kind.columns)
            database.execute(f"create table {kind.name} ({columns})")
        tasks = ", ".join(f"{value} as {name}" for name, (value, _) in TASK_COLUMNS.items())
        database.execute(f"create view tasks as select {tasks} from trials group by {', '.join(_TASK)}")
        yield database


def _check(database: Database, query: str) -> None:
    """Refuse what is not one query, and one that names what there is not: before any run is read."""
    statements = database.extract_statements(query)
    if len(statements) != 1:
        raise UsageMistake(f"expected one query; found {len(statements)}")
    if statements[0].type.name not in _READING:
        raise UsageMistake(
            f"expected a query that reads, as select does; found {one_line(query, MOST_QUERY)!r}"
        )
    database.sql(query)


def _kinds_in(query: str) -> list[RowKind]:
    """Give the kinds of rows whose names stand in a query, be it as something else: then they do no harm."""
    words = set(re.findall(r"\w+", query.lower()))
    if "tasks" in words:
        words.add("trials")
    return [kind for kind in ROW_KINDS.values() if kind.name in words]


def _fill(database: Database, kinds: Iterable[RowKind], runs: Iterable[Run]) -> None:
    tables = list(kinds)
    database.begin()
    for run in distinct_runs(runs):
        for kind in tables:
            database.register("rows_of_a_run", arrow_rows(kind, [run]))
            database.execute(f"insert into {kind.name} select * from rows_of_a_run")
            database.unregister("rows_of_a_run")
    database.commit()


def _result(database: Database, query: str) -> QueryResult:
    table = database.sql(query).to_arrow_table()  # DuckDB's own way to Python needs pytz for times
    try:
        columns = [list(map(json_value, column.to_pylist())) for column in table.columns]
    except OverflowError as late:  # Python knows no year 10000, and no infinity among times
        raise UsageMistake(
            "a time outside of the years 1 to 9999: write it as text, as in t::varchar"
        ) from late
    return QueryResult(tuple(_unique_names(table.column_names)), tuple(zip(*columns, strict=True)))


def _unique_names(names: Iterable[str]) -> Iterator[str]:
    """Number columns of one name, ``run`` and ``run_2``: a JSON object would hold the last alone."""
    unique: set[str] = set()
    for name in names:
        candidates = (name if number == 1 else f"{name}_{number}" for number in count(1))
        unique.add(own := next(each for each in candidates if each not in unique))
        yield own


def _in_one_line(refused: Exception) -> str:
    """Give DuckDB's message without the query below it, which whoever typed it can see."""
    message = re.split(r"\n+LINE \d+:", str(refused), maxsplit=1)[0]
    return one_line(message, MOST_ERROR)

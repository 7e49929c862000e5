"""Rows as files: what was written is what pandas, csv and pyarrow read.

They are imported by the tests that need them: every worker collects this file, and one of them runs it.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_agenteval import Run, UsageMistake
from pytest_agenteval.records.transcript import Message, Transcript
from pytest_agenteval.reports.exports.row_files import write_csv, write_parquet
from pytest_agenteval.reports.report_source import ReportSource, report_source
from pytest_agenteval.store.rows import ROW_KINDS
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from tests.reports.runs import store_run
from tests.store.samples import FULL, trial

Write = Callable[[Path, ReportSource], None]

WRITERS = pytest.mark.parametrize("write", [write_csv, write_parquet])
ROWS = pytest.mark.parametrize("rows", list(ROW_KINDS))
HOSTILE = (
    "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "'=1", "''-x", "'plain", "plain=1", " =1",
    'say "hi", she said;\r\nand left\r', "Hangul 미나 🎂", "NUL \x00 within",
)  # fmt: skip
APOSTROPHE = re.compile("^'(?='*[=+\\-@\t\r\n＝＋－＠])")
"""What docs/reference/data.md tells readers to take away."""


def of(runs: Sequence[Run], rows: str = "trials") -> ReportSource:
    """Say what is to be written."""
    return replace(report_source(runs), rows=rows)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Two runs, the second with texts on which a spreadsheet would act."""
    said = Transcript(tuple(Message("user", text) for text in HOSTILE))
    root = tmp_path_factory.mktemp("runs")
    errored = trial("t2", ending="errored", score=None, grades=(), cause="provider")
    return [store_run(root, [FULL, errored]), store_run(root, [trial("=t", transcript=said)])]


@ROWS
def test_csv_reads_what_was_written(runs: list[Run], tmp_path: Path, rows: str) -> None:
    """Every text is again what it was, when the apostrophe before what looks like a formula is taken away."""
    write_csv(tmp_path / "o.csv", of(runs, rows))

    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    expected = [row for run in runs for row in run.rows(rows)]
    texts = [column.name for column in ROW_KINDS[rows].columns if column.type == "text"]
    assert [[APOSTROPHE.sub("", row[name]) for name in texts] for row in cells] == [
        [(row[name] or "").replace("\0", "\\x00") for name in texts] for row in expected
    ]
    assert all(not cell.startswith(tuple("=+@\t\r\n＝")) for row in cells for cell in row.values())


def test_pandas_reads_a_csv_with_its_types(runs: list[Run], tmp_path: Path) -> None:
    """Figures are figures, true and false are flags, times have their zone, lists are JSON."""
    import pandas

    write_csv(tmp_path / "o.csv", of(runs, "trials"))

    frame = pandas.read_csv(tmp_path / "o.csv", parse_dates=["started_at"])
    whole = pandas.concat([run.to_pandas() for run in runs], ignore_index=True)
    for name in ("score", "seconds", "repetition", "input_tokens", "cost_usd"):
        pandas.testing.assert_series_equal(frame[name], whole[name], check_dtype=False)
    assert frame["passed"].astype("boolean").tolist() == whole["passed"].tolist()
    assert frame["started_at"].tolist() == whole["started_at"].tolist()
    assert [json.loads(tags) for tags in frame["tags"]] == whole["tags"].tolist()


def test_pandas_reads_texts_of_many_lines(runs: list[Run], tmp_path: Path) -> None:
    """Newlines, quotes and commas stay within their cell."""
    import pandas

    write_csv(tmp_path / "o.csv", of(runs, "messages"))

    frame = pandas.read_csv(tmp_path / "o.csv", keep_default_na=False)
    said = [APOSTROPHE.sub("", text) for text in frame["content"]]
    whole = [row["content"].replace("\0", "\\x00") for run in runs for row in run.rows("messages")]
    assert said == whole


@ROWS
def test_parquet_reads_what_was_written(runs: list[Run], tmp_path: Path, rows: str) -> None:
    """By pyarrow and pandas, with the types of `to_arrow`, and each column's meaning beside it."""
    import pandas
    import pyarrow.parquet

    write_parquet(tmp_path / "o.parquet", of(runs, rows))

    table = pyarrow.parquet.read_table(tmp_path / "o.parquet")
    assert table.to_pylist() == [row for run in runs for row in run.rows(rows)]
    assert table.schema.equals(runs[0].to_arrow(rows).schema)
    assert len(pandas.read_parquet(tmp_path / "o.parquet")) == table.num_rows
    assert table.schema.field("run").metadata == {b"meaning": b"the run's name, as in `agenteval runs`"}


@ROWS
def test_an_empty_run_has_the_same_columns(tmp_path: Path, runs: list[Run], rows: str) -> None:
    """Whoever reads files of many runs meets one schema."""
    import pandas
    import pyarrow.parquet

    write_parquet(tmp_path / "none.parquet", of([store_run(tmp_path, [])], rows))
    write_parquet(tmp_path / "some.parquet", of(runs, rows))
    write_csv(tmp_path / "none.csv", of([], rows))

    read = pyarrow.parquet.read_schema
    assert read(tmp_path / "none.parquet").equals(read(tmp_path / "some.parquet"), check_metadata=True)
    assert list(pandas.read_csv(tmp_path / "none.csv")) == read(tmp_path / "none.parquet").names


def test_parquet_is_written_in_parts(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that transcripts of large runs are never all in memory; what is read is the same."""
    import pyarrow.parquet

    monkeypatch.setattr("pytest_agenteval.store.rows.MOST_CHARACTERS", 2_000)

    write_parquet(tmp_path / "o.parquet", of(runs, "messages"))

    file = pyarrow.parquet.ParquetFile(tmp_path / "o.parquet")
    assert file.num_row_groups > 1
    assert file.read()["content"].to_pylist()[-len(HOSTILE) :] == list(HOSTILE)


@WRITERS
def test_what_is_secret_now_leaves_in_no_file(tmp_path: Path, write: Write) -> None:
    """Runs may be older than what is known of secrets, and files are sent to others."""
    secret = "hunter2-hunter2-hunter2"
    said = Transcript((Message("user", f"my key is {secret}"),))
    stored = store_run(tmp_path, [trial("t1", tags=(secret,), message=secret, transcript=said)])
    KNOWN_SECRETS.know([secret])
    try:
        for rows in ("trials", "messages"):
            write(tmp_path / rows, of([stored], rows))
            assert secret.encode() not in (tmp_path / rows).read_bytes()
    finally:
        KNOWN_SECRETS.forget()
    assert b"my key is " in (tmp_path / "messages").read_bytes()


@WRITERS
def test_a_file_that_cannot_be_written_is_a_mistake_in_use(
    runs: list[Run], tmp_path: Path, write: Write
) -> None:
    """In one line that names the file."""
    with pytest.raises(UsageMistake, match=r"nowhere.o: cannot be written \(No such file or directory\)$"):
        write(tmp_path / "nowhere" / "o", of(runs))


@WRITERS
def test_an_export_that_fails_leaves_the_file_that_was_there(
    runs: list[Run], tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing beside it: a file is whole or not written."""
    file = tmp_path / "o"
    write(file, of(runs))
    before = file.read_bytes()
    monkeypatch.setattr(Run, "trial_if_readable", lambda run, entry: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        write(file, of(runs, "messages"))
    assert [path.name for path in tmp_path.iterdir()] == ["o"]
    assert file.read_bytes() == before


def test_a_missing_pyarrow_is_named_with_its_extra(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CSV needs nothing but Python; for Parquet what to type stands in the error."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(UsageMistake, match=r"pip install 'pytest-agenteval\[parquet\]'$"):
        write_parquet(tmp_path / "o.parquet", of(runs))
    write_csv(tmp_path / "o.csv", of(runs))

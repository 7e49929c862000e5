"""``agenteval sql``: its figures are those of reports, and a query reaches nothing but its runs."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval import Message, Run, ToolCall, Transcript, load_run
from pytest_agenteval.cli.main import main
from pytest_agenteval.reports.exports.row_files import QueryResult, result_lines
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store.rows import ROW_KINDS
from pytest_agenteval.text.formatting import cell_width
from tests.reports.runs import MIXED, PLANNED, store_run, trial

HOSTILE = "=1+1 <b>\x1b[31mred\x1b[0m"
CALL = ToolCall("c1", 1, 0, "search", {"q": "미나"}, None, [{"id": 1}], None, 0.5, 0.75, tape="hit")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two runs: one with all endings and unequal repetitions, one that talks."""
    root = tmp_path_factory.mktemp("project") / "runs"
    store_run(root, MIXED, PLANNED)
    said = Transcript((Message("user", HOSTILE), Message("assistant", "done", (CALL,), 1)), (CALL,))
    started = {"started_at": "2026-11-21T09:30:15.123Z"}
    store_run(root, [trial("talk", 1, 0.5, "z", transcript=said, tags=("ko", "slow"), **started)])
    return root


@pytest.fixture
def asked(results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ask in SQL, and get the rows as JSON."""
    monkeypatch.chdir(results.parent)

    def ask(query: str, *args: str) -> Any:
        assert main(["sql", query, *args, "--results=runs", "--json=-"]) == 0
        return json.loads(capsys.readouterr().out)["rows"]

    return ask


def names(results: Path) -> list[str]:
    """Give the runs' names, the older first."""
    return sorted(path.name for path in results.glob("2*"))


def test_scores_are_those_of_reports(asked: Any, results: Path) -> None:
    """A bucket's and a suite's score is the mean of its tasks' scores; errored trials are in none."""
    first = names(results)[0]
    (suite,) = view_of(load_run(results / first)).suites
    buckets = {row.name: row.mean and row.mean.mean for row in suite.rows}

    rows = asked("select bucket, avg(score) score from tasks group by 1", first)
    in_sql = {row["bucket"]: row["score"] for row in rows}
    assert in_sql == {name: pytest.approx(mean) for name, mean in buckets.items() if mean is not None}
    sums = "avg(score) score, sum(errored_count) errored, sum(all_seconds) s"
    (all_of_it,) = asked(f"select {sums} from tasks", first)
    assert suite.total.mean is not None
    assert all_of_it["score"] == pytest.approx(suite.total.mean.mean)
    assert all_of_it["errored"] == suite.total.errored.total() == 1
    assert all_of_it["s"] == pytest.approx(suite.total.spent.seconds.value)
    assert asked("select count(*) n, count(score) decided from trials", first) == [{"n": 6, "decided": 5}]


def test_every_row_is_there_with_its_type(asked: Any, results: Path) -> None:
    """What the tables hold is what `run.rows` gives, and every column can be named without quotes."""
    run = load_run(results / names(results)[1])
    for kind in ROW_KINDS.values():
        columns = ", ".join(f"{kind.name}.{column.name}, {column.name}" for column in kind.columns)
        assert len(asked(f"select {columns} from {kind.name}")) == len(list(run.rows(kind.name))) > 0
    (row,) = asked("select *, list_contains(tags, 'ko') as korean, typeof(passed) as flag from trials")
    assert (row["tags"], row["korean"], row["flag"]) == (["ko", "slow"], True, "BOOLEAN")
    assert row["started_at"] == "2026-11-21T09:30:15.123000+00:00"
    (call,) = asked("select args->>'$.q' as q, result->'$[0].id' as id, seconds from calls")
    assert call == {"q": "미나", "id": "1", "seconds": 0.25}


def test_the_latest_run_is_asked_where_no_other_is_named(asked: Any, results: Path) -> None:
    """Or those that are named, or all; each is counted once."""
    first, second = names(results)
    query = "select run from runs order by 1"

    assert asked(query) == [{"run": second}]
    assert asked(query, first, first, "latest") == asked(query, "--all") == [{"run": first}, {"run": second}]


def test_transcripts_are_read_for_calls_and_messages_only(
    asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for scores waits for no transcript."""
    read: list[str] = []
    monkeypatch.setattr(Run, "trial_if_readable", lambda run, entry: read.append(entry.key.task))

    asked("select count(*) from trials join grades using (run, trial), tasks", "--all")
    assert read == []
    assert asked("select count(*) n from messages") == [{"n": 0}]
    assert read == ["talk"]


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_text('secret.txt')",
        "select * from 'secret.txt'",
        "select * from read_csv('http://127.0.0.1:9/x.csv')",
        "select * from glob('*')",
        "copy trials to 'out.csv'",
        "copy (select 1) to 'out.csv'",
        "attach 'out.db'",
        "install httpfs",
        "load httpfs",
        "export database 'out'",
        "set enable_external_access = true",
        "reset lock_configuration",
        "drop table trials",
        "select 1; select * from read_text('secret.txt')",
        "with x as (select * from read_blob('secret.txt')) select * from x",
        "select * from results",
        "",
    ],
)
def test_a_query_reaches_nothing_else(
    results: Path, query: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file, no network, no extension, no setting and no variable of ours: one line, exit status 2."""
    (results.parent / "secret.txt").write_text("hunter2")
    before = sorted(path.name for path in results.parent.iterdir())
    monkeypatch.chdir(results.parent)

    assert main(["sql", query, "--results=runs"]) == 2

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "hunter2" not in err
    assert sorted(path.name for path in results.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("selec 1", 'syntax error at or near "selec"'),
        ("select nope from trials", 'column "nope" not found in FROM clause! Candidate bindings: '),
        ("select * from trial", 'Table with name trial does not exist! Did you mean "trials"'),
        ("select cast('x' as integer) from trials", "Could not convert string 'x'"),
        ("select 1; select 2", "expected one query; found 2"),
        ("insert into trials (run) values ('x')", "expected a query that reads, as select does"),
    ],
)
def test_a_wrong_query_is_told_in_the_database_s_words(
    results: Path, query: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, without a traceback."""
    assert main(["sql", query, "--results", str(results)]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.startswith("agenteval: ")
    assert err.count("\n") == 1


def test_a_mistake_is_told_before_runs_are_read(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hundreds of runs take seconds."""
    monkeypatch.setattr("pytest_agenteval.store.run_reader.load_run", None)

    assert main(["sql", "select nope from trials", "--results", str(results)]) == 2
    assert 'column "nope" not found' in capsys.readouterr().err


def test_a_run_that_is_not_there_is_a_mistake_in_use(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in every other verb; and all runs are not also some."""
    assert main(["sql", "select 1", "nosuch", "--results", str(results)]) == 2
    assert "there is no run 'nosuch'" in capsys.readouterr().err
    assert main(["sql", "select 1", "latest", "--all", "--results", str(results)]) == 2
    assert "remove latest" in capsys.readouterr().err


def test_a_transcript_that_is_gone_is_told_beside_the_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures without it are shown, and whoever reads them knows."""
    run = store_run(tmp_path, [trial("t", 1, 1.0)])
    for file in run.folder.glob("transcripts-*"):
        file.unlink()

    assert main(["sql", "select count(*) n from calls", "--results", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out.split() == ["n", "0", "1", "row"]
    assert "s/t[rules-1]: no transcript" in err


def test_a_table_is_aligned_and_nothing_in_it_acts(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures stand to the right with four digits, texts on one line, controls are written out."""
    figures = "length(content) as n, 1/3 as third, null as none"
    query = f"select role, content, {figures} from messages order by 1 desc"
    assert main(["sql", query, "--results", str(results)]) == 0

    assert capsys.readouterr().out.splitlines() == [
        r"role       content                      n   third  none",
        r"user       =1+1 <b>\x1b[31mred\x1b[0m  20  0.3333  -",
        r"assistant  done                         4  0.3333  -",
        "2 rows",
    ]


def test_a_table_finds_room_in_a_terminal() -> None:
    """Texts give way, the widest first, and figures never; Hangul takes two columns."""
    result = QueryResult(("name", "content", "score"), (("미나" * 10, "x" * 300, 0.5), ("a", "b", None)))

    lines = [line.text for line in result_lines(result, 40)]
    assert lines[0].split() == ["name", "content", "score"]
    assert "…" in lines[1]
    assert lines[1].endswith("0.5000")
    assert max(map(cell_width, lines)) <= 40
    assert max(len(line.text) for line in result_lines(result, None)) > 300


def test_csv_is_safe_to_open(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With all digits, and an apostrophe before what a spreadsheet would reckon."""
    assert (
        main(["sql", "select content, 1/3 t, null n from messages", "--csv", "--results", str(results)]) == 0
    )

    head, first, _ = csv.reader(capsys.readouterr().out.splitlines())
    assert head == ["content", "t", "n"]
    assert first == [f"'{HOSTILE}", "0.3333333333333333", ""]


def test_columns_of_one_name_are_told_apart(asked: Any) -> None:
    """A JSON object would hold the last alone; values are JSON's own wherever they can be."""
    (row,) = asked(
        "select 1 a, 2 a, sum(1) s, 1.5::decimal(4,2) d, date '2026-01-02' t, {'x': [1]} m, 'nan'::double f"
    )

    assert row == {"a": 1, "a_2": 2, "s": 1, "d": 1.5, "t": "2026-01-02", "m": {"x": [1]}, "f": "NaN"}


@pytest.mark.parametrize("library", ["duckdb", "pyarrow"])
def test_a_missing_library_is_named_with_its_extra(
    results: Path, library: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What to type stands in the error."""
    monkeypatch.setitem(sys.modules, library, None)

    assert main(["sql", "select * from trials", "--results", str(results)]) == 2
    assert re.search(r"^agenteval: .*pip install 'pytest-agenteval\[sql\]'$", capsys.readouterr().err)

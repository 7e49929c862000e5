"""A run as flat rows: what stands in them, and that pandas and Arrow get the same types of every run.

They are imported by the tests that need them: every worker collects this file, and one of them runs it.
"""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_agenteval import Message, Run, Transcript, UsageMistake
from pytest_agenteval.records.transcript import UNSEEN_USAGE
from pytest_agenteval.store.rows import ROW_KINDS, row_kind
from tests.reports.runs import store_run
from tests.store.samples import FULL, LONG, trial

KINDS = tuple(ROW_KINDS)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of a trial with everything in it, one with nothing, and one that errored."""
    errored = trial("t2", ending="errored", score=0.7, cause="provider")
    return store_run(tmp_path_factory.mktemp("runs"), [FULL, trial("t1"), errored])


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in which nothing was tried."""
    return store_run(tmp_path_factory.mktemp("runs"), [])


def test_a_trial_is_one_row(run: Run) -> None:
    """Who, what, how it ended, and what it took: as the journal says it, none where there is no value."""
    row, errored = [row for row in run.rows() if row["task"] in (FULL.key.task, "t2")]

    assert row["trial"] == "card/생일 🎂[claude@short-2]"
    assert (row["run"], row["attempt"], row["attempts"]) == (run.name, 3, 3)
    assert (row["score"], row["passed"], row["ending"]) == (0.4, False, "missed")
    assert row["tags"] == ["ko", "slow"]
    assert row["started_at"] == datetime(2026, 11, 21, 9, 30, 15, 123000, UTC)
    assert (row["input_tokens"], row["output_tokens"], row["cost_usd"]) == (100, 20, None)
    assert (row["tool_hits"], row["tool_misses"], row["tool_recorded"]) == (3, 1, 2)
    assert (row["grade_count"], row["undecided_count"], row["ruler_digest"]) == (2, 1, "r")
    assert (errored["score"], errored["passed"], errored["cause"]) == (None, None, "provider")


def test_what_is_unknown_of_an_attempt_is_unknown_of_all(tmp_path: Path) -> None:
    """An attempt that never ended and a trial whose process died have unknown usage and seconds."""
    unended = replace(trial("t1", seconds=2.0), attempt=2)
    lost = trial("t2", ending="errored", score=None, transcript=Transcript(usage=UNSEEN_USAGE), seconds=0.0)
    first, second, whole = store_run(tmp_path, [unended, lost, trial("t3", seconds=2.0)]).rows()

    alls = ("all_tokens", "all_cost_usd", "all_seconds")
    assert [first[name] for name in ("seconds", *alls)] == [2.0, None, None, None]
    assert [second[name] for name in ("seconds", "charged_seconds", *alls)] == [None] * 5
    assert [whole[name] for name in ("seconds", "charged_seconds", *alls)] == [2.0, 2.0, 0, 0.0, 2.0]


def test_a_grade_is_one_row(run: Run) -> None:
    """With its trial's name, by which rows are joined; an undecided one has neither score nor passed."""
    first, second = [row for row in run.rows("grades") if row["task"] == FULL.key.task]

    assert (first["grader"], first["score"], first["passed"]) == ("card_must_contain", 0.4, False)
    assert (first["threshold"], first["weight"], first["required"]) == (0.75, 2.0, True)
    assert first["rationale"][:-1] in LONG
    assert (second["score"], second["value"], second["passed"], second["position"]) == (None, None, None, 2)
    assert {row["trial"] for row in run.rows("grades")} <= {row["trial"] for row in run.rows()}


def test_a_call_is_one_row_with_what_came_of_it(run: Run) -> None:
    """Arguments and results are JSON, so that a text is told from a number, and nothing from null."""
    called, failed, long, false = run.rows("calls")

    assert json.loads(called["args"]) == {"q": "미나"}
    assert json.loads(called["result"]) == [{"id": 1}]
    assert (called["tool"], called["turn"], called["index"], called["tape"]) == ("search", 1, 0, "hit")
    assert (called["started"], called["ended"], called["seconds"]) == (0.5, 0.75, 0.25)
    assert (failed["error_type"], failed["error"]) == ("bad_arguments", "no JSON")
    assert (failed["raw_args"], failed["result"], failed["called_by"]) == ("{oops", None, "seed")
    assert json.loads(long["result"]) == LONG
    assert false["result"] == "false"


def test_a_message_is_one_row_with_its_whole_text(run: Run) -> None:
    """In the order in which they were said."""
    system, user, assistant, tool = run.rows("messages")

    assert [row["role"] for row in run.rows("messages")] == ["system", "user", "assistant", "tool"]
    assert (system["content"], user["seeded"]) == (LONG, True)
    assert (assistant["call_count"], assistant["turn"], assistant["phase"]) == (2, 1, 2)
    assert (tool["call_id"], tool["position"]) == ("c1", 4)


def test_a_run_is_one_row(run: Run) -> None:
    """What its header says."""
    (row,) = run.rows("runs")

    assert (row["run"], row["models"], row["suites"], row["trial_count"]) == (run.name, ["rules"], ["s"], 3)
    assert row["started_at"] == datetime(2026, 11, 21, 9, 30, 15, tzinfo=UTC)
    assert row["ended_at"] is None


@pytest.mark.parametrize("rows", KINDS)
def test_pandas_gets_the_same_types_of_every_run(run: Run, empty: Run, rows: str) -> None:
    """Also of a run without rows, so that frames of several runs can be put below each other."""
    import pandas

    frame, none = run.to_pandas(rows), empty.to_pandas(rows)

    assert list(frame.columns) == [column.name for column in row_kind(rows).columns]
    assert dict(frame.dtypes) == dict(none.dtypes)
    assert len(none) == (1 if rows == "runs" else 0)
    assert dict(pandas.concat([frame, none]).dtypes) == dict(frame.dtypes)


@pytest.mark.parametrize("rows", KINDS)
def test_arrow_gets_the_same_types_of_every_run(run: Run, empty: Run, rows: str) -> None:
    """Also of a run without rows; and the values are those of the rows."""
    table = run.to_arrow(rows)

    assert table.schema.equals(empty.to_arrow(rows).schema, check_metadata=True)
    assert table.to_pylist() == list(run.rows(rows))


def test_pandas_types_know_what_is_missing(run: Run) -> None:
    """A whole number stays one, times are in UTC, and of an errored trial nothing is said to have passed."""
    import pandas

    frame = run.to_pandas()
    errored = frame[frame.ending == "errored"].iloc[0]

    assert str(frame.dtypes["repetition"]) == "Int64"
    assert str(frame.dtypes["started_at"]) == "datetime64[us, UTC]"
    assert (str(frame.dtypes["passed"]), str(frame.dtypes["cause"])) == ("boolean", "string")
    assert math.isnan(errored.score)
    assert errored.passed is pandas.NA
    assert pandas.isna(errored.started_at)
    assert frame.score.mean() == pytest.approx((0.4 + 1.0) / 2)


def test_odd_values_cost_no_table(tmp_path: Path) -> None:
    """Half a surrogate pair, a number beyond 64 bits, a time that is none: no library stumbles over them."""
    usage = replace(FULL.usage, input_tokens=2**70)
    said = Transcript((Message("user", "half \ud83d"),), usage=usage)
    odd = trial("t1", started_at="yesterday", message="half \ud83d a pair", transcript=said)
    stored = store_run(tmp_path, [odd])

    (row,) = stored.rows()
    assert (row["started_at"], row["input_tokens"], row["message"]) == (None, None, "half \\ud83d a pair")
    assert stored.to_arrow().num_rows == stored.to_pandas().shape[0] == 1
    assert stored.to_arrow("messages")["content"].to_pylist() == ["half \\ud83d"]


def test_a_transcript_that_is_gone_costs_its_own_rows(tmp_path: Path) -> None:
    """The run says which; trials and grades are all there, for they stand in the journal."""
    stored = store_run(tmp_path, [FULL, trial("t1")])
    for file in stored.folder.glob("transcripts-*"):
        file.unlink()

    assert [len(list(stored.rows(rows))) for rows in ("runs", "trials", "grades")] == [1, 2, 3]
    assert stored.odd == ()
    assert list(stored.rows("calls")) == []
    assert "card/생일 🎂[claude@short-2]" in stored.odd[0]


def test_rows_of_another_name_are_a_mistake_in_use(run: Run) -> None:
    """The names that there are are listed, before anything is read."""
    for ask in (run.rows, run.to_pandas, run.to_arrow):
        with pytest.raises(UsageMistake, match=r"one of runs, trials, .* 'grade': did you mean 'grades'"):
            ask("grade")


@pytest.mark.parametrize(
    ("library", "method", "extra"), [("pandas", "pandas", "pandas"), ("pyarrow", "arrow", "parquet")]
)
def test_a_missing_library_is_named_with_its_extra(
    run: Run, monkeypatch: pytest.MonkeyPatch, library: str, method: str, extra: str
) -> None:
    """What to type stands in the error, in one line."""
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(UsageMistake, match=rf"pip install 'pytest-agenteval\[{extra}\]'") as missing:
        getattr(run, f"to_{method}")()
    assert "\n" not in str(missing.value)

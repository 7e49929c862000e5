"""A report in JSON: what it says is what reports say, and the published schema takes it and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_agenteval import Run
from pytest_agenteval.cli.main import main
from pytest_agenteval.reports.comparison_report import comparison_json
from pytest_agenteval.reports.exports.json_report import write_json
from pytest_agenteval.reports.leaderboard import leaderboards_json, leaderboards_of
from pytest_agenteval.reports.report_source import ReportSource, report_source
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from tests.reports.runs import MIXED, PLANNED, store_run, trial
from tests.store.samples import FULL
from tests.store.samples import trial as plain_trial

Document = dict[str, Any]


@pytest.fixture(scope="module")
def schema() -> Document:
    """The schema that `agenteval schema report` prints."""
    from pytest_agenteval.reports.exports.json_report import report_schema

    return json.loads(json.dumps(report_schema()))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in which all endings are."""
    return store_run(tmp_path_factory.mktemp("runs"), MIXED, PLANNED)


def document(tmp_path: Path, source: ReportSource, schema: Document) -> Document:
    """Write a report, read it, and have the schema take it."""
    write_json(tmp_path / "o.json", source)
    read: Document = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(read)
    return read


def test_suites_and_buckets_have_the_figures_of_reports(mixed: Run, tmp_path: Path, schema: Document) -> None:
    """Word for word those of `agenteval report --json`: nobody reckons a second time."""
    read = document(tmp_path, report_source([mixed]), schema)

    boards = leaderboards_json(leaderboards_of([mixed]))
    assert {"weights": read["weights"], "boards": read["boards"]} == {
        "weights": boards["weights"],
        "boards": boards["boards"],
    }
    (row,) = read["boards"][0]["rows"]
    assert row["all"]["score"] == pytest.approx((0.75 + 1.0 + 0.0) / 3)
    assert (row["all"]["not_run"], row["all"]["errored_by_cause"]) == (2, {"provider": 1})
    assert (read["comparison"], read["runs"][0]["name"]) == (None, mixed.name)


def test_trials_are_the_rows_with_their_grades(mixed: Run, tmp_path: Path, schema: Document) -> None:
    """One on each line, under the names that all tables use."""
    full = store_run(tmp_path, [FULL, plain_trial("t1")])
    read = document(tmp_path, report_source((mixed, full)), schema)

    rows = [row for run in (mixed, full) for row in run.rows()]
    shared = set(rows[0]) & {"run", "trial", "ending", "score", "tags", "all_tokens", "seconds"}
    assert [{name: each[name] for name in shared} for each in read["trials"]] == [
        {name: row[name] for name in shared} for row in rows
    ]
    told = next(each for each in read["trials"] if each["task"] == FULL.key.task)
    assert told["started_at"] == "2026-11-21T09:30:15.123000+00:00"
    assert [(grade["grader"], grade["passed"]) for grade in told["grades"]] == [
        ("card_must_contain", False),
        ("judge", None),
    ]
    lines = (tmp_path / "o.json").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith('{"run": ') for line in lines) == len(rows)


def test_two_runs_come_with_their_comparison(tmp_path: Path, schema: Document) -> None:
    """As `agenteval compare --json` gives it; trials of both runs are there, the old ones first."""
    old, new = (
        store_run(tmp_path, [trial(f"t{task}", 1, score) for task in range(8)]) for score in (0.25, 1.0)
    )
    source = report_source([old, new])
    read = document(tmp_path, source, schema)

    assert source.comparison is not None
    assert read["comparison"] == json.loads(json.dumps(comparison_json(source.comparison)))
    assert read["comparison"]["suites"][0]["suite"]["verdict"] == "better"
    assert [each["run"] for each in read["trials"]] == [old.name] * 8 + [new.name] * 8


def test_a_run_without_trials_is_a_document_too(tmp_path: Path, schema: Document) -> None:
    """Also no run at all."""
    assert document(tmp_path, report_source((store_run(tmp_path, []),)), schema)["trials"] == []
    assert document(tmp_path, report_source(()), schema)["runs"] == []


PLACES: dict[str, Callable[[Document], Document]] = {
    "document": lambda read: read,
    "run": lambda read: read["runs"][0],
    "header": lambda read: read["runs"][0]["header"],
    "board": lambda read: read["boards"][0],
    "row": lambda read: read["boards"][0]["rows"][0],
    "figures": lambda read: read["boards"][0]["rows"][0]["all"],
    "bucket": lambda read: read["boards"][0]["rows"][0]["buckets"]["x"],
    "comparison": lambda read: read["comparison"],
    "change": lambda read: read["comparison"]["suites"][0]["suite"],
    "trial": lambda read: read["trials"][0],
    "grade": lambda read: read["trials"][0]["grades"][0],
}


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, schema: Document) -> Document:
    """The document of two runs."""
    root = tmp_path_factory.mktemp("runs")
    runs = [store_run(root, [trial(f"t{task}", 1, score) for task in range(8)]) for score in (0.25, 1.0)]
    return document(root, report_source(runs), schema)


@pytest.mark.parametrize("place", PLACES.values(), ids=list(PLACES))
def test_the_schema_takes_no_other_keys(
    compared: Document, schema: Document, place: Callable[[Document], Document]
) -> None:
    """A key that is missing or unknown is seen wherever it stands."""
    more, less = copy.deepcopy(compared), copy.deepcopy(compared)
    place(more)["misspelt"] = 1
    del place(less)[next(iter(place(less)))]

    for wrong in (more, less):
        assert not jsonschema.Draft202012Validator(schema).is_valid(wrong)


def test_the_schema_is_published(capsys: pytest.CaptureFixture[str], schema: Document) -> None:
    """By the command that prints all others, with its version."""
    assert main(["schema", "report"]) == 0

    assert json.loads(capsys.readouterr().out) == schema
    assert schema["$id"] == "urn:pytest-agenteval:report:1"
    assert schema["properties"]["v"] == {"const": 1}


def test_texts_that_are_odd_or_secret_cost_no_document(tmp_path: Path, schema: Document) -> None:
    """Half a surrogate pair is an escape, a secret that is known now is a mark."""
    odd = plain_trial("t1", message="half \ud83d", tags=("hunter2-hunter2-hunter2", "\ud83d"))
    stored = store_run(tmp_path, [odd])
    KNOWN_SECRETS.know(["hunter2-hunter2-hunter2"])
    try:
        read = document(tmp_path, report_source((stored,)), schema)
    finally:
        KNOWN_SECRETS.forget()

    assert "hunter2" not in json.dumps(read)
    assert read["trials"][0]["message"] == "half \\ud83d"

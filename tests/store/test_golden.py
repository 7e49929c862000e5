"""Runs of every age are read, shown, compared, merged and graded again; one of a newer format is refused.

Each folder in ``golden/runs`` was written by the commit that its name ends with (``golden/make.py``); it
begins with the format's number. What came into the format since the first commit are keys, which needed no
other number: so several ages of one are here.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.store.record_files import VERSION
from pytest_agenteval.store.rows import ROW_KINDS
from pytest_agenteval.store.run_reader import Run, load_run
from tests.store.golden.make import ADDED, FIRST, LONG
from tests.suites import run, write

pytest_plugins = ["pytester"]
GOLDEN = Path(__file__).parent / "golden" / "runs"
AGES = {
    "v1-8789cfe6": "first",
    "v1-66bc06a5": "first",
    "v1-e60c71e3": "crash",
    "v1-f4e5148b": "code",
    "v1-19f81271": "gate",
    "v1-7e58fd60": "split",
    "v1-de7edc2e": "tools",
    "v1-19f535b1": "shard",
    "v1-1946cf26": "reuse",
}
"""What each age brought, from the first to the present: a name in ``ADDED``."""

FIRST_AGE, *_, TODAY = AGES
OF_SHARD = "v1-19f535b1"
RUNS = Path(".agenteval/runs")


@pytest.fixture
def golden(pytester: pytest.Pytester, quick: None, capsys: pytest.CaptureFixture[str]) -> Path:
    """A project with the suite, and with a run of each age."""
    for name in AGES:
        shutil.copytree(GOLDEN / name, RUNS / name)
    return pytester.path


def endings(read: Run) -> dict[str, tuple[str, float | None]]:
    """Give how each task's first trial ended."""
    return {
        entry.key.task: (entry.ending, entry.score) for entry in read.entries if entry.key.repetition == 1
    }


def without_places(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Leave out of rows which run they are of."""
    return [
        {
            key: value
            for key, value in row.items()
            if key not in ("run", "folder", "transcript_file", "command")
        }
        for row in rows
    ]


def test_there_is_a_golden_run_of_each_format() -> None:
    """Whoever raises VERSION makes one of the last before, and one of the new: see ``golden/make.py``."""
    assert sorted(path.name for path in GOLDEN.iterdir()) == sorted(AGES)
    assert {int(name[1:].partition("-")[0]) for name in AGES} == set(range(1, VERSION + 1))
    for name in AGES:
        assert json.loads((GOLDEN / name / "run.json").read_text())["v"] == int(name[1:].partition("-")[0])
        assert sum(path.stat().st_size for path in (GOLDEN / name).iterdir()) < 24_000


@pytest.mark.parametrize("name", AGES)
def test_a_run_of_any_age_is_read_whole(name: str, golden: Path) -> None:
    """Every trial as it ended, every transcript, and rows of each kind."""
    read = load_run(RUNS / name)
    expected = {"greets": ("passed", 1.0), "forgets": ("missed", 0.0), "breaks": ("errored", None)}
    assert expected.items() <= endings(read).items()
    assert (read.odd, read.begun, read.never_ended) == ((), (), "")
    trials = {entry.key.task: read.trial(entry) for entry in read.entries}
    assert trials["forgets"].outcome.answer.text == LONG
    assert trials["breaks"].cause == "nothing_to_act_out"
    assert {kind: bool(list(read.rows(kind))) for kind in ROW_KINDS} == {
        kind: kind != "calls" or name == "v1-de7edc2e" for kind in ROW_KINDS
    }


@pytest.mark.parametrize("name", AGES)
def test_a_run_of_any_age_is_compared_and_merged(
    name: str, golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a run of today; ``python -m tests.frozen`` holds its report, a trial's page and its rows."""
    assert main(["compare", name, TODAY, "--allow"]) == 0
    assert "greetings" in capsys.readouterr().out

    assert main(["merge", name, "--into=joined", "-q"]) == 1  # a trial errored
    joined, whole = load_run(RUNS / "joined"), load_run(RUNS / name)
    for kind in set(ROW_KINDS) - {"runs"}:
        assert without_places(list(joined.rows(kind))) == without_places(list(whole.rows(kind)))
    assert (joined.planned, joined.looks) == (whole.planned, whole.looks)


def test_every_report_is_made_of_the_oldest_run(golden: Path) -> None:
    """In each format that a file's ending names."""
    files = [f"x.{ending}" for ending in ("html", "json", "csv", "xml", "md")]
    assert main(["report", FIRST_AGE, *(f"-o={file}" for file in files)]) == 0
    assert all(Path(file).stat().st_size for file in files)


def test_runs_of_two_ages_that_tried_the_same_are_not_joined(
    golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor one of a shard with one of before there were any."""
    first, second = FIRST_AGE, list(AGES)[1]
    assert main(["merge", first, second]) == 2
    names = [load_run(RUNS / name).name for name in (first, second)]
    assert f"is in {names[0]} and in {names[1]}, with different results" in capsys.readouterr().err
    assert main(["merge", first, OF_SHARD]) == 2
    assert f"is shard 1 of 1, and {names[0]} is no shard" in capsys.readouterr().err


@pytest.mark.parametrize("name", [FIRST_AGE, "v1-f4e5148b", "v1-de7edc2e", TODAY])
def test_a_run_of_any_age_is_graded_again(name: str, golden: Path, pytester: pytest.Pytester) -> None:
    """With the suite that it tried, by the graders of today, which find what they found."""
    write(golden, {**FIRST, **ADDED[AGES[name]][0]})
    result = run(pytester, "evals", f"--agent-regrade={name}", "--agent-run-name=again", "--agent-split=all")
    assert result.ret in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    again, before = load_run(RUNS / "again"), load_run(RUNS / name)
    assert {key: value for key, value in endings(again).items() if value[0] != "errored"} == {
        key: value for key, value in endings(before).items() if value[0] != "errored"
    }


@pytest.mark.parametrize("file", ["run.json", "planned.json", "journal", "transcripts"])
def test_a_run_of_a_newer_format_is_refused(
    file: str, golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever of its files is newer: one sentence names it and says what to do, and nothing is guessed."""
    (path,) = (RUNS / TODAY).glob(f"{file}*")
    path.write_text(path.read_text().replace('"v":1', f'"v":{VERSION + 1}'))
    for command in (["report"], ["compare", FIRST_AGE], ["show"], ["merge", FIRST_AGE]):
        if file != "transcripts" or command == ["show"]:
            assert main([*command, f"{TODAY}:worst" if command == ["show"] else TODAY]) == 2
            said = capsys.readouterr().err
            assert f"written in format {VERSION + 1}, and this pytest-agenteval knows none above" in said
            assert path.name in said
            assert "upgrade pytest-agenteval to read it" in said

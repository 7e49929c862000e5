"""``agenteval report``: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cli.report import add_scorecard_options, report, report_arguments
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.reports.run_screen import ScreenParts, screen_lines
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.reports.scorecard import ReportOption
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from tests.reports.runs import MIXED, PLANNED, store_run

RUNS = ".agenteval/runs"


def arguments(*args: str) -> argparse.Namespace:
    """Parse what stands behind the verb."""
    parser = argparse.ArgumentParser()
    report_arguments(parser)
    return parser.parse_args(args)


def run_report(*args: str) -> int:
    """Do what the verb does with these arguments."""
    return report(arguments(*args))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, in a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def as_after_pytest(run: Run, verbosity: int = 0) -> list[str]:
    """Give the screen that the terminal showed at the end of a run."""
    steps = () if verbosity else ("agenteval report latest -v", "agenteval show latest:worst")
    parts = ScreenParts(place=str(run.folder), next_steps=steps)
    return [line.text for line in screen_lines(view_of(run), 80, verbosity, parts)]


@pytest.mark.parametrize(
    ("options", "verbosity", "misses"), [([], 0, 3), (["-v"], 1, 4), (["-vv"], 2, 4), (["-q"], -1, 0)]
)
def test_a_run_is_shown_as_after_pytest(
    options: list[str], verbosity: int, misses: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line for line the screen that the terminal showed; above it what pytest had told of failures too.

    No colour where nobody looks.
    """
    run = store_run(Path(RUNS), MIXED, PLANNED)

    assert arguments().runs == ["latest"]
    assert run_report("latest", "latest", *options) == 0  # a run that is named twice is one

    lines, screen = capsys.readouterr().out.splitlines(), as_after_pytest(run, verbosity)
    assert lines[-len(screen) :] == screen
    assert sum(line.startswith(("MISSED ", "ERROR ")) for line in lines) == misses
    assert (lines == screen) == (misses == 0)


@pytest.mark.parametrize(
    ("args", "mistake"),
    [
        (["latest", "-o", "out"], "out: expected a file that ends in .html, .md"),
        (["latest", "--json", "-", "--markdown", "-"], "both write"),
        (["latest", "--json", "no/such/folder"], "no/such/folder: cannot be written"),
        (["nothing"], "there is no run 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_said(args: list[str], mistake: str) -> None:
    """Without a traceback, and without having done half of it."""
    store_run(Path(RUNS), MIXED, PLANNED)

    with pytest.raises(UsageMistake, match=mistake):
        run_report(*args)


def test_a_broken_scorecard_keeps_nobody_from_their_reports(capsys: pytest.CaptureFixture[str]) -> None:
    """Options that cannot be imported, or that somebody has already, are left out: one line says which."""
    half = ReportOption("--half", "N", "what speed weighs", float)
    registry = Registry()
    registry.scorecard("first", lambda entries: None, graders=["a"], options=[half])
    registry.scorecard("second", lambda entries: None, graders=["b"], options=[half])
    registry.scorecard("third", lambda entries: None, graders=["c"], options="no.such.module:OPTIONS")

    options = add_scorecard_options(argparse.ArgumentParser(), registry)

    assert options == {"first": [half], "second": [], "third": []}
    second, third = capsys.readouterr().err.splitlines()
    assert second.startswith("agenteval: an option of the scorecard 'second' is left out: argument --half")
    assert "no.such.module" in third


@pytest.mark.parametrize(
    "options", [5, ["--x"], [ReportOption("harbour", "N", "an argument without a flag", float)]]
)
def test_what_is_no_option_is_left_out(options: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake of one benchmark's author takes no report from anybody."""
    registry = Registry()
    registry.scorecard("first", lambda entries: None, graders=["a"], options=options)

    assert add_scorecard_options(argparse.ArgumentParser(), registry) == {"first": []}
    assert "an option of the scorecard 'first' is left out: " in capsys.readouterr().err


def test_a_scorecards_option_may_be_called_as_our_own_values_are() -> None:
    """What the command line says for it is its own, and its help may hold a percent sign."""
    registry, parser = Registry(), argparse.ArgumentParser()
    option = ReportOption("--runs", "N", "100 % of it", float)
    registry.scorecard("first", lambda entries: None, graders=["a"], options=[option])
    parser.add_argument("runs", nargs="+")
    add_scorecard_options(parser, registry)

    args = parser.parse_args(["latest"])

    assert args.runs == ["latest"]
    assert "100 % of it" in parser.format_help()


def test_a_scorecard_that_raises_takes_no_table_away(capsys: pytest.CaptureFixture[str]) -> None:
    """The run's tables are printed, one line says what is wrong, and the status that not all is there."""
    run = store_run(Path(RUNS), MIXED, PLANNED)
    labels = {grade.grader for entry in run.entries for grade in entry.grades}
    registry = Registry()
    registry.scorecard("bad", lambda entries: 1 / 0, graders=labels)
    args = arguments("latest")
    args.registry, args.scorecard_options = registry, {"bad": []}

    assert report(args) == 1

    printed = capsys.readouterr()
    assert "the scorecard 'bad' cannot be made: ZeroDivisionError" in printed.err
    screen = as_after_pytest(run)
    assert printed.out.splitlines()[-len(screen) :] == screen


@pytest.mark.parametrize(("ending", "status"), [(".html", 1), (".md", 1), (".json", 1), (".csv", 0)])
def test_a_scorecard_that_raises_is_missing_in_files_too(
    ending: str, status: int, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where only files are written that hold scorecards, the line and the status say that one is missing."""
    run = store_run(Path(RUNS), MIXED, PLANNED)
    args = arguments("latest", "-o", f"report{ending}")
    args.registry, args.scorecard_options = Registry(), {"bad": []}
    labels = {grade.grader for entry in run.entries for grade in entry.grades}
    args.registry.scorecard("bad", lambda entries: 1 / 0, graders=labels)

    assert report(args) == status
    assert ("the scorecard 'bad' cannot be made" in capsys.readouterr().err) == bool(status)
    assert (here / f"report{ending}").is_file()


def _write_half(runs: Sequence[Run], folder: Path) -> Sequence[Path]:
    return [Path(path) for path in json.loads("{half")]


def _write_one(runs: Sequence[Run], folder: Path) -> Iterator[Path]:
    yield folder / "one.txt"
    raise KeyError("two")


@pytest.mark.parametrize(("write", "raised"), [(_write_half, "JSONDecodeError"), (_write_one, "KeyError")])
def test_a_report_format_that_raises_is_told_with_its_authors_frames(
    write: Any, raised: str, here: Path
) -> None:
    """Whose format it is, then a traceback that begins in its file: no frame of ours around it."""
    store_run(Path(RUNS), MIXED, PLANNED)
    args = arguments("latest", "-o", "out")
    args.format = "bad"
    args.registry.report_format("bad", write)

    with pytest.raises(UsageMistake) as mistake:
        report(args)

    heading, begin, frame, *more = str(mistake.value).splitlines()
    assert heading == "the report format 'bad' raised:"
    assert begin == "Traceback (most recent call last):"
    assert frame.startswith(f'  File "{__file__}", line ')
    assert frame.endswith(f"in {write.__name__}")
    assert raised in more[-1]


def test_what_a_report_format_finds_wrong_is_told_in_its_words(here: Path) -> None:
    """A mistake that its author foresaw needs no traceback."""
    store_run(Path(RUNS), MIXED, PLANNED)
    args = arguments("latest", "-o", "out")
    args.format = "careful"

    def write(runs: Sequence[Run], folder: Path) -> Sequence[Path]:
        raise UsageMistake("out: there is no such disk")

    args.registry.report_format("careful", write)

    with pytest.raises(UsageMistake, match=r"^out: there is no such disk$"):
        report(args)


def test_two_runs_are_compared_and_more_stand_side_by_side(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The layout of ``agenteval compare`` for two; of three a row for each, and a column beside buckets."""
    names = [store_run(Path(RUNS), MIXED, PLANNED).folder.name for _ in range(3)]

    assert run_report(names[0], names[1]) == 0
    assert capsys.readouterr().out.startswith("s: cannot tell")
    assert run_report(*names) == 0
    heads = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert "side" in heads
    assert "bucket" in heads
    assert run_report(names[0], names[1], "--markdown", "-") == 0
    assert capsys.readouterr().out.startswith("### s: cannot tell")


def test_rows_of_any_kind_become_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One command writes several; trials, where nothing else is asked for."""
    run = store_run(here / RUNS, MIXED, PLANNED)

    assert run_report("latest", "-o", "trials.csv", "-o", "data/t.parquet", "-o", "report.json") == 0
    assert run_report("latest", "--rows", "grades", "-o", "grades.csv") == 0
    assert capsys.readouterr().out.split() == ["trials.csv", "data/t.parquet", "report.json", "grades.csv"]
    with (here / "trials.csv").open(encoding="utf-8", newline="") as trials:
        assert len(list(csv.reader(trials))) == 1 + len(run.entries)
    assert (here / "grades.csv").read_text(encoding="utf-8").startswith("run,trial,suite")
    assert len(json.loads((here / "report.json").read_text(encoding="utf-8"))["trials"]) == len(run.entries)
    assert (here / "data/t.parquet").read_bytes().startswith(b"PAR1")
    with pytest.raises(UsageMistake, match=r"--rows grades needs -o FILE that ends in .csv or .parquet"):
        run_report("latest", "--rows", "grades", "-o", "report.json")
    with pytest.raises(SystemExit):
        run_report("latest", "--rows", "grade", "-o", "grades.csv")
    assert "choose from" in capsys.readouterr().err

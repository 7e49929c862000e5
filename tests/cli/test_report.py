"""``agenteval report``: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cli.report import add_arguments, add_scorecard_options, report
from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.registry import Registry
from pytest_agenteval.reports.run_summary import summary_lines
from pytest_agenteval.reports.scorecard import ReportOption
from pytest_agenteval.reports.view import view_of
from tests.reports.runs import MIXED, PLANNED, stored

RUNS = ".agenteval/runs"


def said(*args: str) -> int:
    """Do what the verb does with these arguments."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return report(parser.parse_args(args))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, in a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def test_a_run_is_shown_as_after_pytest(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Line for line what the terminal said then, from what was kept; no colour where nobody looks."""
    run = stored(Path(RUNS), MIXED, PLANNED)

    assert said("latest") == 0

    assert capsys.readouterr().out.splitlines() == [line.text for line in summary_lines(view_of(run), 80)]


@pytest.mark.parametrize(
    ("args", "mistake"),
    [
        (["latest", "-o", "out"], "belong together"),
        (["latest", "--json", "-", "--markdown", "-"], "would mix"),
        (["latest", "--json", "no/such/folder"], "no/such/folder: cannot be written"),
        (["nothing"], "there is no run 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_said(args: list[str], mistake: str) -> None:
    """Without a traceback, and without having done half of it."""
    stored(Path(RUNS), MIXED, PLANNED)

    with pytest.raises(UsageMistake, match=mistake):
        said(*args)


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
    assert "options of the scorecard 'first': expected " in capsys.readouterr().err


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
    run = stored(Path(RUNS), MIXED, PLANNED)
    labels = {grade.grader for entry in run.entries for grade in entry.grades}
    registry = Registry()
    registry.scorecard("bad", lambda entries: 1 / 0, graders=labels)
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(["latest"])
    args.registry, args.scorecard_options = registry, {"bad": []}

    assert report(args) == 1

    printed = capsys.readouterr()
    assert "the scorecard 'bad' cannot be made: ZeroDivisionError" in printed.err
    assert printed.out.splitlines() == [line.text for line in summary_lines(view_of(run), 80)]

"""``agenteval report``: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import argparse
from pathlib import Path

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

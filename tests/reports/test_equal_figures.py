"""Every report of a run shows the same figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_agenteval.store.run_reader import Run
from tests.reports import screen_runs
from tests.reports.equal_figures import check_reports


@pytest.mark.parametrize(
    "make",
    [screen_runs.three_suites, screen_runs.doubtful, screen_runs.several_models, screen_runs.hangul,
     screen_runs.all_missed, screen_runs.all_passed, screen_runs.one_task],
    ids=lambda make: make.__name__,
)  # fmt: skip
def test_all_reports_of_a_run_have_equal_figures(tmp_path: Path, make: Callable[[Path], Run]) -> None:
    """Page, rows, JUnit and Markdown show what the document of the same report has."""
    run = make(tmp_path / "runs")
    document = check_reports([run.folder], tmp_path)
    assert len(document["trials"]) == len(run.entries) > 0


def test_all_reports_of_several_runs_have_equal_figures(tmp_path: Path) -> None:
    """So do those of two runs that are compared, of five sides, and of models that are named."""
    first, second = (screen_runs.several_models(tmp_path / "runs") for _ in "ab")
    check_reports([first.folder, second.folder], tmp_path)
    check_reports([first.folder, second.folder, screen_runs.three_suites(tmp_path / "runs").folder], tmp_path)
    document = check_reports([first.folder], tmp_path, "--models", "gpt,claude", "--variants", "base")
    assert [side["label"] for side in document["sides"]] == ["gpt", "claude"]

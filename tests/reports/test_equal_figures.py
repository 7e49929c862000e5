"""Every report of a run shows the same figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_agenteval.store.run_reader import Run
from tests.reports import screen_runs
from tests.reports.any_runs import any_run, any_runs
from tests.reports.equal_figures import check_reports
from tests.reports.equal_trends import check_trends
from tests.reports.odd_runs import FROZEN, ODD_PAIRS, ODD_RUNS, OLDEST, stored


@pytest.mark.parametrize(
    "make",
    [screen_runs.three_suites, screen_runs.doubtful, screen_runs.several_models, screen_runs.hangul,
     screen_runs.all_missed, screen_runs.all_passed, screen_runs.one_task],
    ids=lambda make: make.__name__,
)  # fmt: skip
def test_all_reports_of_a_run_have_equal_figures(tmp_path: Path, make: Callable[[Path], Run]) -> None:
    """Page, rows, JUnit, Markdown and screens show what the document has, and that is what trials make."""
    run = make(tmp_path / "runs")
    document = check_reports([run.folder], tmp_path)
    assert len(document["trials"]) == len(run.entries) > 0


@pytest.mark.parametrize("name", ODD_RUNS)
def test_so_do_those_of_odd_runs(tmp_path: Path, name: str) -> None:
    """Killed, resumed, merged, regraded, damaged, old and hostile ones, and where little is known."""
    run = ODD_RUNS[name](tmp_path / "runs")
    document = check_reports([run.folder], tmp_path)
    assert len(document["trials"]) == len(run.entries)


def test_all_reports_of_several_runs_have_equal_figures(tmp_path: Path) -> None:
    """So do those of two runs that are compared, of five sides, and of models that are named."""
    first, second = (screen_runs.several_models(tmp_path / "runs") for _ in "ab")
    check_reports([first.folder, second.folder], tmp_path)
    check_reports([first.folder, second.folder, screen_runs.three_suites(tmp_path / "runs").folder], tmp_path)
    document = check_reports([first.folder], tmp_path, "--models", "gpt,claude", "--variants", "base")
    assert [side["label"] for side in document["sides"]] == ["gpt", "claude"]


@pytest.mark.parametrize(
    "folders", [FROZEN[:2], FROZEN[2:], OLDEST[:2], OLDEST], ids=["frozen", "pkm", "old", "more_than_eight"]
)
def test_so_do_those_of_old_runs_beside_each_other(tmp_path: Path, folders: tuple[Path, ...]) -> None:
    """Of more than eight sides each is compared with the first alone."""
    runs = [stored(folder)(tmp_path / "runs") for folder in folders]
    assert len(check_reports([run.folder for run in runs], tmp_path)["sides"]) == len(folders)


@pytest.mark.parametrize("name", ODD_PAIRS)
def test_so_do_those_of_odd_pairs(tmp_path: Path, name: str) -> None:
    """What changed by less than a percent, or thousands of times; where one side is unknown, or empty."""
    check_reports([make(tmp_path / "runs").folder for make in ODD_PAIRS[name]], tmp_path)


@pytest.mark.parametrize("seed", range(8))
def test_so_do_those_of_any_runs(tmp_path: Path, seed: int) -> None:
    """Whatever comes together in a run by chance: one, two, three or four of them."""
    root = tmp_path / "runs"
    number = 1 + seed % 4
    runs = any_runs(root, seed, number) if number > 1 else [any_run(root, seed)]
    check_reports([run.folder for run in runs], tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_trends_have_the_figures_of_their_runs(tmp_path: Path, seed: int) -> None:
    """Document, screen and page, each run's own; the newest step is that of a comparison of its runs."""
    any_runs(tmp_path / "runs", seed, 3 + seed)
    assert check_trends(tmp_path / "runs", tmp_path)["suites"]

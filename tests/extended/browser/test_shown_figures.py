"""The page shows the document's figures, whatever its reader does: another old side, hidden columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pytest_agenteval.store.run_reader import Run, load_run
from tests.extended.browser.equal_pages import Reported, check_groups, check_list, check_pictures, check_trial
from tests.extended.browser.shown_figures import READ_LIST, READ_TRIAL
from tests.extended.browser.visit import Visit
from tests.extended.shipped_evals.offline_runs import run_evals, shipped_project
from tests.reports.any_runs import any_run, any_runs
from tests.reports.equal_screens import printed
from tests.reports.html.pages import Page
from tests.reports.odd_runs import ODD_PAIRS, ODD_RUNS

Open = Callable[..., Visit]
Json = dict[str, Any]

DRAWN = "!document.querySelector('.pictures-of-list[open]') || document.querySelector('.of-suite')"
LINKS = """Object.fromEntries([...document.querySelectorAll('.row .cell')].map(
    (cell) => [cell.dataset.place, cell.getAttribute('href')]))"""
WHOLE = "void dispatchEvent(new Event('beforeprint'))"
"""As on paper: every row is drawn, and nothing is folded."""


def reported(runs: Sequence[Run], folder: Path, *options: str) -> tuple[Path, Json, Json]:
    """Write the page of some runs, with its document and its index."""
    page, document = folder / "report.html", folder / "report.json"
    names = [str(run.folder) for run in runs]
    printed("report", *names, *options, "-o", str(page), "-o", str(document))
    return page, json.loads(document.read_text(encoding="utf-8")), Page(page).index


def check_page(visit: Open, page: Path, document: Json, index: Json) -> None:
    """Check the page with each side as the old one."""
    sides = document["sides"]
    seen = visit(page)
    seen.get(WHOLE)
    for old in range(len(sides)) if len(sides) > 1 else [None]:
        if old:
            seen.go(f"#/?old={quote(sides[old]['label'], safe='')}")
        shown = Reported(document, index, old)
        figures = read(seen)
        check_list(figures, shown)
        assert len(figures["rows"]) == len(index["tasks"])
        check_pictures(figures, shown)
    check_trials(seen, shown)


def read(seen: Visit) -> Json:
    """Give the figures of the list; pictures are drawn once they are open."""
    seen.until(
        "!document.querySelector('.pictures-of-list[open]') || document.querySelector('.figure-table')"
    )
    figures: Json = seen.get(READ_LIST)
    return figures


def check_trials(seen: Visit, shown: Reported) -> None:
    """Open some trials of every side and check their figures."""
    links = seen.get(LINKS)
    places = sorted(map(int, links))
    for place in places[:: max(1, len(places) // MOST_TRIALS)]:
        seen.go(links[str(place)])
        seen.until("document.querySelector('.facts > dl, #reason .warning')")
        check_trial(seen.get(READ_TRIAL), shown, place)


MOST_TRIALS = 8


@pytest.mark.parametrize("seed", range(8))
def test_a_page_shows_the_figures_of_any_runs(visit: Open, tmp_path: Path, seed: int) -> None:
    """One run, two, three or four, of one side to a dozen; each side in turn is the old one."""
    number = 1 + seed % 4
    root = tmp_path / "runs"
    runs = any_runs(root, seed, number) if number > 1 else [any_run(root, seed)]
    check_page(visit, *reported(runs, tmp_path))


@pytest.mark.parametrize("name", ODD_RUNS)
def test_a_page_shows_the_figures_of_odd_runs(visit: Open, tmp_path: Path, name: str) -> None:
    """Killed, resumed, merged, damaged, old and hostile ones, and those of which little is known."""
    check_page(visit, *reported([ODD_RUNS[name](tmp_path / "runs")], tmp_path))


@pytest.mark.parametrize("name", ODD_PAIRS)
def test_a_page_shows_the_figures_of_odd_pairs(visit: Open, tmp_path: Path, name: str) -> None:
    """With either as the old one."""
    check_page(visit, *reported([make(tmp_path / "runs") for make in ODD_PAIRS[name]], tmp_path))


@pytest.mark.parametrize("number", [1, 2, 3, 6])
def test_hidden_columns_and_filters_change_no_figure(visit: Open, tmp_path: Path, number: int) -> None:
    """The rows that are left, their groups and all figures above them are those of the document."""
    runs = any_runs(tmp_path / "runs", 40, number) if number > 1 else [any_run(tmp_path / "runs", 40)]
    page, document, index = reported(runs, tmp_path)
    labels = [quote(side["label"], safe="") for side in document["sides"]]
    old, hidden = (1, 0) if len(labels) > 2 else (0 if len(labels) == 2 else None, None)
    query = f"old={labels[old]}&" if old else ""
    query += f"hide={labels[hidden]}&" if hidden is not None else ""
    shown = Reported(document, index, old)
    sides = [at for at in range(len(labels)) if at != hidden]
    seen, counts = visit(page), []
    seen.get(WHOLE)
    for narrowed in ("", "show=missed&", "ending=passed&sort=tokens&", "q=t1&", "bucket=x&group=bucket&"):
        seen.go(f"#/?{query}{narrowed}group=bucket")
        figures = read(seen)
        check_list(figures, shown, [] if hidden is None else [hidden])
        check_groups(figures["groups"], figures["rows"], shown, sides)
        counts.append(len(figures["rows"]))
    assert counts[0] == len(index["tasks"]) > min(counts)


@pytest.mark.parametrize("options", [(), ("--models", "rules"), ("--models", "nop,oracle")], ids=" ".join)
def test_a_page_shows_the_figures_of_shipped_evals(
    visit: Open, shipped: Run, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """A benchmark's levels and a suite without any, with one model, two and three."""
    check_page(visit, *reported([shipped], tmp_path, *options))


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two of the shipped suites with three offline models."""
    project = shipped_project(tmp_path_factory.mktemp("shipped"))
    return load_run(run_evals(project, "run", ("card", "ko"), "--agent-model=rules,oracle,nop"))

"""The pages of ``agenteval view`` show the document's figures: the list of runs, reports, leaderboards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from pytest_agenteval.records.transcript import format_seconds
from pytest_agenteval.reports.resource_text import cost_cell, tokens_cell, wall_cell
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import NOT_KNOWN, format_figure
from tests.cli.viewing import side
from tests.extended.browser import shown_figures as words
from tests.extended.browser.equal_pages import Reported, check_list, check_pictures
from tests.extended.browser.served import Served, ServedVisit, report, serving
from tests.extended.browser.test_shown_figures import WHOLE, check_trials, read
from tests.reports import figure_cells as cells
from tests.reports import odd_runs, screen_runs
from tests.reports.any_runs import any_runs
from tests.reports.equal_boards import row_names
from tests.reports.equal_screens import printed
from tests.reports.html.pages import rows_of

Open = Callable[..., ServedVisit]
Json = dict[str, Any]

ROWS = """[...document.querySelectorAll('tbody.run')].map((run) => [run.querySelector('a.name').dataset.run,
    [...run.rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim()))])"""
BOARD = """[...document.querySelectorAll('.standings')].map((table) => [
    [...table.tHead.rows[0].cells].slice(2).map((cell) => cell.textContent.trim()),
    [...table.tBodies[0].rows].map((row) => [row.querySelector('.run').textContent,
        ...[...row.cells].slice(2).map((cell) => cell.textContent.trim())])])"""
READ = "!document.querySelector('.status').textContent.includes('being read')"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    """Runs of all kinds in one folder, and the baseline that one of them is; by name."""
    project = tmp_path_factory.mktemp("served")
    (project / "pytest.ini").touch()
    root = project / "runs"
    makers = (screen_runs.several_models, screen_runs.doubtful, screen_runs.hangul, odd_runs.halves)
    found = {make.__name__: make(root) for make in (*makers, odd_runs.unknown, odd_runs.resumed)}
    found |= {f"any {at}": run for at, run in enumerate(any_runs(root, 3, 4))}
    names = ("set", str(found["hangul"].folder), "--to", str(project / "kept.json"), "--allow")
    printed("baseline", *names)
    return found


@pytest.fixture(scope="module")
def served(runs: Mapping[str, Run]) -> Iterator[Served]:
    """They are served."""
    with serving(next(iter(runs.values())).folder.parent) as server:
        yield server


def document_of(runs: Sequence[Run], folder: Path, *options: str) -> Json:
    """Give the document of some runs."""
    printed("report", *(str(run.folder) for run in runs), *options, "-o", str(folder / "report.json"))
    document: Json = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return document


def test_the_list_of_runs_shows_their_figures(
    visit_served: Open, served: Served, runs: Mapping[str, Run], tmp_path: Path
) -> None:
    """A row for each suite with each model: score, interval, trials, cost."""
    seen = visit_served(served)
    seen.until(READ)
    shown = dict(seen.get(ROWS))
    assert shown.keys() == {run.folder.name for run in runs.values()}
    for run in runs.values():
        document = document_of([run], tmp_path)
        expected = sorted(
            _listed(document, board["suite"], row) for board in document["boards"] for row in board["rows"]
        )
        # The first row has the check box and the run's name too.
        first, *others = shown[run.folder.name]
        found = [row[:6] for row in (first[2:], *others)]
        # A suite is named in the first of its rows.
        for above, row in pairwise(found):
            row[0] = row[0] or above[0]
        assert sorted(found) == expected


def _listed(document: Json, suite: str, row: Json) -> list[str]:
    figures = row["all"]
    took = cells.tokens_of(figures["spent"]) or cells.cost_of(figures["spent"])
    cost = cost_cell(cells.cost_of(figures["spent"])) if took else NOT_KNOWN
    trials = f"{figures['averaged']:,} of {figures['planned']:,}"
    names = map(words.one_space, cells.group_names(document, row, suite))
    return [*names, cells.score(figures), cells.interval(figures), trials, cost]


PICKS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "one": (["doubtful"], ()),
    "resumed": (["resumed"], ()),
    "models": (["several_models"], ()),
    "two": (["halves", "unknown"], ()),
    "any two": (["any 0", "any 1"], ()),
    "any four": ([f"any {at}" for at in range(4)], ()),
    "named models": (["several_models"], ("--models", "gpt,claude", "--variants", "base")),
}
"""Runs to put beside each other, and the options of ``agenteval report`` that pick the same sides."""


@pytest.mark.parametrize("picks", PICKS)
def test_a_served_report_shows_the_figures_of_its_sides(
    visit_served: Open, served: Served, runs: Mapping[str, Run], tmp_path: Path, picks: str
) -> None:
    """As a file of the same sides does; each side in turn is the old one."""
    names, options = PICKS[picks]
    chosen = [runs[name] for name in names]
    document = document_of(chosen, tmp_path, *options)
    sides = [side("run", run.folder.name) for run in chosen]
    if options:
        groups = [each["groups"][0] for each in document["sides"]]
        sides = [side("run", chosen[0].folder.name, g["model"], g["variant"] or "base") for g in groups]
    seen = visit_served(served, report(*sides))
    index = unpacked(seen)
    seen.get(WHOLE)
    for old in range(len(document["sides"])) if len(document["sides"]) > 1 else [None]:
        if old:
            seen.go(f"#/?{urlencode({'old': document['sides'][old]['label']}).replace('+', '%20')}")
        shown = Reported(document, index, old)
        figures = read(seen)
        check_list(figures, shown)
        check_pictures(figures, shown)
    check_trials(seen, shown)


def unpacked(seen: ServedVisit) -> Json:
    """Give the index that the page was served with."""
    index: Json = json.loads(seen.get("document.getElementById('index').textContent"))
    return {**index, **{name: rows_of(index[name]) for name in ("tasks", "trials")}}


def test_a_baseline_has_the_figures_of_its_run(
    visit_served: Open, served: Served, runs: Mapping[str, Run]
) -> None:
    """All that its file holds: not when trials ran, nor how long turns took."""
    name = runs["hangul"].folder.name
    seen = visit_served(served, report(side("baseline", "kept.json"), side("run", name)))
    (baseline, run), index = ({}, {}), unpacked(seen)
    for suite in index["suites"]:
        rows = [suite, *suite["buckets"]]
        for row in rows:
            baseline, run = row["sides"]
            lost = {"wall", "wall_unknown", "turns", "turns_unknown", "p50", "p95"}
            assert {key: baseline[key] for key in baseline.keys() - lost} == {
                key: run[key] for key in run.keys() - lost
            }
    shown = read(seen)
    assert shown["headline"].startswith("개인_지식_관리: identical")
    assert shown["strip"][0][1].endswith("as before")


@pytest.mark.parametrize("suite", ["card", "s", "개인_지식_관리"])
def test_a_leaderboard_shows_the_figures_of_all_runs(
    visit_served: Open, served: Served, runs: Mapping[str, Run], tmp_path: Path, suite: str
) -> None:
    """The best first, with buckets, tokens, cost and times."""
    document = document_of(list(runs.values()), tmp_path)
    (board,) = (board for board in document["boards"] if board["suite"] == suite)
    seen = visit_served(served, f"/leaderboard?{urlencode({'suite': suite, 'runs': 'all'})}")
    ((heads, rows),) = seen.get(BOARD)
    buckets = list(dict.fromkeys(name for row in board["rows"] for name in row["buckets"]))
    took = ["tokens", "cost", "agents' time", "wall", "turn p50/p95"]
    assert heads == ["score", "95 %", "trials", *(name or "no bucket" for name in buckets), *took]
    assert len(row_names(document, board)) == len(rows)
    expected = [[row["run"], *_standing(row, buckets)] for row in board["rows"]]
    assert sorted(rows) == sorted(expected)
    scores = [row["all"]["score"] for row in board["rows"]]
    assert [row[1].rstrip("*") for row in rows] == [format_figure(score) for score in scores]


def _standing(row: Json, buckets: Sequence[str]) -> list[str]:
    figures, spent = row["all"], row["all"]["spent"]
    took = cells.tokens_of(spent) or cells.cost_of(spent)
    scores = [row["buckets"].get(name) for name in buckets]
    return [
        cells.score(figures),
        cells.interval(figures),
        cells.trials(figures),
        *(cells.score(each) if each else NOT_KNOWN for each in scores),
        tokens_cell(cells.tokens_of(spent)) if took else NOT_KNOWN,
        cost_cell(cells.cost_of(spent)) if took else NOT_KNOWN,
        format_seconds(cells.time_of(spent)),
        wall_cell(cells.wall_of(spent)),
        cells.turns(spent) or NOT_KNOWN,
    ]

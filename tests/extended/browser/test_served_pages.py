"""The pages of ``agenteval view``: whoever looks, wherever, at hundreds of runs and at hostile ones."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import (
    RunHeader,
    RunModel,
    RunSuite,
    list_runs,
    new_run,
    planned_groups,
    write_planned,
)
from tests.cli.viewing import side
from tests.extended.browser.sample_reports import HOSTILE
from tests.extended.browser.served import Served, ServedVisit, report, serving
from tests.extended.browser.test_looks import AXE, LOOKS
from tests.extended.browser.visit import PHONE, WIDE, trial_address
from tests.reports.runs import CAPABILITY, RULES_MODEL, key, store_run, trial

Open = Callable[..., ServedVisit]
MODELS = ("fast", "mid", "slow")
FIGURES_READ = "!document.querySelector('.status').textContent.includes('being read')"


@pytest.fixture(scope="module")
def results(compared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two compared runs, one of three models and two prompts, and one that never ended."""
    folder = tmp_path_factory.mktemp("pages") / "runs"
    shutil.copytree(compared.parent / "runs", folder, symlinks=True)
    models = tuple(RunModel(name, name, offline=True, note="follows a script") for name in MODELS)
    trials = [
        trial(f"t{task}", 1, (task + at) % 3 / 2, f"b{task % 2}", key=key(f"t{task}", 1, model, variant))
        for at, model in enumerate(MODELS)
        for variant in ("", "short")
        for task in range(6)
    ]
    store_run(folder, trials, models=models)
    unended = new_run(folder, RunHeader("2026-11-25T09:30:15+00:00", models=models[:1], suites=(CAPABILITY,)))
    write_planned(unended, planned_groups([(key(f"t{task}"), "b") for task in range(9)]))
    JournalWriter(unended, "main-1").finished([trial("t1", 1, 0.5)])
    return folder


@pytest.fixture(scope="module")
def served(results: Path) -> Iterator[Served]:
    """They are served."""
    with serving(results) as server:
        yield server


def opened(seen: ServedVisit) -> None:
    """Wait until all is there, and unfold it."""
    seen.until("document.readyState === 'complete'")
    seen.until("!document.querySelector('.status')?.textContent.includes('being read')")
    seen.get("for (const fold of document.querySelectorAll('details')) fold.open = true")


def pages(results: Path) -> dict[str, str]:
    """Give the pages by name."""
    newest, *_, old = [run.path.name for run in list_runs(results)]
    return {
        "list": "/",
        "leaderboard": "/leaderboard?suite=s&runs=all",
        "trend": "/trend?suite=s",
        "report": report(old),
        "not ended": report(newest),
        "three sides": report(*(side("run", _of_models(results), model, "") for model in MODELS)),
    }


def _of_models(results: Path) -> str:
    return next(run.path.name for run in list_runs(results) if len(run.header.models) == len(MODELS))


@pytest.mark.parametrize("page", ["list", "leaderboard", "trend", "report", "not ended", "three sides"])
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_no_serious_fault(
    visit_served: Open, served: Served, results: Path, look: str, page: str
) -> None:
    """Contrast, names, roles and landmarks hold on every page, in every look; none is wider than a phone."""
    seen = visit_served(served, "/", **LOOKS[look])
    seen.page.goto(served.origin + pages(results)[page])
    opened(seen)
    if page in ("list", "leaderboard"):
        seen.page.locator(".check input").nth(1).click()
        seen.page.locator(".check input").nth(0).click()
        seen.until("document.querySelector('.compare')")
    seen.get(AXE.read_text(encoding="utf-8"))
    faults = seen.get("axe.run().then(result => result.violations)")
    serious = {
        f"{fault['id']}: {node['target']} {node['failureSummary'][:200]}"
        for fault in faults
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    }
    assert serious == set()
    if LOOKS[look].get("viewport") == PHONE:
        assert seen.get("document.scrollingElement.scrollWidth") <= PHONE["width"]


def test_sides_are_picked_and_compared_by_keyboard(visit_served: Open, served: Served, results: Path) -> None:
    """``j`` and ``x`` pick runs, ``c`` compares; the address keeps what was picked, and back leads to it."""
    seen = visit_served(served)
    seen.until(FIGURES_READ)
    names = [run.path.name for run in list_runs(results)]
    shown = seen.get("[...document.querySelectorAll('a[data-run]')].map(link => link.dataset.run)")
    assert set(shown) == set(names)
    seen.press("/")
    seen.page.keyboard.type("rules 20261121")
    seen.press("Escape")
    seen.until("document.querySelectorAll('tbody.run').length === 2")
    seen.press("j", "x", "j", "x")
    seen.until("document.querySelectorAll('.compare li').length === 2")
    assert seen.get("document.querySelector('.compare .go').textContent") == "Compare 2 sides"
    address = seen.get("location.hash")
    assert address.count("pick=") == 2
    seen.press("c")
    seen.until("document.body.dataset.view === 'list' && document.querySelectorAll('.row.task').length")
    assert "is worse" in seen.get("document.querySelector('h1').textContent")
    seen.page.go_back()
    seen.until("document.querySelectorAll('.compare li').length === 2")
    assert seen.get("location.hash") == address


def test_models_and_variants_of_a_run_are_picked(visit_served: Open, served: Served, results: Path) -> None:
    """Each by itself, and one with the other: the report has just these sides."""
    seen = visit_served(served)
    seen.until(FIGURES_READ)
    name = _of_models(results)
    rows, parts = (f"tbody:has([data-run='{name}']) {part} label" for part in (".who", ".parts"))
    words = [
        seen.get(f"[...document.querySelectorAll({labels!r})].map(label => label.textContent.trim())")
        for labels in (rows, parts)
    ]
    whos = [f"{model}{prompt}" for model in MODELS for prompt in ("", "@short")]
    both = [*(f"{model}, all prompts" for model in MODELS), "own prompts, all models", "short, all models"]
    assert words == [whos, both]
    seen.page.locator(f"tbody:has([data-run='{name}']) summary").click()
    for labels, part in ((parts, "slow, all prompts"), (parts, "short, all models"), (rows, "fast")):
        seen.page.locator(labels).get_by_text(part, exact=True).click()
    seen.page.click(".compare .go")
    seen.until("document.querySelectorAll('.sides-table tbody tr').length === 3")
    assert seen.get("document.querySelector('.kicker .counts').textContent").endswith("3 sides")


def test_a_leaderboard_is_sorted_by_any_column(visit_served: Open, served: Served, results: Path) -> None:
    """By a click or Enter on its heading, the largest first, then the smallest, then the best as before."""
    seen = visit_served(served, "/leaderboard?suite=s&runs=all")
    cells = "[...document.querySelectorAll('.standings tbody tr')].map(row => row.cells[{}].textContent)"
    first = seen.get(cells.format(2))
    assert first == sorted(first, reverse=True)
    heading = seen.page.locator(".standings thead button").nth(2)
    heading.focus()
    seen.press("Enter")
    trials = [int(text.split()[0]) for text in seen.get(cells.format(4))]
    assert trials == sorted(trials, reverse=True)
    assert seen.get("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "descending"
    seen.press("Enter")
    assert [int(text.split()[0]) for text in seen.get(cells.format(4))] == sorted(trials)
    seen.press("Enter")
    assert seen.get(cells.format(2)) == first


@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["phone", "wide"])
def test_names_without_a_space_are_broken_and_nothing_gets_wider(
    visit_served: Open, tmp_path: Path, size: dict[str, int]
) -> None:
    """Models, suites, buckets and tasks of 300 characters: one scrolls down, and never sideways."""
    trials = [
        trial("a", 1, score, "b" * 300, key=TrialKey("s" * 300, "t" * 300, "card", name * 300, "", 1))
        for name, score in (("x", 0.0), ("y", 0.5), ("z", 1.0))
    ]
    models = tuple(RunModel(each.key.model, each.key.model) for each in trials)
    run = store_run(tmp_path / "runs", trials, models=models, suites=(RunSuite("s" * 300, "capability", ""),))
    with serving(tmp_path / "runs") as served:
        for path in ("/", report(run.folder.name), "/trend"):
            seen = visit_served(served, "/", viewport=size)
            seen.page.goto(served.origin + path)
            opened(seen)
            seen.until(
                "document.querySelector('.parts, .row.task, svg') || document.readyState === 'complete'"
            )
            assert seen.get("document.scrollingElement.scrollWidth") <= size["width"], path


@pytest.mark.posix
def test_a_hostile_run_does_nothing(visit_served: Open, hostile: Path, tmp_path: Path) -> None:
    """No page runs what a run's texts or names say, or asks for it; all of it is there to read."""
    folder = tmp_path / "runs"
    shutil.copytree(hostile.parent / "runs", folder, symlinks=True)
    (run,) = list_runs(folder)
    name = HOSTILE.replace("/", "∕")[:90]
    (folder / "latest").unlink()
    run.path.rename(folder / name)
    with serving(folder) as served:
        seen = visit_served(served)
        seen.until(FIGURES_READ)
        assert "window.PWNED" in seen.get("document.querySelector('[data-run]').textContent")
        seen.page.locator(".check input").first.click()
        for path in (report(side("run", name)), "/leaderboard", "/leaderboard?runs=all", "/trend"):
            seen.page.goto(served.origin + path)
            opened(seen)
            assert seen.get("window.PWNED ?? 'nothing'") == "nothing"
            assert "window.PWNED" in seen.get("document.body.textContent")
        seen.visit(report(side("run", name)))
        seen.page.locator(".row.task a.name").first.click()
        seen.until("document.getElementById('conversation')")
        seen.press("c")
        seen.page.keyboard.type("<img src=x onerror='window.PWNED=9'>")
        seen.page.click(".live-note button")
        seen.until("document.querySelector('.live-note').textContent.includes('saved')")
        assert seen.get("window.PWNED ?? 'nothing'") == "nothing"


def test_nobody_gets_in_without_the_token(browser: Any, served: Served) -> None:
    """Another browser on this machine sees nothing, not even which runs there are."""
    page = browser.new_context().new_page()
    for path in ("/", "/api/runs", "/?token=wrong", "/report?side=run%2Fx"):
        answer = page.goto(served.origin + path)
        assert answer.status == 403
        assert "agenteval view" in page.content()
    page.context.close()


def test_hundreds_of_runs_are_listed_within_a_second(visit_served: Open, tmp_path: Path) -> None:
    """With their names at once, and figures right after: the best of several loads on a busy machine."""
    for number in range(500):
        moment = f"2026-11-{1 + number % 28:02}T{number % 24:02}:{number % 60:02}:15+00:00"
        folder = new_run(tmp_path / "runs", RunHeader(moment, models=(RULES_MODEL,), suites=(CAPABILITY,)))
        JournalWriter(folder, "main").finished([trial(f"t{task}", 1, task % 3 / 2) for task in range(30)])
    with serving(tmp_path / "runs") as served:
        times = []
        for _ in range(8):
            seen = visit_served(served)
            times.append(seen.get("performance.getEntriesByName('list-usable')[0].startTime"))
            assert seen.count("tbody.run") == 500
            seen.until(FIGURES_READ)
            if min(times) <= 1000:
                break
        print(f"500 runs after {times[0]:.0f} ms, at best {min(times):.0f} ms")
        assert min(times) <= 1000
        seen.page.fill("#filter", "20261117")
        seen.until("document.querySelectorAll('tbody.run').length < 30")


def test_a_run_of_20000_trials_is_usable_in_seconds(visit_served: Open, tmp_path: Path) -> None:
    """The index is sent once and packed; a trial of it opens at once."""
    chance = random.Random(1)
    header = RunHeader("2026-11-21T09:30:15+00:00", models=(RULES_MODEL,), suites=(CAPABILITY,))
    folder = new_run(tmp_path / "runs", header)
    writer = JournalWriter(folder, "main")
    for task in range(5000):
        scores = [chance.choice((0.0, 0.5, 1.0, 1.0)) for _ in range(4)]
        name, bucket = f"task_{task:04}", f"bucket_{task % 24:02}"
        writer.finished([trial(name, number, score, bucket) for number, score in enumerate(scores, 1)])
    with serving(tmp_path / "runs") as served:
        times = []
        seen = visit_served(served)
        for _ in range(4):
            seen.visit(report(folder.name))
            usable = seen.get("performance.getEntriesByName('list-usable')[0].startTime")
            answered = seen.get("performance.getEntriesByType('navigation')[0].responseStart")
            times.append((usable - answered, usable))
            assert seen.count(".row.task") > 10
        first, again, own = times[0][1], times[-1][1], min(times)[0]
        print(f"20,000 trials: {first:.0f} ms, {again:.0f} ms when known, {own:.0f} ms of it the browser's")
        assert own <= 2500
        seen.go(trial_address("s/task_4321[rules-3]"))
        seen.until("document.querySelector('.sheet')", 5)

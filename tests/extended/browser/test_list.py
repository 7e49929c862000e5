"""The list: what is seen first, what narrows it, what is reached from it; figures as in other reports."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.records.transcript import (
    Figure,
    Message,
    Transcript,
    Usage,
    format_cost,
    format_seconds,
)
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text.formatting import format_figure
from tests.extended.browser.sample_reports import TASKS, write
from tests.extended.browser.visit import PHONE, TALL, WIDE, Visit
from tests.reports import odd_runs
from tests.reports.runs import store_run, trial

Open = Callable[..., Visit]


def test_what_became_worse_stands_first(visit: Open, compared: Path) -> None:
    """The verdict is the heading, and rows go from the worst change to the best."""
    seen = visit(compared, viewport=TALL)
    assert "b0" in seen.get("document.querySelector('#head h1').textContent")
    assert seen.rows[:5] == ["task_00", "task_06", "task_12", "task_18", "task_24"]
    changes = seen.get("[...document.querySelectorAll('.row.task .change')].map(each => each.textContent)")
    assert changes[0] == "−0.60"
    assert seen.rows[-5:] == ["task_01", "task_07", "task_13", "task_19", "task_25"]


def test_chips_filter_and_count_what_they_show(visit: Open, compared: Path) -> None:
    """Each chip shows as many rows as it counts, two the rows of either; a second click ends it."""
    seen = visit(compared, viewport=TALL)
    for chip in seen.page.locator(".chip").all():
        chip.click()
        number = int(chip.locator("b").text_content() or "")
        assert len(seen.rows) == number, chip.text_content()
        assert chip.get_attribute("aria-pressed") == "true"
        chip.click()
        assert len(seen.rows) == TASKS
    seen.page.locator("[data-filter=better]").click()
    seen.page.locator("[data-filter=worse]").click()
    assert len(seen.rows) == 10
    assert seen.get("location.hash") == "#/?show=better,worse"


def test_filters_stand_in_the_address(visit: Open, compared: Path) -> None:
    """A filtered list can be shared, and the back button undoes a step."""
    seen = visit(compared, "#/?show=missed&q=task_0")
    assert seen.rows == ["task_00", "task_06", "task_02", "task_08"]
    seen.page.locator(".figures.bucket", has_text="b0").click()
    seen.until("document.querySelectorAll('.row.task').length === 2")
    seen.page.go_back()
    seen.until("document.querySelectorAll('.row.task').length === 4")
    assert seen.get("document.getElementById('filter').value") == "task_0"


def test_search_looks_at_reasons_too(visit: Open, compared: Path) -> None:
    """All words must be there, anywhere in what is known of a task."""
    seen = visit(compared, viewport=TALL)
    seen.page.fill("#filter", "NOTE kept b2")
    assert seen.rows == ["task_02", "task_08", "task_14", "task_20", "task_26"]
    seen.until("decodeURIComponent(location.hash) === '#/?q=NOTE kept b2'")
    seen.page.fill("#filter", "nothing has this")
    assert seen.count(".nothing") == 1


def test_columns_and_buckets_order_rows(visit: Open, compared: Path) -> None:
    """A heading orders, a second click turns the order; grouped, a bucket's rows stand below its name."""
    seen = visit(compared, viewport=TALL)
    seen.page.get_by_role("button", name="Task").click()
    assert seen.rows[:3] == ["task_00", "task_01", "task_02"]
    seen.page.get_by_role("button", name="Task").click()
    assert seen.rows[0] == f"task_{TASKS - 1}"
    seen.page.get_by_label("by bucket").check()
    groups = seen.get("[...document.querySelectorAll('.row.group b')].map(each => each.textContent)")
    assert sorted(groups) == [f"b{number}" for number in range(6)]


def test_cells_say_without_colour_how_trials_ended(visit: Open, compared: Path) -> None:
    """Each repetition has a cell with a sign and a name, the old run's beside the new one's."""
    seen = visit(compared, "#/?q=task_04")
    cells = "[...document.querySelectorAll('.row.task .cell')]"
    assert seen.get(f"{cells}.map(each => each.dataset.sign)") == ["✓", "✓", "✓", "✓", "!", "✓"]
    labels = seen.get(f"{cells}.map(each => each.getAttribute('aria-label'))")
    assert labels[0] == "A (old), repetition 1: passed 1.00"
    assert labels[4] == "B, repetition 2: errored"


@pytest.mark.parametrize("script", [True, False])
def test_the_head_needs_no_script(visit: Open, compared: Path, script: bool) -> None:
    """Verdict, counts and the figures of suites and buckets are in the file as it is."""
    seen = visit(compared, java_script_enabled=script)
    assert "b0" in seen.page.locator("#head h1").text_content()
    assert seen.page.locator(".chip").count() == 6
    if not script:
        assert seen.page.locator(".fallback tbody tr").count() == 7


def test_little_of_a_long_list_is_drawn(visit: Open, large: Path) -> None:
    """500 rows are as quick as 50, and all of them are reached."""
    seen = visit(large)
    assert seen.count(".row.task") < 60
    seen.get("scrollTo(0, document.documentElement.scrollHeight)")
    seen.until("[...document.querySelectorAll('.row.task')].some(row => row.ariaRowIndex === '501')")
    assert seen.count(".row.task") < 60


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_many_repetitions_are_counted_and_cut_nowhere(
    visit: Open, tmp_path: Path, viewport: dict[str, int]
) -> None:
    """Where not all cells fit, the row says how many more there are; the trial's page has them all."""
    old, new = (
        store_run(tmp_path / "runs", [trial("a", n, score) for n in range(1, 21)]) for score in (1.0, 0.5)
    )
    seen = visit(write(tmp_path, old, new), viewport=viewport)
    for strip in seen.page.locator(".row.task .strip").all():
        more = int((strip.locator(".further").text_content() or "").removeprefix("+"))
        assert strip.locator(".cell").count() + more == 20
    assert seen.get("(box => box.scrollWidth <= box.clientWidth)(document.querySelector('.row > .trials'))")
    seen.page.locator(".row.task .reason").click()
    seen.until("document.querySelectorAll('.summary .cell').length === 40")


EIGHTHS = [number / 8 for number in range(9)]
"""Scores that lie between two figures of two digits: Python rounds to the even one, JavaScript up."""

COSTS = [None, 0.0, 0.03125, 1.125]
QUOTED = "what's; echo `acted`"


def _trials() -> Iterator[Trial]:
    for place, score in enumerate(EIGHTHS):
        usage = Usage(10, 10, cost_usd=COSTS[place % len(COSTS)], asks=1, attempts=1)
        said = Transcript((Message("user", "half \ud800"),), usage=usage)
        yield trial(f"t{place}", 1, score, f"b{place}", transcript=said)
    yield trial(QUOTED, 1, 0.5, "b8", transcript=Transcript((Message("user", "hello"),)))


@pytest.fixture(scope="module")
def eighths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every score that two programs may round in two ways."""
    folder = tmp_path_factory.mktemp("eighths")
    return write(folder, store_run(folder / "runs", _trials()))


def test_figures_are_those_of_other_reports(visit: Open, eighths: Path) -> None:
    """A score is never 0.62 in the terminal and 0.63 on the page, in rows, buckets and trials."""
    seen = visit(eighths, "#/?sort=task", viewport=TALL)
    expected = list(map(format_figure, EIGHTHS))
    shown = "[...document.querySelectorAll('{} .number:not(.dim)')].slice(0, 9).map(each => each.textContent)"
    assert seen.get(shown.format(".row.task")) == expected
    assert {*expected} - {"1.00"} <= {*seen.get(shown.format(".figures.bucket"))}
    seen.open_trial("s/t5[rules-1]")
    assert seen.get("document.querySelector('.summary .score').textContent") == "0.62"


def test_a_cost_that_nobody_knows_is_not_0(visit: Open, eighths: Path) -> None:
    """Costs are rounded as everywhere, and one without a price says so and comes last."""
    seen = visit(eighths, "#/?sort=cost&q=rules", viewport=TALL)
    costs = seen.get("[...document.querySelectorAll('.row.task .number.dim')].map(each => each.textContent)")
    assert costs[:2] == [format_cost(Figure(1.125))] * 2
    assert costs[2:4] == [format_cost(Figure(0.03125))] * 2
    assert costs[-3:] == ["cost unknown"] * 3


def test_time_of_which_a_part_is_unknown_says_so(visit: Open, tmp_path: Path) -> None:
    """An attempt of which a process died took time, and nobody knows how much: as on the terminal."""
    run = odd_runs.resumed(tmp_path / "runs")
    seconds = compared_run(run).resources.seconds
    assert seconds.unknown > 0
    seen = visit(write(tmp_path, run))
    strip = "document.querySelectorAll('.strip-of-figures dd')"
    texts = seen.get(f"[...{strip}].map(each => each.textContent.trim())")
    assert format_seconds(seconds) in texts


def test_a_command_that_is_copied_does_nothing_else(visit: Open, eighths: Path) -> None:
    """A task's name is one argument, whatever stands in it; its run is named: it may not be the latest."""
    seen = visit(eighths)
    seen.open_trial(name := f"s/{QUOTED}[rules-1]")
    command = seen.get("document.querySelector('.facts .command').textContent")
    run = seen.get("document.querySelector('.runs code').textContent")
    assert shlex.split(command) == ["agenteval", "show", name, "--run", run]


def test_a_change_says_over_which_tasks_it_is(visit: Open, tmp_path: Path) -> None:
    """A score over tasks that the old run lacks is not the end of the change, and no dot says that it is."""
    old = store_run(tmp_path / "runs", [trial("a", 1, 0.5, "x"), trial("c", 1, 0.5, "y")])
    new = [trial("a", 1, 0.75, "x"), trial("b", 1, 0.0, "x"), trial("c", 1, 0.75, "y")]
    seen = visit(write(tmp_path, old, store_run(tmp_path / "runs", new)), viewport=TALL)
    rows = seen.get("[...document.querySelectorAll('.figures.bucket')].map(row => row.innerText).sort()")
    assert ["compared over 1 of 2 tasks" in row for row in rows] == [True, False]
    ends = "[...document.querySelectorAll('.figures.bucket .dot')].map(dot => +dot.getAttribute('cx'))"
    assert seen.get(ends) == [4 + 92 * score for score in (0.5, 0.75) * 2]

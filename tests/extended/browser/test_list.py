"""The list: what is seen first, what narrows it, and what is reached from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.extended.browser.sample_reports import TASKS, write
from tests.extended.browser.visit import PHONE, TALL, WIDE, Visit
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
    assert labels[0] == "before, repetition 1: passed 1.00"
    assert labels[4] == "repetition 2: errored"


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

"""Everything can be done without a mouse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.extended.browser.visit import Visit

Open = Callable[..., Visit]
FOCUSED = "document.activeElement.textContent"


def test_a_walk_by_keys_alone(visit: Open, compared: Path) -> None:
    """Filter, choose a row, open it, walk on, see the old trial, read the keys, and go back."""
    seen = visit(compared)
    seen.press("/")
    assert seen.get("document.activeElement.id") == "filter"
    seen.page.keyboard.type("b0")
    seen.press("Escape", "j", "j")
    seen.until(f"{FOCUSED} === 'task_06'")
    seen.press("k", "Enter")
    seen.until("document.getElementById('conversation')")
    assert seen.title == "task_00"
    seen.press("j", "j", "j")
    seen.until("document.querySelector('.trial h1').textContent === 'task_06'")
    seen.press("k")
    seen.until("document.querySelector('.trial h1').textContent === 'task_00'")
    seen.press("o")
    seen.until("document.querySelectorAll('.side #conversation').length === 2")
    seen.page.go_back()
    seen.until("document.getElementById('filter')?.value === 'b0'")
    seen.page.go_forward()
    seen.until("document.getElementById('conversation')")
    seen.press("?")
    assert seen.get("document.getElementById('keys').open")
    seen.press("Escape")
    assert not seen.get("document.getElementById('keys').open")
    seen.press("u")
    seen.until("document.body.dataset.view === 'list'")
    seen.until(f"{FOCUSED} === 'task_00'")


def test_slash_leads_from_a_trial_to_the_filter(visit: Open, compared: Path) -> None:
    """One key is enough to look for something else."""
    seen = visit(compared, "#/t/s%2Ftask_06%5Brules-2%5D")
    seen.press("/")
    seen.until("document.activeElement.id === 'filter'")


def test_tab_reaches_everything(visit: Open, compared: Path) -> None:
    """What can be clicked can be reached by Tab, in the order of the page."""
    seen = visit(compared, "#/?q=task_0")
    reached = set()
    for _ in range(150):
        seen.press("Tab")
        reached.add(seen.get("document.activeElement.outerHTML.slice(0, 300)"))
    clickable = "a[href], button:not(:disabled), input, select, summary"
    visible = f"[...document.querySelectorAll('{clickable}')].filter(each => each.checkVisibility())"
    missed = set(seen.get(f"{visible}.map(each => each.outerHTML.slice(0, 300))")) - reached
    assert missed == set()


def test_the_skip_link_leads_past_the_head(visit: Open, compared: Path) -> None:
    """The first Tab offers to skip what one has read."""
    seen = visit(compared, "#/?show=worse")
    seen.press("Tab", "Enter")
    assert seen.get("document.activeElement.id") == "app"
    assert seen.get("location.hash") == "#/?show=worse"


def test_j_reaches_rows_that_are_not_drawn_yet(visit: Open, large: Path) -> None:
    """Walking down a long list draws what comes next, and the focus is never lost."""
    seen = visit(large)
    for _ in range(80):
        seen.press("j")
    seen.until("document.activeElement.closest('.row')?.ariaRowIndex === '81'")
    assert seen.get("document.activeElement.getBoundingClientRect().top") > 0

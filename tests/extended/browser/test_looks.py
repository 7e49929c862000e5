"""Light, dark, a phone, paper, and no mouse: whoever reads it, wherever."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.extended.browser.visit import PHONE, Visit, trial_address

Open = Callable[..., Visit]
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
TRIAL = trial_address("s/task_02[rules-1]")
LOOKS: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": PHONE},
    "dark phone": {"viewport": PHONE, "color_scheme": "dark"},
}


def test_axe_is_the_one_that_was_recorded() -> None:
    """What judges the page is what its makers publish."""
    record = (AXE.parent / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() in record


@pytest.mark.parametrize("keys", [None, "", "o"], ids=["list", "trial", "beside"])
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_no_serious_fault(visit: Open, compared: Path, look: str, keys: str | None) -> None:
    """Contrast, names, roles and landmarks hold on the list, on a trial and on two, in every look."""
    seen = visit(compared, "" if keys is None else TRIAL, **LOOKS[look])
    if keys is not None:
        seen.press(*keys)
        seen.until(f"document.querySelector('{'.beside .made' if keys else '#conversation'}')")
    assert faults_of(seen) == set()


@pytest.mark.parametrize("sides", ["one", "three", "six", "lanes", "base"])
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_no_serious_fault_in_any_number_of_sides(
    visit: Open, request: pytest.FixtureRequest, look: str, sides: str
) -> None:
    """So it is with one side, with three and more, with filters, and with the panel that adds one."""
    seen = visit(request.getfixturevalue(sides), "#/?ending=missed&q=e", **LOOKS[look])
    seen.press("x", "f")
    assert seen.count(".panel") == 1
    assert faults_of(seen) == set()
    seen.press("Escape")
    menu = seen.page.locator(".menu > button").last
    if menu.is_visible():
        menu.click()
        assert seen.count("[role=menuitem]") > 2
        assert faults_of(seen) == set()


def faults_of(seen: Visit) -> set[str]:
    """Give what axe finds serious, with everything that is folded opened."""
    seen.get("for (const fold of document.querySelectorAll('details')) fold.open = true")
    seen.get(AXE.read_text(encoding="utf-8"))
    faults = seen.get("axe.run().then(result => result.violations)")
    return {
        f"{fault['id']}: {node['target']} {node['failureSummary'][:200]}"
        for fault in faults
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    }


@pytest.mark.parametrize("address", ["", TRIAL], ids=["list", "trial"])
def test_nothing_is_wider_than_a_phone(visit: Open, compared: Path, address: str) -> None:
    """At 390 pixels one scrolls down and never sideways, with everything opened and the old trial beside."""
    seen = visit(compared, address, viewport=PHONE)
    if address:
        seen.until("document.getElementById('conversation')")
        seen.press("o")
        seen.until("document.querySelector('.beside .made')")
    seen.get("for (const fold of document.querySelectorAll('details')) fold.open = true")
    assert seen.get("document.scrollingElement.scrollWidth") <= PHONE["width"]


def test_dark_is_dark(visit: Open, compared: Path) -> None:
    """The page follows the reader's system."""
    background = "getComputedStyle(document.body).backgroundColor"
    assert visit(compared).get(background) != visit(compared, color_scheme="dark").get(background)


def test_nothing_moves_for_those_who_want_no_motion(visit: Open, compared: Path) -> None:
    """No transition and no animation where the system asks for none."""
    seen = visit(compared, reduced_motion="reduce")
    moving = """[...document.querySelectorAll('*')].filter(each => {
        const style = getComputedStyle(each);
        return parseFloat(style.transitionDuration) > 0 || style.animationName !== 'none';
    }).length"""
    assert seen.get(moving) == 0


def test_paper_has_everything(visit: Open, compared: Path, tmp_path: Path) -> None:
    """A printed trial has its reason and all of its conversation, folded or not; a printed list all rows."""
    seen = visit(compared, TRIAL)
    seen.until("document.getElementById('conversation')")
    seen.page.pdf(path=tmp_path / "trial.pdf")
    assert (tmp_path / "trial.pdf").stat().st_size > 10_000
    seen.page.emulate_media(media="print")
    seen.get("dispatchEvent(new Event('beforeprint'))")
    for text in ("the note is kept", "You keep notes.", "nothing is lost", "read only", "answer of 2"):
        assert seen.page.get_by_text(text).first.is_visible(), text
    assert not seen.page.get_by_role("button").first.is_visible()
    seen.get("dispatchEvent(new Event('afterprint'))")
    seen.page.emulate_media(media="screen")
    assert not seen.page.get_by_text("You keep notes.").last.is_visible()


def test_paper_has_all_rows(visit: Open, large: Path) -> None:
    """What is drawn on demand is drawn in full for paper."""
    seen = visit(large, "#/?q=bucket_07")
    assert seen.get("document.querySelector('.status').textContent") == "21 of 500 tasks"
    seen.go("#/")
    seen.until("document.querySelector('.status').textContent === '500 tasks'")
    seen.get("dispatchEvent(new Event('beforeprint'))")
    assert seen.count(".row.task") == 500


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
    seen.until("document.querySelector('.beside .made')")
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


@pytest.mark.parametrize(
    ("report", "address"), [("compared", "#/?q=task_0"), ("three", "#/?q=delivery_0&tool=refund")]
)
def test_tab_reaches_everything(
    visit: Open, request: pytest.FixtureRequest, report: str, address: str
) -> None:
    """What can be clicked can be reached by Tab, in the order of the page."""
    seen = visit(request.getfixturevalue(report), address)
    reached = set()
    for _ in range(170):
        seen.press("Tab")
        reached.add(seen.get("document.activeElement.outerHTML.slice(0, 300)"))
    # Radio buttons of one name are one stop: arrow keys choose among them.
    radios = "input[type=radio]:not(:checked)"
    clickable = f"a[href], button:not(:disabled), input:not({radios}), select, summary"
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

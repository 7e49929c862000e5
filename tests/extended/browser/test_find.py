"""Why trials missed, filters, and words in transcripts: what leads to a trial that shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.reports.causes import causes_of
from pytest_agenteval.store.run_reader import load_run
from tests.extended.browser.visit import TALL, Visit

Open = Callable[..., Visit]
STATUS = "document.querySelector('.status').innerText"
SEARCHING = "document.querySelector('.searching').innerText"


def asked_cells(seen: Visit) -> int:
    """Count the trials that fit all filters: the others of the rows are pale."""
    return seen.count(".row.task .cell:not(.unasked)")


def found(seen: Visit, words: str) -> str:
    """Search all transcripts; give what the page says of it."""
    seen.page.fill("#filter", words)
    seen.page.locator(".offer", has_text="search").click()
    seen.until("document.querySelector('.searching') && !document.querySelector('.searching progress')")
    said: str = seen.get(SEARCHING)
    return said


def test_causes_count_what_their_filter_shows(visit: Open, three: Path) -> None:
    """Trials, tasks and sides of a cause are those of every report; a click shows them, the worst opens."""
    run = load_run(next((three.parent / "runs").iterdir()))
    by_side = [[e for e in run.entries if e.key.model == name] for name in ("fast", "mid", "slow")]
    causes = causes_of(by_side)
    seen = visit(three, viewport=TALL)
    rows = seen.page.locator(".causes tbody tr").all()
    assert len(rows) == len(causes) == 3
    for place, cause in enumerate(causes):
        row = seen.page.locator(".causes tbody tr").nth(place)
        numbers = [int(text) for text in row.locator("td.number").all_inner_texts()]
        assert numbers == [*map(len, cause.sides), cause.trials, cause.tasks]
        row.locator(".cause").click()
        seen.until("document.querySelectorAll('.pill').length === 1")
        assert len(seen.rows) == cause.tasks
        assert asked_cells(seen) == cause.trials
        address = seen.get("location.hash")
        again = visit(three, address, viewport=TALL)
        assert len(again.rows) == cause.tasks
        row.locator(".cause").click()
        seen.until("!document.querySelector('.pill')")
        assert seen.get("location.hash") == "#/"
    seen.page.locator(".causes .worst a").first.click()
    seen.until("document.getElementById('conversation')")
    assert causes[0].worst.key.task == seen.title


def test_filters_combine_and_are_taken_back_one_by_one(visit: Open, three: Path) -> None:
    """One control adds them by keys alone; each is a pill; trials have to fit all, values of one add up."""
    seen = visit(three, viewport=TALL)
    seen.press("f")
    seen.page.keyboard.type("find_order")
    seen.press("ArrowDown", "Enter", "Escape")
    assert seen.get("location.hash") == "#/?tool=find_order"
    assert seen.get(STATUS) == "12 of 24 tasks"
    assert asked_cells(seen) == 70
    seen.go("#/?side=fast,slow&tool=find_order&ending=passed")
    assert asked_cells(seen) == seen.count(".row.task .of-side:is(:nth-child(2), :nth-child(4)) .passed")
    assert seen.count(".pill") == 4
    seen.page.get_by_role("link", name="remove filter side fast").click()
    seen.until("document.querySelectorAll('.pill').length === 3")
    assert seen.get("location.hash") == "#/?side=slow&tool=find_order&ending=passed"
    seen.page.get_by_role("link", name="clear all").click()
    seen.until("!document.querySelector('.pill')")
    assert seen.get(STATUS) == "24 tasks"


@pytest.mark.parametrize(
    ("address", "tasks"),
    [
        ("tag=smoke", 6),
        ("bucket=refunds", 8),
        ("bucket=refunds,opt_out", 16),
        ("bucket=refunds&tag=smoke", 2),
        ("ending=errored", 1),
        ("grader=refunded&ending=passed", 0),
        ("note=looked%20at", 1),
        ("tool=nothing", 0),
        ("constructor=x&__proto__=y", 24),
    ],
)
def test_every_filter_has_its_address(visit: Open, three: Path, address: str, tasks: int) -> None:
    """What is filtered by can be shared, alone and with others."""
    seen = visit(three, f"#/?{address}", viewport=TALL)
    assert len(seen.rows) == tasks


def test_what_is_typed_is_offered_as_a_filter(visit: Open, three: Path) -> None:
    """The name of a tool or of a cause is one click: nobody has to know which filter it is."""
    seen = visit(three, viewport=TALL)
    seen.press("/")
    seen.page.keyboard.type("refund")
    offers = seen.page.locator(".offer").all_inner_texts()
    assert "search 142 transcripts for refund" in offers[0]
    assert any("tool called refund" in offer for offer in offers)
    seen.press("ArrowDown", "Tab")
    seen.page.locator(".offer", has_text="tool called refund").click()
    seen.until("document.querySelector('.pill')")
    assert seen.get("location.hash") == "#/?tool=refund"


@pytest.mark.parametrize(
    ("words", "trials"),
    [
        ("A-007", 6),
        ("a-007 way", 5),
        ('"where is my order 3?"', 6),
        ("1.000 원", 142),
        ("원 sorry nothing-like-this", 0),
        ('i am "sorry" refund', None),
        ("find_order", 70),
    ],
)
def test_words_are_found_in_transcripts(visit: Open, three: Path, words: str, trials: int | None) -> None:
    """In messages, in tools' names, arguments and results; whatever the case, quoted words as one."""
    seen = visit(three, viewport=TALL)
    said = found(seen, words)
    if trials is None:
        trials = seen.count(".row.task .cell.missed") + 1
        assert 0 < asked_cells(seen) <= trials
    else:
        assert said.startswith(f"{trials} trial")
        assert asked_cells(seen) == trials
    assert "in 142 transcripts" in said
    assert seen.get("location.hash").startswith("#/?text=")
    again = visit(three, seen.get("location.hash"), viewport=TALL)
    again.until("document.querySelector('.searching') && !document.querySelector('.searching progress')")
    assert again.get(SEARCHING) == said


def test_names_of_fields_are_no_words(visit: Open, three: Path) -> None:
    """How a transcript is stored is not searched: only what was said, called, given and left."""
    seen = visit(three, viewport=TALL)
    assert found(seen, "reasoning").startswith("0 trials")
    seen.page.get_by_role("link", name="remove filter in transcripts reasoning").click()
    seen.until("!document.querySelector('.searching')")
    assert found(seen, "order").startswith("142 trials")


def test_where_nothing_matches_enter_searches_transcripts(visit: Open, three: Path) -> None:
    """Words that no task and no reason has are looked for where they may stand."""
    seen = visit(three, viewport=TALL)
    seen.page.fill("#filter", "where is my order")
    assert seen.count(".row.task") == 0
    assert "Search 142 transcripts" in seen.get("document.querySelector('.nothing').innerText")
    seen.page.locator("#filter").press("Enter")
    seen.until("document.querySelectorAll('.row.task').length === 24")


def test_enter_searches_transcripts_and_escape_leaves_the_box_as_it_is(visit: Open, three: Path) -> None:
    """Names and reasons are filtered as one types; what the box shows is what the list is filtered by."""
    seen = visit(three, viewport=TALL)
    seen.press("/")
    assert 0 <= seen.get("document.getElementById('filter').getBoundingClientRect().top") < TALL["height"] / 2
    seen.page.keyboard.type("delivery")
    seen.press("Escape")
    assert seen.get("[document.getElementById('filter').value, document.activeElement.tagName]") == [
        "delivery",
        "BODY",
    ]
    shown = seen.count(".row.task")
    assert 0 < shown < 24
    seen.page.fill("#filter", "order")
    seen.page.locator("#filter").press("Enter")
    seen.until("location.hash.includes('text=order')")
    seen.press("Escape", "f")
    seen.page.keyboard.type("mid")
    seen.press("Enter")
    seen.until("location.hash.includes('side=mid')")


def test_a_baseline_is_counted_as_not_searched(visit: Open, base: Path) -> None:
    """Who finds nothing is told how many trials have no transcript."""
    seen = visit(base, viewport=TALL)
    assert "48 trials without a stored transcript" in found(seen, "order")


def test_a_search_shows_how_far_it_is_and_can_be_stopped(visit: Open, large: Path) -> None:
    """In a large file what was found is shown at once; it stops, goes on where it was, and is forgotten."""
    seen = visit(large)
    seen.until("document.readyState === 'complete'")
    seen.go("#/?text=nothing-has-this")
    seen.until("document.querySelector('.searching progress')?.value > 0")
    seen.page.get_by_role("button", name="Stop").click()
    stopped: Any = seen.get(SEARCHING)
    assert "of 2,000 transcripts" in stopped
    assert not seen.count(".searching progress")
    seen.page.get_by_role("button", name="Continue").click()
    seen.until(f"{SEARCHING}.includes('in 2,000 transcripts')")
    assert seen.get(SEARCHING).startswith("0 trials with")
    seen.page.get_by_role("link", name="remove filter in transcripts").click()
    seen.until("!document.querySelector('.searching')")

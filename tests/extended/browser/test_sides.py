"""One side and many: their figures, verdicts and columns, and any two trials beside each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_agenteval.reports.sides import sides_of
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.formatting import format_figure
from tests.extended.browser.sample_reports import write
from tests.extended.browser.sided_reports import LEFT_OUT, NOTED, SHARES, TASKS
from tests.extended.browser.visit import PHONE, TALL, Visit
from tests.reports.runs import key, store_run, trial

Open = Callable[..., Visit]
MATRIX = "[...document.querySelectorAll('.row.task')]"
MIDDLE = {"width": 1024, "height": 2400}


def scores_of(seen: Visit, side: int) -> list[str]:
    """Give a column of the table of tasks: the score of each row."""
    column: list[str] = seen.get(
        f"{MATRIX}.map(row => row.querySelectorAll('.of-side')[{side}].querySelector('.number').innerText)"
    )
    return column


def heads_of(seen: Visit) -> list[str]:
    """Give the sides that have columns."""
    heads: list[str] = seen.get(
        "[...document.querySelectorAll('.thead .of-side > button')].map(head => head.innerText.split(' ')[0])"
    )
    return heads


def test_a_task_is_one_row_and_counted_once(visit: Open, three: Path, lanes: Path) -> None:
    """24 tasks x 3 models are 24 tasks everywhere; so they are where two runs have two models each."""
    seen = visit(three, viewport=TALL)
    assert len(seen.rows) == TASKS
    assert "24 tasks, 142 trials, 3 sides" in seen.get("document.querySelector('.kicker').innerText")
    assert seen.get("document.querySelector('.status').innerText") == "24 tasks"
    assert "72 tasks" not in seen.get("document.body.textContent")
    seen = visit(lanes, viewport={"width": 1280, "height": 4000})
    assert len(seen.rows) == 2 * TASKS
    assert seen.get("document.querySelector('.status').innerText") == "24 tasks"
    assert "48 tasks" not in seen.get("document.body.innerText")
    seen.page.locator("[data-filter=missed]").click()
    missed = seen.get("document.querySelector('[data-filter=missed] b').innerText")
    assert seen.get("document.querySelector('.status').innerText") == f"{missed} of 24 tasks"


def test_each_side_has_a_line_with_its_figures(visit: Open, three: Path) -> None:
    """Score, interval, tasks passed, tokens and cost are those of the side; what is unknown says so."""
    sides = sides_of([load_run(next((three.parent / "runs").iterdir()))]).sides
    seen = visit(three, viewport=TALL)
    lines = seen.get("[...document.querySelectorAll('.sides-table tbody tr')].map(row => row.innerText)")
    for side, line in zip(sides, lines, strict=True):
        (suite,) = side.suites
        assert line.startswith(f"{side.label} ") or line.split()[0] == side.label
        assert format_figure(suite.total.score) in line
        assert f"{suite.total.tasks_passed} of {suite.total.tasks_decided} tasks" in line
        assert f"{int(suite.total.spent.tokens.known):,}" in line
    assert ["unknown" in line.split("\t")[-2] for line in lines] == [False, True, False]


def test_any_side_is_taken_as_the_old_one(visit: Open, three: Path) -> None:
    """Verdicts, changes, chips and the address follow; the back button takes it back."""
    seen = visit(three, viewport=TALL)
    says = "[...document.querySelectorAll('.sides-table .says')].map(cell => cell.innerText)"
    assert seen.get(says)[0] == "old"
    assert "better" in seen.get(says)[2]
    assert seen.get("document.querySelector('[data-filter=worse] b').innerText") == "0"
    seen.page.get_by_role("radio", name="compare with slow").check()
    assert seen.get("location.hash") == "#/?old=slow"
    assert [text.partition(" ")[2] and "worse" in text for text in seen.get(says)] == [True, True, ""]
    assert seen.get("document.querySelector('[data-filter=better] b').innerText") == "0"
    assert int(seen.get("document.querySelector('[data-filter=worse] b').innerText")) > 0
    seen.page.go_back()
    seen.until("document.querySelector('.sides-table .says').innerText === 'old'")
    seen.page.go_forward()
    seen.until("document.querySelector('.sides-table .says').innerText !== 'old'")
    bucket = "document.querySelector('.block.bucket').innerText"
    assert "old" in seen.get(bucket).split("slow")[1]
    seen.page.get_by_role("button", name="column fast").click()
    seen.page.get_by_role("menuitem", name="compare others with it").click()
    assert seen.get("location.hash") == "#/"
    assert seen.get(says)[0] == "old"


def test_a_column_is_sorted_hidden_and_brought_back(visit: Open, three: Path) -> None:
    """By its heading and its menu; the address has it, and figures of the others stay."""
    seen = visit(three, viewport=TALL)
    seen.page.get_by_role("columnheader", name="slow").get_by_role("button").first.click()
    slow = [float(score) for score in scores_of(seen, 2)]
    assert slow == sorted(slow)
    seen.page.get_by_role("button", name="column slow").click()
    seen.page.get_by_role("menuitem", name="highest score first").click()
    assert [float(score) for score in scores_of(seen, 2)] == slow[::-1]
    seen.page.get_by_role("button", name="column mid").click()
    seen.page.get_by_role("menuitem", name="hide").click()
    assert heads_of(seen) == ["fast", "slow"]
    assert seen.get("location.hash") == "#/?sort=-side%3Aslow&hide=mid"
    assert len(seen.rows) == TASKS
    seen.page.get_by_role("link", name="show again hidden mid").click()
    seen.until("!document.querySelector('.pill')")
    assert heads_of(seen) == ["fast", "mid", "slow"]
    row = seen.page.locator(".row.task", has_text=f"opt_out_{LEFT_OUT:02}").locator(".of-side").nth(1)
    assert row.inner_text().strip() == "–"


def test_the_menu_of_a_column_works_by_keys(visit: Open, three: Path) -> None:
    """Arrow keys walk through it, Escape closes it, and the focus is back where it was."""
    seen = visit(three, viewport=TALL)
    seen.page.get_by_role("button", name="column mid").focus()
    seen.press("Enter")
    focused = "document.activeElement.innerText"
    assert seen.get(focused) == "lowest score first"
    seen.press("ArrowDown", "ArrowDown")
    assert seen.get(focused) == "compare others with it"
    seen.press("Escape")
    assert seen.get("document.activeElement.getAttribute('aria-label')") == "column mid"
    assert seen.count("[role=menuitem]") == 0


@pytest.mark.parametrize("way", ["x", "shift", "button"])
def test_two_chosen_trials_stand_beside_each_other(visit: Open, three: Path, way: str) -> None:
    """By a key, by a click with Shift, or by a button for who has neither; the address can be shared."""
    seen = visit(three, "#/?sort=task&q=delivery_00", viewport=TALL)
    first, *_, last = seen.page.locator(".row.task .cell").all()
    if way == "button":
        seen.page.get_by_role("button", name="compare two trials").click()
    for cell in (last, first):
        if way == "x":
            cell.focus()
            seen.press("x")
        else:
            cell.click(modifiers=["Shift"] if way == "shift" else [])
    seen.until("document.querySelector('.beside .made')")
    address = seen.get("location.hash")
    assert address == "#/b/s%2Fdelivery_00%5Bfast-1%5D/s%2Fdelivery_00%5Bslow-2%5D"
    again = visit(three, address)
    again.until("document.querySelector('.beside .made')")
    again.press("u")
    assert again.get("document.body.dataset.view") == "list"
    seen.go("#/b/s%2Fdelivery_00%5Bfast-1%5D/nothing")
    seen.until("document.querySelector('main').textContent.includes('No trial of this file')")


def test_any_side_stands_beside_an_open_trial(visit: Open, three: Path) -> None:
    """Also beside one of the old side, which has no key for it; the old one stands to the left."""
    seen = visit(three)
    for model, other in (("fast", "slow"), ("slow", "mid"), ("slow", "fast")):
        seen.open_trial(f"s/delivery_00[{model}-2]")
        heads = seen.get("[...document.querySelectorAll('.of-strip .dim')].map(each => each.textContent)")
        assert heads == ["fast", "mid", "slow"]
        seen.page.select_option(".beside-any", label=other)
        seen.until("document.querySelector('.beside .made')")
        titles = seen.get("[...document.querySelectorAll('.side-title a')].map(each => each.textContent)")
        assert titles == [f"{name}, repetition 2" for name in sorted((model, other))]


@pytest.mark.parametrize("width", [1024, 1440])
def test_names_of_sides_are_whole_where_there_is_room(visit: Open, six: Path, width: int) -> None:
    """In the heads of columns, beside buckets, and in the table of sides."""
    seen = visit(six, viewport={"width": width, "height": 900})
    places = (".thead .of-side > button", ".block .figures .label", ".sides-table th[scope=row]")
    for place in places:
        cut = f"[...document.querySelectorAll({place!r})].filter(each => each.scrollWidth > each.clientWidth)"
        assert seen.get(f"{cut}.map(each => each.textContent)") == []
        assert seen.count(place) >= 6


def test_escape_ends_the_choice(visit: Open, three: Path) -> None:
    """A trial that was chosen is marked, with words too, until a second one is or the choice ends."""
    seen = visit(three, "#/?sort=task", viewport=TALL)
    seen.press("j", "ArrowRight", "x")
    assert seen.get("document.activeElement.getAttribute('aria-label')").endswith(", chosen")
    assert "delivery_00" in seen.get("document.querySelector('.chosen-bar').innerText")
    seen.press("Escape")
    assert seen.count(".chosen, .chosen-bar") == 0


def test_a_note_is_seen_in_its_cell_and_its_trial(visit: Open, three: Path) -> None:
    """The cell has a mark and says the comment; the trial shows it; a filter finds it."""
    seen = visit(three, "#/?note=with%20a%20comment", viewport=TALL)
    assert seen.rows == ["delivery_00"]
    cell = seen.page.locator(".cell.noted")
    assert NOTED in (cell.get_attribute("aria-label") or "")
    cell.click()
    seen.until("document.querySelector('.trial')")
    assert NOTED in seen.get("document.querySelector('.trial-head').innerText")


@pytest.mark.parametrize("sides", ["one", "three", "six"])
def test_a_phone_names_the_side_of_each_cell(visit: Open, request: pytest.FixtureRequest, sides: str) -> None:
    """Rows are cards with a line for each side, its name before its cells; nothing is too wide."""
    names = {"one": ["fast"], "three": ["fast", "mid", "slow"], "six": [*SHARES]}[sides]
    seen = visit(request.getfixturevalue(sides), viewport=PHONE)
    assert seen.count(".row.task") >= 10
    labels = f"{MATRIX}.map(row => [...row.querySelectorAll('.label')].map(label => label.innerText))"
    if sides == "one":
        assert "fast" in seen.get("document.getElementById('head').innerText")
        assert all(len(each) == 1 for each in seen.get(labels))
    else:
        assert {tuple(each) for each in seen.get(labels)} == {tuple(names)}
    assert seen.get("document.scrollingElement.scrollWidth") <= PHONE["width"]
    tops = seen.get(f"{MATRIX}.slice(0, 8).map(row => row.getBoundingClientRect().top)")
    assert tops == sorted(tops)
    inside = "row => [...row.children].every(part => part.offsetTop + part.offsetHeight <= row.offsetHeight)"
    assert seen.get(f"{MATRIX}.every({inside})")


@pytest.mark.parametrize("sides", ["three", "six", "lanes", "base"])
def test_nothing_is_cut_off_at_1024(visit: Open, request: pytest.FixtureRequest, sides: str) -> None:
    """No bucket leaves half of the page empty between its name and its plot, and no column is lost."""
    seen = visit(request.getfixturevalue(sides), viewport=MIDDLE)
    gap = """[...document.querySelectorAll('.figures')].map(line =>
        line.querySelector('.plot').getBoundingClientRect().left - line.getBoundingClientRect().left)"""
    assert max(seen.get(gap)) < 330
    assert seen.get("document.scrollingElement.scrollWidth") <= MIDDLE["width"]
    table = seen.get("(box => box.scrollWidth - box.clientWidth)(document.querySelector('.table-box'))")
    assert table <= 0


def test_old_cells_have_the_colours_of_new_ones(visit: Open, base: Path) -> None:
    """A miss is amber on both sides, so that nothing looks changed that did not change."""
    seen = visit(base, "#/?sort=task", viewport=TALL)
    colours = """(kind => [...document.querySelectorAll(`.row.task .cell.missed${kind}`)].map(cell =>
        getComputedStyle(cell, '::before').backgroundColor + getComputedStyle(cell).backgroundColor))"""
    old, new = (set(seen.get(f"{colours}({kind!r})")) for kind in (".old", ":not(.old)"))
    assert old == new
    assert len(old) == 1


def test_a_baseline_without_transcripts_says_so(visit: Open, base: Path) -> None:
    """Its trials have scores, and who opens one is told why there is nothing to read."""
    seen = visit(base, "#/?sort=task", viewport=TALL)
    assert "no transcripts" in seen.get("document.querySelector('#head .runs').innerText")
    seen.page.locator(".row.task .cell.old").first.click()
    seen.until("document.querySelector('#reason .warning')")
    assert seen.count("#conversation") == 0


@pytest.mark.parametrize("script", [True, False])
def test_the_head_of_many_sides_needs_no_script(visit: Open, three: Path, script: bool) -> None:
    """Who beats whom, chips and the figures of buckets with each side are in the file as it is."""
    seen = visit(three, java_script_enabled=script)
    assert "slow beats fast" in (seen.page.locator("#head h1").text_content() or "")
    assert seen.page.locator(".chip").count() == 6
    if not script:
        heads = seen.page.locator(".fallback thead th").all_text_contents()
        assert heads == ["bucket", "fast", "mid", "slow", "tasks", "trials"]
        assert seen.page.locator(".fallback tbody tr").count() == 4


def test_a_table_of_many_sides_scrolls_beside_its_tasks(visit: Open, tmp_path: Path) -> None:
    """Ten columns are wider than the page: only the table scrolls, and the task's name stays in sight."""
    models = [f"model-{number}" for number in range(10)]
    trials = [
        trial(task, 1, 1.0 if number > 4 else 0.25, key=key(task, 1, model))
        for task in ("a", "b", "c")
        for number, model in enumerate(models)
    ]
    seen = visit(write(tmp_path, store_run(tmp_path / "runs", trials)), viewport=TALL)
    assert heads_of(seen) == models
    assert seen.get("document.scrollingElement.scrollWidth") <= TALL["width"]
    name = seen.page.locator(".row.task .name").first
    before = name.bounding_box()
    seen.get("void (document.querySelector('.table-box').scrollLeft = 5000)")
    assert name.bounding_box() == before
    assert seen.page.locator(".row.task .of-side").nth(9).is_visible()
    # Of so many sides each is compared with the first one alone.
    assert seen.page.get_by_role("radio", name="compare with model-0").is_enabled()
    assert seen.page.get_by_role("radio", name="compare with model-9").is_disabled()

"""Pictures of the report: each figure where it belongs, nothing unknown at 0, all of it by keys too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.extended.browser.pictured_reports import (
    TASKS,
    courses_report,
    hostile_report,
    models_report,
    single_report,
)
from tests.extended.browser.sample_reports import HOSTILE
from tests.extended.browser.test_looks import AXE, LOOKS
from tests.extended.browser.visit import PHONE, Visit, trial_address

Open = Callable[..., Visit]
AGAINST = ".score-against"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three models of which one has no price."""
    return models_report(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def courses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trials of few and of many calls."""
    return courses_report(tmp_path_factory.mktemp("courses"))


def shown(visit: Open, report: Path, **settings: Any) -> Visit:
    """Open the list with its pictures."""
    seen = visit(report, **settings)
    seen.get("document.querySelectorAll('details.pictures-of-list').forEach(each => each.open = true)")
    seen.until("document.querySelector('.distribution svg rect.bar')")
    return seen


def switch_to(seen: Visit, words: str) -> None:
    """Draw scores against something else."""
    seen.page.locator(f"{AGAINST} .switch button", has_text=words).click()
    seen.until(f"document.querySelector('{AGAINST} [aria-pressed=true]').textContent === '{words}'")


def centres(seen: Visit) -> dict[str, tuple[float, float]]:
    """Give where each point is, by its label."""
    found: dict[str, tuple[float, float]] = seen.get(
        f"""Object.fromEntries([...document.querySelectorAll('{AGAINST} .spot')].map(spot => {{
            const point = spot.querySelector('.point'), at = name => Number(point.getAttribute(name));
            return [spot.querySelector('text')?.textContent, [at('cx'), at('cy')]];
        }}))"""
    )
    return found


def table(seen: Visit, figure: str) -> list[list[str]]:
    """Give the cells of the table beside a picture, its heads first."""
    rows: list[list[str]] = seen.get(
        f"""[...document.querySelectorAll('{figure} table tr')]
            .map(row => [...row.cells].map(cell => cell.textContent))"""
    )
    return rows


def test_a_side_of_unknown_cost_is_named_and_never_at_0(visit: Open, models: Path) -> None:
    """Tokens stand in the place of a cost that is not known for all; asked for cost, the side is listed."""
    seen = shown(visit, models)
    assert seen.page.locator(f"{AGAINST} .note").first.text_content() == (
        "The cost of slow is unknown, so tokens are shown."
    )
    assert len(centres(seen)) == 3

    switch_to(seen, "cost")

    assert {label.removesuffix(" (old)") for label in centres(seen)} == {"fast", "mid"}
    assert "cost unknown: slow 0.75" in (seen.page.locator(AGAINST).text_content() or "")
    rows = {row[0].split()[-1]: row for row in table(seen, AGAINST)}
    heads = table(seen, AGAINST)[0]
    assert rows["slow"][heads.index("cost")] == "unknown"
    assert rows["fast"][heads.index("cost")] == "$0.1200"


def test_points_stand_where_their_figures_are(visit: Open, models: Path) -> None:
    """Twelve trials of 1,500 tokens each; a better score is higher, a higher cost further to the right."""
    seen = shown(visit, models)
    at = {label.removesuffix(" (old)"): place for label, place in centres(seen).items()}
    assert at["fast"][1] > at["mid"][1] > at["slow"][1]
    assert at["fast"][0] == at["mid"][0] == at["slow"][0]
    switch_to(seen, "cost")
    at = {label.removesuffix(" (old)"): place for label, place in centres(seen).items()}
    left = 40
    assert (at["mid"][0] - left) / (at["fast"][0] - left) == pytest.approx(4)
    # Nobody scores higher for less than either: the line goes through both.
    assert seen.count(f"{AGAINST} .spot.efficient") == 2
    assert seen.count(f"{AGAINST} .frontier") == 1


@pytest.mark.parametrize("settings", [{}, {"viewport": PHONE}], ids=["wide", "phone"])
def test_labels_cover_neither_each_other_nor_points(
    visit: Open, models: Path, settings: dict[str, Any]
) -> None:
    """All three points stand at one place of the axis, and each has its name."""
    seen = shown(visit, models, **settings)
    boxes = [label.bounding_box() for label in seen.page.locator(f"{AGAINST} .spot text").all()]
    boxes += [point.bounding_box() for point in seen.page.locator(f"{AGAINST} .point").all()]
    assert len(boxes) == 6
    for number, one in enumerate(boxes):
        for other in boxes[:number]:
            assert one
            assert other
            apart_x = one["x"] + one["width"] <= other["x"] + 1 or other["x"] + other["width"] <= one["x"] + 1
            apart_y = (
                one["y"] + one["height"] <= other["y"] + 4 or other["y"] + other["height"] <= one["y"] + 4
            )
            assert apart_x or apart_y


def test_bars_count_every_task_of_each_side(visit: Open, models: Path) -> None:
    """A third of the tasks lies a quarter below the mean, a third at it, a third above."""
    seen = shown(visit, models)
    _, *rows = table(seen, ".distribution")
    counts = {row[0]: [int(cell) for cell in row[1:]] for row in rows}
    third = TASKS // 3
    assert counts["0.0 to below 0.1"] == [third, 0, 0]
    assert counts["0.2 to below 0.3"] == [third, third, 0]
    assert counts["0.5 to below 0.6"] == [third, third, third]
    assert counts["0.9 to 1"] == [0, 0, third]
    assert seen.page.locator(".distribution .spread").count() == 3
    drawn = seen.get(
        "[...document.querySelectorAll('.distribution [data-mark] text')].map(text => text.textContent)"
    )
    assert drawn == [str(third)] * 9


def test_keys_go_from_mark_to_mark_and_say_its_figures(visit: Open, models: Path) -> None:
    """A picture is one stop for Tab; arrows walk through it, and what they reach is read out."""
    seen = shown(visit, models)
    seen.get("document.querySelector('.distribution svg').focus()")
    readout = "document.querySelector('.distribution .readout').textContent"
    seen.press("ArrowRight")
    seen.until(f"{readout}.includes('4 tasks at 0.0 to below 0.1')")
    seen.press("End")
    seen.until(f"{readout}.includes('4 tasks at 0.9 to 1')")
    assert seen.get("document.querySelector('.distribution .readout').getAttribute('role')") == "status"
    seen.page.locator(".distribution [data-mark='5']").hover()
    seen.until(f"{readout}.includes('4 tasks at 0.5 to below 0.6')")
    assert seen.get("location.hash") == ""


def test_one_side_has_no_points(visit: Open, tmp_path: Path) -> None:
    """There is nothing to set it against; its tasks are spread all the same."""
    seen = shown(visit, single_report(tmp_path))
    assert seen.count(AGAINST) == 0
    assert seen.page.locator(".distribution .spread").count() == 1


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_no_serious_fault(visit: Open, models: Path, courses: Path, look: str) -> None:
    """Contrast, names and roles hold in every look, on the list and in a trial."""
    for seen in (shown(visit, models, **LOOKS[look]), opened(visit, courses, "parallel", **LOOKS[look])):
        seen.get("for (const fold of document.querySelectorAll('details')) fold.open = true")
        seen.get(AXE.read_text(encoding="utf-8"))
        faults = seen.get("axe.run().then(result => result.violations)")
        assert [each["id"] for each in faults if each["impact"] in ("serious", "critical")] == []
        if LOOKS[look].get("viewport") == PHONE:
            assert seen.get("document.scrollingElement.scrollWidth") <= PHONE["width"]


def test_hostile_names_are_words_in_pictures(visit: Open, tmp_path: Path) -> None:
    """Labels, tables and bars hold names as text, and nothing of them acts or turns the writing direction."""
    seen = shown(visit, hostile_report(tmp_path))
    for address in ("", trial_address(f"s/a[{HOSTILE} 0-1]")):
        seen.go(address or "#/")
        if address:
            seen.until("document.getElementById('conversation')")
        seen.get("for (const fold of document.querySelectorAll('details')) fold.open = true")
        figures = seen.get("[...document.querySelectorAll('.figure')].map(each => each.textContent).join()")
        assert "window.PWNED" in figures
        assert "\u202e" not in figures
        assert seen.count(".figure :is(img, script, a)") == 0
        assert seen.get("typeof window.PWNED") == "undefined"


# ---- the course of a trial

COURSE = "details.waterfall"


def opened(visit: Open, report: Path, task: str, **settings: Any) -> Visit:
    """Open a trial, and the course of it by a click."""
    seen = visit(report, trial_address(f"s/{task}[rules-1]"), **settings)
    seen.until("document.getElementById('conversation')")
    assert not seen.get(f"document.querySelector('{COURSE}').open")
    seen.page.locator(f"{COURSE} > summary").click()
    seen.until(f"document.querySelector('{COURSE} svg').getBoundingClientRect().width > 0")
    return seen


def test_calls_at_once_stand_in_lanes(visit: Open, courses: Path) -> None:
    """Of three calls two overlap: two lanes. Sums count what overlaps once, and waits apart."""
    seen = opened(visit, courses, "parallel")
    calls = seen.get(
        f"[...document.querySelectorAll('{COURSE} .call .bar')].map(bar => bar.getAttribute('y'))"
    )
    assert len(calls) == 3
    assert len(set(calls)) == 2
    assert seen.count(f"{COURSE} .step.failed") == 1
    sums = seen.page.locator(f"{COURSE} .sums").text_content()
    assert "model 4.0 s in 2 replies" in " ".join(sums.split())
    assert "tools 3.0 s in 3 calls, up to 2 at once" in " ".join(sums.split())
    assert "neither 2.0 s" in " ".join(sums.split())
    assert "judges: 1 reply afterwards" in " ".join(sums.split())
    rows = table(seen, COURSE)
    assert ["request that failed", "7.0 s", "0.5 s"] in rows
    assert ["waiting before the next attempt", "7.5 s", "0.5 s"] in rows
    assert ["neither model nor tool", "5.0 s", "2.0 s"] in rows
    assert ["Read, turn 1, denied", "2.0 s", "1.0 s"] in rows


def test_two_hundred_calls_are_drawn_at_once_and_can_be_read(visit: Open, courses: Path) -> None:
    """Each has its bar of some width, in one lane, and is reached by keys."""
    seen = opened(visit, courses, "long")
    assert seen.count(f"{COURSE} .call .bar") == 200
    widths = seen.get(
        f"[...document.querySelectorAll('{COURSE} .bar')].map(bar => Number(bar.getAttribute('width')))"
    )
    assert min(widths) >= 1.5
    drawing = seen.get(
        f"""(() => {{ const start = performance.now(), fold = document.querySelector('{COURSE}');
        fold.open = false; fold.open = true; fold.getBoundingClientRect();
        return performance.now() - start; }})()"""
    )
    assert drawing < 200
    seen.get(f"document.querySelector('{COURSE} svg').focus()")
    seen.press("End")
    seen.until(f"document.querySelector('{COURSE} .readout').textContent.includes('tool_4, turn 200')")


def test_a_trial_without_times_has_no_course(visit: Open, courses: Path) -> None:
    """Nothing is drawn of what is not known."""
    seen = visit(courses, trial_address("s/untimed[rules-1]"))
    seen.until("document.getElementById('conversation')")
    assert seen.count(COURSE) == 0

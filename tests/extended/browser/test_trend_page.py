"""The page of a trend in a browser: any width, light and dark, no mouse, and nothing of it acts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.trial import Digests
from pytest_agenteval.reports.trend_page import write_trend_page
from pytest_agenteval.store.run_folder import RunModel
from tests.extended.browser.test_looks import AXE, LOOKS
from tests.extended.browser.visit import PHONE
from tests.reports.test_trend import CLAUDE, store, trend, trials
from tests.reports.test_trend_page import HOSTILE


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models in 30 runs, with graders and prompts that changed, and names that try to act."""
    folder = tmp_path_factory.mktemp("trend")
    hostile = RunModel(HOSTILE, HOSTILE)
    for day in range(1, 29):
        digests = Digests("i", prompt=str(day // 9), ruler=str(day // 20))
        scores = {f"t{number}": (number / 8, (day % 5) / 4) for number in range(8)}
        both = [*trials(scores, CLAUDE, digests=digests), *trials(scores, hostile, digests=digests)]
        buckets = [f"bucket_{number}" for number in range(3)] + [HOSTILE]
        placed = [_in_bucket(each, buckets[int(each.key.task[1:]) % len(buckets)]) for each in both]
        store(folder, day, placed, CLAUDE, hostile)
    write_trend_page(folder / "trend.html", [trend(folder, last=40)])
    return folder / "trend.html"


def _in_bucket(trial: Any, bucket: str) -> Any:
    from msgspec.structs import replace

    return replace(trial, bucket=bucket)


@pytest.fixture
def opened(browser: Any, page: Path) -> Iterator[Any]:
    """Open the page with the settings of a browser; it asks for nothing else."""
    contexts, requests, faults = [], [], []

    def open_page(**settings: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        tab = context.new_page()
        tab.on("request", lambda request: requests.append(request.url))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("console", lambda message: faults.append(message.text))
        tab.goto(page.as_uri())
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert requests == [page.as_uri()] * len(contexts)
    assert faults == []


OPEN_ALL = "for (const fold of document.querySelectorAll('details')) fold.open = true"


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_no_serious_fault(opened: Any, look: str) -> None:
    """Contrast, names and roles hold in every look, with everything opened."""
    tab = opened(**LOOKS[look])
    tab.evaluate(OPEN_ALL)
    tab.evaluate(AXE.read_text(encoding="utf-8"))
    faults = tab.evaluate("axe.run().then(result => result.violations)")
    assert [fault["id"] for fault in faults if fault["impact"] in ("serious", "critical")] == []


def test_nothing_is_wider_than_a_phone(opened: Any) -> None:
    """Only the table scrolls sideways, in a box of its own that keys can scroll."""
    tab = opened(viewport=PHONE)
    tab.evaluate(OPEN_ALL)
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
    box = tab.locator(".scroll").first
    box.focus()
    tab.keyboard.press("End")
    assert box.evaluate("box => box.scrollWidth > box.clientWidth && box.tabIndex === 0")


def test_dots_stay_round_and_lines_within_the_picture(opened: Any) -> None:
    """The drawing is stretched to the room that there is; strokes are not."""
    for settings in ({}, {"viewport": PHONE}):
        tab = opened(**settings)
        plot = tab.locator(".main .plot").first.bounding_box()
        for line in tab.locator(".main .line").all():
            box = line.bounding_box()
            assert plot["x"] - 1 <= box["x"] <= box["x"] + box["width"] <= plot["x"] + plot["width"] + 1
        effect = "getComputedStyle(document.querySelector('.main .dots')).vectorEffect"
        assert tab.evaluate(effect) == "non-scaling-stroke"


def test_labels_at_the_ends_do_not_cover_each_other(opened: Any) -> None:
    """Both models end at one score, and both names can be read."""
    boxes = [label.bounding_box() for label in opened().locator(".labels > span").all()]
    assert len(boxes) == 2
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"] + 6


def test_hostile_names_never_act(opened: Any) -> None:
    """They are words; a script that gets in all the same is stopped by the policy."""
    tab = opened()
    assert "<img src=x" in tab.evaluate("document.body.textContent")
    assert tab.locator("img, script, iframe").count() == 0
    assert tab.evaluate("typeof window.PWNED") == "undefined"


def test_paper_has_the_table(opened: Any) -> None:
    """What is folded on the screen is opened in print."""
    tab = opened()
    assert not tab.get_by_role("cell").first.is_visible()
    tab.emulate_media(media="print")
    assert tab.get_by_role("cell").first.is_visible()

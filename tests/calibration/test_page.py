"""The page of a calibration: the same figures as the file beside it, and nothing in it is obeyed."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.reports.calibration_report import calibration_page, format_statistic
from tests.calibration.judges import calibrated, figures, rows

pytestmark = pytest.mark.usefixtures("few_draws")

EVIL = '</td></table><script>alert("hi")</script><img src="http://example.com/x.png" onerror=alert(1)>'


class Elements(HTMLParser):
    """Everything that a browser would make of a page: elements with their attributes, and texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """Give the attributes of every element of a kind."""
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture
def noisy(tmp_path: Path) -> dict[str, Any]:
    """What a noisy and a perfect judge find of outputs that would like to be obeyed."""
    examples = rows(20)
    for row in examples:
        row["output"] += f" {EVIL}"
        row["input"]["letter"] += EVIL
        row["note"] = EVIL
    more = "repeats: 2\nthresholds: {spearman: 0.999}\n"
    return calibrated(tmp_path, "noisy", "perfect", more=more, examples=examples)


def test_nothing_on_the_page_is_obeyed_or_loaded(noisy: dict[str, Any]) -> None:
    """Outputs, inputs, notes and rationales are text: no element comes of them, and no address is loaded."""
    text = calibration_page(noisy)
    page = Elements(text)

    assert not page.of("script")
    assert not page.of("img")
    assert not page.of("b") or all(not attrs for attrs in page.of("b"))
    assert any('<script>alert("hi")</script>' in text for text in page.texts)
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "object", "audio", "video")
        assert not {"src", "href", "srcset", "data"} & set(attrs)
    assert not re.search(r"url\(|@import", text.partition("</style>")[0])
    assert any("default-src 'none'" in (attrs.get("content") or "") for attrs in page.of("meta"))


def test_the_page_has_the_figures_of_the_file(noisy: dict[str, Any]) -> None:
    """Every value and every end of an interval that the JSON file holds stands on the page."""
    texts = Elements(calibration_page(noisy)).texts
    for judge in ("noisy", "perfect", ""):
        for dimension in ("order", "tone"):
            for figure in figures(noisy, judge, dimension).values():
                if figure["value"] is not None:
                    assert format_statistic(figure["value"]) in texts
                if "low" in figure:
                    assert f"{format_statistic(figure['low'])} to {format_statistic(figure['high'])}" in texts


def test_every_score_is_in_the_plot(noisy: dict[str, Any]) -> None:
    """Scores at one place share a dot, whose size says how many there are: together they are all scores."""
    page = calibration_page(noisy)
    counts = [int(count) for count in re.findall(r"<title>constructed label [^<]*: (\d+)×</title>", page)]
    assert sum(counts) == sum(each["pairs"] for each in noisy["measured"])
    dots = [attrs for attrs in Elements(page).of("circle") if "dot" in (attrs["class"] or "")]
    assert all(0 <= float(dot["cx"] or -1) <= 100 and 0 <= float(dot["cy"] or -1) <= 100 for dot in dots)
    radii = {count: float(dot["r"] or 0) for count, dot in zip(counts, dots, strict=True)}
    assert len(radii) > 1
    assert [radii[count] for count in sorted(radii)] == sorted(radii.values())


@pytest.mark.parametrize(
    ("judge", "text"),
    [
        ("constant", "every score is 0.5"),
        ("perfect", "None: 30 of 30 labels have a score, and each score equals its label."),
        ("hoarse", "None: 4 of 30 labels have a score, and each score equals its label."),
    ],
)
def test_what_is_not_there_says_why(tmp_path: Path, judge: str, text: str) -> None:
    """An undefined figure has its reason beside a dash; no disagreement is said to be none."""
    texts = Elements(calibration_page(calibrated(tmp_path, judge))).texts
    assert any(each.startswith(text) for each in texts)


def test_both_kinds_of_labels_are_told_apart(tmp_path: Path) -> None:
    """Where a file holds labels of people and constructed ones, the plot shows which are which."""
    examples = [*rows(6), *({**row, "id": f"h{row['id']}"} for row in rows(6, "human"))]
    page = Elements(calibration_page(calibrated(tmp_path, "perfect", examples=examples)))

    assert "6 human and 6 constructed labels" in page.texts
    assert {attrs["class"] for attrs in page.of("circle")} == {"dot human", "dot constructed"}
    only = calibration_page(calibrated(tmp_path, "inverted")).partition("</style>")[2]
    assert "constructed" in only
    assert "human" not in only

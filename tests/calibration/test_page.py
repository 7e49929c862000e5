"""The page of a calibration: the same figures as the file beside it, and nothing in it is obeyed."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from pytest_agenteval.reports.calibration_report import calibration_page, format_shortfall, format_statistic
from tests.calibration.judges import figures, found_in, project, rows
from tests.suites import run

pytest_plugins = ["pytester"]

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


@pytest.fixture(scope="module")
def noisy_files() -> dict[str, str]:
    """What a noisy judge left behind in a test before, by the ends of its files' names."""
    return {}


@pytest.fixture
def noisy(letters: pytest.Pytester, noisy_files: dict[str, str]) -> dict[str, Any]:
    """What a noisy and a perfect judge left behind, of outputs that would like to be obeyed."""
    if not noisy_files:
        examples = rows(20)
        for row in examples:
            row["output"] += f" {EVIL}"
            row["input"]["letter"] += EVIL
            row["note"] = EVIL
        project(letters.path, "repeats: 2\nthresholds: {spearman: 0.999}\n", examples)
        run(letters, "evals", "--agent-judge=noisy,perfect")
        (page,) = letters.path.glob(".agenteval/runs/2*/calibration-tidy.html")
        noisy_files["html"] = page.read_text(encoding="utf-8")
        noisy_files["json"] = json.dumps(found_in(letters.path))
    return json.loads(noisy_files["json"])  # type: ignore[no-any-return]  # JSON has no types


def test_nothing_that_an_agent_wrote_is_obeyed(noisy: dict[str, Any], noisy_files: dict[str, str]) -> None:
    """Outputs, inputs, notes and rationales are text on the page: no element comes of them."""
    page = Elements(noisy_files["html"])

    assert not page.of("script")
    assert not page.of("img")
    assert not page.of("b") or all(not attrs for attrs in page.of("b"))
    assert any('<script>alert("hi")</script>' in text for text in page.texts)


def test_the_page_loads_nothing(noisy: dict[str, Any]) -> None:
    """One file is all: no address is loaded, and the page forbids it."""
    page = Elements(calibration_page(noisy))

    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "object", "audio", "video")
        assert not {"src", "href", "srcset", "data"} & set(attrs)
    assert not re.search(r"url\(|@import", calibration_page(noisy).partition("</style>")[0])
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


def test_an_undefined_figure_says_why(letters: pytest.Pytester) -> None:
    """In the place of a number stands a dash, and beside it the reason."""
    run(letters, "evals", "--agent-judge=constant")
    texts = Elements(calibration_page(found_in(letters.path))).texts
    assert any(text.startswith("every score is 0.5") for text in texts)


def test_both_kinds_of_labels_are_told_apart(letters: pytest.Pytester) -> None:
    """Where a file holds labels of people and constructed ones, the plot shows which are which."""
    project(letters.path, "", [*rows(6), *({**row, "id": f"h{row['id']}"} for row in rows(6, "human"))])
    run(letters, "evals", "--agent-judge=perfect")

    page = Elements(calibration_page(found_in(letters.path)))

    assert "6 human and 6 constructed labels" in page.texts
    assert {attrs["class"] for attrs in page.of("circle")} == {"dot human", "dot constructed"}


def test_no_disagreement_is_said_to_be_none(letters: pytest.Pytester) -> None:
    """A perfect judge leaves an empty list, which is said."""
    run(letters, "evals", "--agent-judge=perfect")
    assert (
        "There is none: every score is the label." in Elements(calibration_page(found_in(letters.path))).texts
    )


@pytest.mark.parametrize(("value", "found"), [(0.6996, "0.699600"), (0.65, "0.65"), (None, "none: too few")])
def test_a_figure_that_rounds_to_its_threshold_has_more_digits(value: float | None, found: str) -> None:
    """Else "0.7 or more (found 0.70)" would look reached."""
    estimate = {"value": value, "reason": "too few"} if value is None else {"value": value}
    threshold = {"metric": "spearman", "dimension": "tone", "threshold": 0.7, "found": estimate}

    assert format_shortfall(threshold) == f"spearman of tone 0.7 or more (found {found})"

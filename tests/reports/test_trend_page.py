"""The page of a trend: every figure of the JSON, broken lines, and names that stay text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pytest_agenteval.records.trial import Digests
from pytest_agenteval.reports.trend import Trend
from pytest_agenteval.reports.trend_page import trend_page
from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.text.formatting import format_figure
from tests.reports.test_trend import ALL_HALF, CLAUDE, GPT, moved, only, store, trend, trials

HOSTILE = "</style><script>window.PWNED=1</script><img src=x onerror='window.PWNED=2'>\u202ex"


class Page(HTMLParser):
    """The elements of a page with their attributes, and the cells of its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip("\n ")

    def all(self, tag: str, kind: str = "") -> list[dict[str, str]]:
        """Give the elements of a tag that have a class."""
        return [each for name, each in self.elements if name == tag and kind in ("", each.get("class"))]

    def stretches(self) -> list[int]:
        """Count the stretches of each line, those of the picture of all tasks first."""
        return [each["d"].count("M") for each in self.all("path", "line") if each["d"] != "M1 4H25"]


def page(of: Trend, *others: Trend) -> Page:
    """Read the page of trends."""
    return Page(trend_page([of, *others]))


def test_a_table_has_every_figure_of_the_json(tmp_path: Path) -> None:
    """Run by run: the score with its interval, pass^k and each bucket; so do models side by side."""
    for day in (1, 2, 3):
        both = [*trials(ALL_HALF), *trials({**ALL_HALF, "c": (0.25 * day, 0.0)}, GPT)]
        store(tmp_path, day, both, CLAUDE, GPT)

    found = trend(tmp_path)

    rows = {tuple(row[:1] + row[2:3]): row for row in page(found).rows}
    for series in found.series:
        for point in series.points:
            row = rows[point.run, format_figure(point.total.score)]
            interval = "" if point.total.low is None else f"{point.total.low:.2f}"
            assert row[3].startswith(interval)
            assert row[4] == format_figure(point.total.pass_hat_k)
            buckets = {format_figure(figures.score) for figures in point.buckets.values()}
            assert buckets == set(row[5:-1])


@pytest.mark.parametrize(
    ("changed", "stretches"), [({"ruler": "r2"}, 2), ({"input": "i2"}, 2), ({"prompt": "p2"}, 1), ({}, 1)]
)
def test_lines_are_broken_where_something_else_was_measured(
    tmp_path: Path, changed: dict[str, str], stretches: int
) -> None:
    """Graders and tasks break all lines, with a mark; a prompt only has its mark below."""
    same = {"input": "i", "prompt": "p", "ruler": "r"}
    for day in (1, 2, 3, 4):
        moved(tmp_path, day, after=day == 4, digests=Digests(**(same | changed if day > 2 else same)))

    shown = page(trend(tmp_path))

    assert shown.stretches() == [stretches] * 5
    bands = [each["d"].count("M") for each in shown.all("path", "band")]
    assert set(bands) == {stretches}
    assert len(shown.all("path", "break")) == (5 if stretches == 2 else 0)
    marks = {"ruler": "!", "input": "!", "prompt": "p"}
    text = trend_page([trend(tmp_path)])
    assert re.findall(r'class="mark"[^>]*>(.)<', text) == [marks[name] for name in changed]


def test_words_of_breaks_do_not_cover_each_other(tmp_path: Path) -> None:
    """Each of a few breaks says what changed; of many beside each other the marks below do."""
    for day in range(1, 13):
        moved(tmp_path, day, after=False, digests=Digests("i", ruler=str(max(day, 8) if day > 3 else 0)))

    text = trend_page([trend(tmp_path, last=12)])

    assert re.findall(r'class="breaks "[^>]*left:([\d.]+)%">([^<]*)<', text) == [("25.0", "graders changed")]
    assert text.count('<path class="break"') == 5 * 5


def test_a_run_without_a_score_is_a_gap_and_one_without_the_model_is_none(tmp_path: Path) -> None:
    """A bucket that was not tried breaks its own line alone; other models' runs are passed over."""
    store(tmp_path, 1, trials(ALL_HALF))
    store(tmp_path, 2, trials({"a": (0.5,), "b": (0.5,), "c": (0.5,)}), GPT)
    store(tmp_path, 3, trials(dict.fromkeys("ab", (1.0, 1.0))))
    store(tmp_path, 4, trials(ALL_HALF))

    shown = page(trend(tmp_path, models=["claude"]))

    assert shown.stretches() == [1, 1, 2]


def test_what_became_worse_is_said_as_compare_says_it(tmp_path: Path) -> None:
    """The verdicts are those of `agenteval compare`, with what moved first and the rest folded."""
    for day in (1, 2):
        moved(tmp_path, day, after=day == 2)
    found = trend(tmp_path)
    step = only(found).comparison
    assert step is not None

    text = trend_page([found]).replace("\N{NO-BREAK SPACE}", " ")

    names = re.findall(r'<span class="name">(.*?)</span>', text)
    assert names == ["f", "r", "g", "s"]
    assert text.index("<summary>1 bucket unchanged") < text.index('<span class="name">s<')
    assert "1.00 → 0.25 (-0.75, p &lt;0.001)" in text
    assert f"{step.total.says}, 0.62 → 0.61" in text


def test_one_run_is_a_dot_with_its_interval(tmp_path: Path) -> None:
    """There is no line to draw, and no verdict."""
    moved(tmp_path, 1, after=False)

    text = trend_page([trend(tmp_path)])

    shown = Page(text)
    assert len(shown.all("path", "dots")) == 5
    assert len(shown.all("path", "reach")) == 5
    assert "newest run" not in text


def test_a_hundred_runs_make_a_small_page(tmp_path: Path) -> None:
    """Every run has a slot that says what it is; dots give way to the line."""
    for number in range(100):
        moved(tmp_path, number % 28 + 1, after=False)
    found = trend(tmp_path, last=100)

    text = trend_page([found])

    shown = Page(text)
    assert len(text) < 150_000
    assert len(shown.all("rect", "slot")) == 100
    assert {each["d"].count("M") for each in shown.all("path", "dots")} == {1}
    assert len([row for row in shown.rows if row[0] in found.runs]) == 100


def test_more_than_four_series_have_pictures_of_their_own(tmp_path: Path) -> None:
    """Lines that cannot be told apart are not drawn over each other."""
    models = [RunModel(f"m{number}", "x/m") for number in range(6)]
    store(tmp_path, 1, [each for model in models for each in trials(ALL_HALF, model)], *models)

    shown = page(trend(tmp_path))

    assert len([each for each in shown.all("figure") if each["class"].startswith("main")]) == 6


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """Models, variants, buckets and runs are written out; the page has no script and may run none."""
    model = RunModel(HOSTILE, HOSTILE, note=HOSTILE)
    for day in (1, 2):
        store(tmp_path, day, trials(ALL_HALF, model, bucket=f"{HOSTILE}{day}"), model)

    text = trend_page([trend(tmp_path)])

    shown = Page(text)
    tags = {tag for tag, _ in shown.elements}
    assert not tags & {"script", "img", "iframe", "link", "form", "base", "object"}
    assert not any(name.startswith("on") for _, attributes in shown.elements for name in attributes)
    assert "\u202e" not in text
    policy = next(each["content"] for each in shown.all("meta") if "http-equiv" in each)
    assert policy.split("; ")[0] == "default-src 'none'"
    assert "script-src" not in policy
    assert not [each for each in shown.all("a") if each.get("href")]


def test_runs_lead_somewhere_only_where_a_server_has_them(tmp_path: Path) -> None:
    """A file has nothing beside it; a server gives each run its address."""
    name = moved(tmp_path, 1, after=False)
    found = trend(tmp_path)

    served = Page(trend_page([found], link=lambda run: f"/runs/{run}"))

    assert {each["href"] for each in served.all("a")} == {f"/runs/{name}"}
    assert not page(found).all("a")

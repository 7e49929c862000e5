"""Whether trends have the figures of their runs: document, screen and page of ``agenteval trend``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agenteval.reports.comparison_text import format_change
from pytest_agenteval.text.formatting import NOT_KNOWN, format_ends, format_figure, model_label, one_line
from tests.reports.equal_screens import printed
from tests.reports.printed_tables import one_space
from tests.reports.recounted_figures import board_rows, same, trials_by_group

Json: TypeAlias = dict[str, Any]

BLOCKS = re.compile("[▁-█·]")
"""What draws figures beside the figures."""


def check_trends(results: Path, output: Path) -> Json:
    """Check the trends of all suites of a folder of runs; gives the document."""
    shown = ("trend", "--results", str(results), "--last", "100")
    document: Json = json.loads(printed(*shown, "--json", "-"))
    screen = printed(*shown)
    printed(*shown, "-o", str(output / "trend.html"))
    page = unescape((output / "trend.html").read_text(encoding="utf-8"))
    tables = Tables(output / "trend.html").tables
    reports: dict[str, Json] = {}
    for suite in document["suites"]:
        for series in suite["series"]:
            _check_points(series, suite["suite"], results, reports)
            _check_comparison(series, suite["suite"], results)
            if series["points"]:
                _check_screen(series, suite["suite"], screen)
                assert [_head(series), *_page_rows(series)] in [_without_names(table) for table in tables]
                _check_picture(series, page)
    return document


def _report(run: str, results: Path, reports: dict[str, Json]) -> Json:
    if run not in reports:
        path = results.parent / f"{run}.json"
        printed("report", str(results / run), "-o", str(path))
        reports[run] = json.loads(path.read_text(encoding="utf-8"))
    return reports[run]


def _check_points(series: Json, suite: str, results: Path, reports: dict[str, Json]) -> None:
    for point in series["points"]:
        report = _report(point["run"], results, reports)
        who = (suite, series["model"], series["variant"])
        (row,) = (row for key, row in board_rows(report).items() if key[1:] == who)
        (trials,) = (own for key, own in trials_by_group(report).items() if key[1:] == who)
        assert point["buckets"].keys() == row["buckets"].keys()
        for name, figures in (("", point["total"]), *point["buckets"].items()):
            expected = row["buckets"][name] if figures is not point["total"] else row["all"]
            assert [figures[end] for end in ("score", "low", "high")] == [
                expected[end] for end in ("score", "low", "high")
            ]
            own = [t for t in trials if figures is point["total"] or t["bucket"] == name]
            assert same(figures["pass_hat_k"], _pass_hat_k(own, series["k"]))


def _pass_hat_k(trials: Sequence[Json], k: int) -> float | None:
    tasks: dict[str, list[bool]] = {}
    for trial in trials:
        if trial["score"] is not None:
            tasks.setdefault(trial["task"], []).append(trial["passed"])
    rates = [math.comb(sum(p), k) / math.comb(len(p), k) for p in tasks.values() if len(p) >= k]
    return sum(rates) / len(rates) if rates else None


def _check_comparison(series: Json, suite: str, results: Path) -> None:
    """The newest step is what ``agenteval compare`` says of its two runs."""
    step = series["comparison"]
    if step is None:
        return
    runs = [str(results / step[side]) for side in ("old", "new")]
    compared = json.loads(printed("compare", *runs, "--allow", "--json", "-"))
    who = [series["model"], series["variant"]]
    (part,) = (each for each in compared["suites"] if (each["name"], each["new_who"]) == (suite, who))
    changes = [(part["suite"], step["total"]), *zip(part["buckets"], step["buckets"], strict=True)]
    for change, shown in changes:
        for name in ("tasks", "old", "new", "verdict", "testable"):
            assert shown[name] == change[name], name
        alone = change["p_like_these"] is None or change["of_these_tasks"]
        assert shown["p"] == (change["p"] if alone else change["p_like_these"])
        assert same(shown["change"], change["new"] - change["old"])


def _check_screen(series: Json, suite: str, screen: str) -> None:
    """A row has the figure of each run, and by how much the newest one differs from the first."""
    label = model_label(series["model"], series["variant"])
    blocks = screen.split("\n\n")
    title = one_line(f"{suite} with {label}", 200)
    (block,) = (each for each in blocks if re.match(re.escape(title) + r"[:\n]", each))
    # A bar stands where scores before and after do not measure the same.
    lines = [one_space(BLOCKS.sub(" ", line)).replace(" | ", " ") for line in block.splitlines()]
    points = series["points"]
    rows: dict[str, list[float | None]] = {"all": [point["total"]["score"] for point in points]}
    rows |= {f"all: pass^{series['k']}": [point["total"]["pass_hat_k"] for point in points]}
    for bucket in _buckets(series).values():
        scores = [point["buckets"].get(bucket, {}).get("score") for point in points]
        rows[one_line(bucket, 200) or NOT_KNOWN] = scores
    for name, scores in rows.items():
        cells = " ".join(map(format_figure, scores))
        found = [line for line in lines if line.startswith(one_space(f"{name} {cells}"))]
        known = [score for score in scores if score is not None]
        # Buckets that are as before are counted in one line.
        is_steady = bool(known) and same(known[0], known[-1])
        assert found or (is_steady and any("unchanged" in line for line in lines)), (name, cells)
        if found and len(scores) > 1 and None not in (scores[0], scores[-1]) and _is_comparable(points):
            change = format_change(known[-1] - known[0])
            assert any(f"{cells} {change}" in line for line in found), (name, change, found)


def _is_comparable(points: Sequence[Json]) -> bool:
    """Whether all scores measure the same: neither graders nor tasks changed."""
    return not any(change["what"] in ("graders", "tasks") for point in points for change in point["changes"])


# ---- the page


def _check_picture(series: Json, page: str) -> None:
    """What stands above each run, where its dot is, and what the newest run changed."""
    label = one_line(model_label(series["model"], series["variant"]), 200)
    spots = {float(spot) for path in re.findall(r'class="dots" d="([^"]*)"', page) for spot in _heights(path)}
    for point in series["points"]:
        total = point["total"]
        ends = f" ({format_ends(total['low'], total['high'])})" if total["low"] is not None else ""
        assert f"\n{label} {format_figure(total['score'])}{ends}" in page
        if total["score"] is not None:
            assert any(math.isclose(spot, 100 * (1 - total["score"]), abs_tol=0.0051) for spot in spots)
    if step := series["comparison"]:
        old, new = (format_figure(step["total"][side]) for side in ("old", "new"))
        change = format_change(step["total"]["new"] - step["total"]["old"])
        assert f"{old} → {new} ({change}" in page


def _heights(path: str) -> list[str]:
    return re.findall(r"M[\d.]+ (-?[\d.]+)h0", path)


class Tables(HTMLParser):
    """The tables of a page, each as rows of cells."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[list[list[str]]] = []
        self._is_cell = False
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a table, a row or a cell."""
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        self._is_cell = tag in ("td", "th") or (self._is_cell and tag == "a")

    def handle_endtag(self, tag: str) -> None:
        """End a cell."""
        self._is_cell = self._is_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        """Add a text to the cell that is open."""
        if self._is_cell:
            self.tables[-1][-1][-1] += data


def _without_names(table: Sequence[Sequence[str]]) -> list[list[str]]:
    """Give a table's runs and figures with their heads, the buckets sorted by name."""
    head, *rows = table
    fixed, buckets = [0, 2, 3, 4], sorted(range(5, len(head) - 1), key=lambda at: head[at])
    return [[row[at] for at in (*fixed, *buckets)] for row in (head, *rows)]


def _buckets(series: Json) -> Mapping[str, str]:
    """Give the buckets by how they are called; a single one is the whole suite."""
    names = dict.fromkeys(name for point in series["points"] for name in point["buckets"])
    shown = {one_line(name, 200) or "(no bucket)": name for name in names}
    return {words: shown[words] for words in sorted(shown)} if len(shown) > 1 else {}


def _head(series: Json) -> list[str]:
    return ["run", "all", "95 %", f"pass^{series['k']}", *_buckets(series)]


def _page_rows(series: Json) -> list[list[str]]:
    rows = []
    for point in series["points"]:
        total = point["total"]
        ends = "" if total["low"] is None else format_ends(total["low"], total["high"])
        cells = [format_figure(total["score"]), ends, format_figure(total["pass_hat_k"])]
        scores = [point["buckets"].get(name, {}).get("score") for name in _buckets(series).values()]
        rows.append([point["run"], *cells, *map(format_figure, scores)])
    return rows

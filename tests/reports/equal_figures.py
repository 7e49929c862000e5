"""Whether all reports of some runs show the figures of ``agenteval report -o FILE.json``."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias
from xml.etree import ElementTree

from pytest_agenteval.cli.main import main
from pytest_agenteval.text.formatting import format_ends, format_figure, model_label
from tests.reports.html.pages import Page

Json: TypeAlias = dict[str, Any]
Group: TypeAlias = tuple[str, str, str, str]
"""A run's folder, a suite, a model and a variant."""

SAME_NAMES = (
    "score",
    "low",
    "high",
    "tasks",
    "planned",
    "errored",
    "not_run",
    "tasks_passed",
    "tasks_decided",
)
OTHER_NAMES = {"trials": "averaged", "passed": "pass_1"}
SPENT = {"tokens": "tokens", "tokens_unknown": "tokens_untold", "usd": "cost_usd", "usd_unknown": "unpriced"}


def check_reports(folders: Sequence[Path], output: Path, *options: str) -> Json:
    """Write every kind of report of these runs and compare their figures; gives the document."""
    written = {kind: output / f"report.{kind}" for kind in ("json", "html", "csv", "xml", "md")}
    files = [part for path in written.values() for part in ("-o", str(path))]
    assert main(["report", *map(str, folders), *options, *files]) == 0
    figures = output / "figures.json"
    assert main(["report", *map(str, folders), *options, "--json", str(figures)]) == 0
    document: Json = json.loads(written["json"].read_text(encoding="utf-8"))
    alone: Json = json.loads(figures.read_text(encoding="utf-8"))
    assert alone == {name: document[name] for name in alone}
    rows = {
        (row["path"], board["suite"], row["model"], row["variant"]): row
        for board in document["boards"]
        for row in board["rows"]
    }
    index = Page(written["html"]).index
    _check_suites(index, document, rows)
    _check_comparisons(index, document)
    _check_trials(index, document)
    _check_rows(written["csv"], rows, document)
    _check_junit(written["xml"], rows)
    # Two runs are a comparison there, whose figures are over the tasks that both have.
    if len(folders) == 1 or len(document["sides"]) > 2:
        _check_text(written["md"].read_text(encoding="utf-8"), rows)
    return document


def _check_suites(index: Json, document: Json, rows: Mapping[Group, Json]) -> None:
    """The page's sides, suites and buckets have the document's figures."""
    assert [side["figures"] for side in index["sides"]] == [side["figures"] for side in document["sides"]]
    seen = set()
    for suite in index["suites"]:
        for side, figures in zip(document["sides"], suite["sides"], strict=True):
            groups = [each for each in side["groups"] if each["suite"] == suite["suite"]]
            if len(groups) > 1:
                groups = [g for g in groups if model_label(g["model"], g["variant"]) == suite["who"]]
            if figures is None or not side["path"]:
                continue
            (group,) = groups
            key = (side["path"], group["suite"], group["model"], group["variant"])
            seen.add(key)
            _check_figures(figures, rows[key]["all"])
            at = document["sides"].index(side)
            for bucket in suite["buckets"]:
                if bucket["sides"][at] is not None:
                    _check_figures(bucket["sides"][at], rows[key]["buckets"][bucket["name"]])
    assert seen == set(rows)


def _check_figures(shown: Json, figures: Json) -> None:
    for name in SAME_NAMES:
        assert shown[name] == figures[name], name
    for name, other in OTHER_NAMES.items():
        assert shown[name] == figures[other], name
    for name, other in SPENT.items():
        assert shown[name] == figures["spent"][other], name
    assert shown["mark"] == ("*" if figures["without_judge"] and figures["score"] is not None else "")


def _check_comparisons(index: Json, document: Json) -> None:
    """Each pair stands on the page in both directions: as in the document, and the other way round."""
    on_page = {(part["old"], part["new"]): part for part in index["comparisons"]}
    assert len(on_page) == 2 * len(document["comparisons"])
    for pair in document["comparisons"]:
        old, new = pair["old_side"], pair["new_side"]
        changes = sorted(_changes(pair["comparison"]))
        for key, sign in (((old, new), 1), ((new, old), -1)):
            shown = [
                (change["old"], change["new"], sign * change["change"], change["p"])
                for suite in on_page[key]["suites"]
                for change in ([suite] if suite else [])
            ]
            ends = [(o, n, d, p) if sign == 1 else (n, o, d, p) for o, n, d, p in shown]
            assert sorted(ends) == changes
            assert len({change["verdict"] for change in on_page[key]["suites"] if change}) <= len(changes)


def _changes(comparison: Json) -> Iterator[tuple[float, float, float, float]]:
    for suite in comparison["suites"]:
        if change := suite["suite"]:
            alone = change["p_like_these"] is None or change["of_these_tasks"]
            p = change["p"] if alone else change["p_like_these"]
            yield change["old"], change["new"], change["new"] - change["old"], p


def _check_trials(index: Json, document: Json) -> None:
    """Trials, and the means of tasks, are those of the document's trials; causes count what they count."""
    run_names = [run["name"] for run in index["runs"]]
    trials = {(trial["run"], trial["trial"]): trial for trial in document["trials"]}
    shown = 0
    for row in index["trials"]:
        side = index["sides"][row["side"]]
        trial = trials.get((run_names[side["run"]], row["name"]))
        if trial is None:
            continue  # a baseline's file has no trials of its own
        shown += 1
        assert (row["ending"], row["repetition"]) == (trial["ending"], trial["repetition"])
        assert (row["score"], row["attempts"]) == (trial["score"], trial["attempts"])
        assert (row["tokens"], row["usd"], row["seconds"]) == (
            trial["all_tokens"],
            trial["all_cost_usd"],
            trial["all_seconds"],
        )
    assert shown == len(trials)
    cells: dict[tuple[int, int], list[float]] = defaultdict(list)
    for row in index["trials"]:
        cells[row["task"], row["side"]] += [] if row["score"] is None else [row["score"]]
    for place, task in enumerate(index["tasks"]):
        for side, score in enumerate(task["scores"]):
            known = cells[place, side]
            assert score == (fmean(known) if known else None)
    names = ("words", "kind", "grader", "check", "reason", "trials", "tasks", "sides")
    listed = [{name: cause[name] for name in names} for cause in document["causes"]]
    assert [{name: cause[name] for name in names} for cause in index["causes"]] == listed
    for number, cause in enumerate(index["causes"]):
        of_cause = [row for row in index["trials"] if number in row["causes"]]
        assert cause["trials"] == len(of_cause) == sum(cause["sides"])


def _check_rows(path: Path, rows: Mapping[Group, Json], document: Json) -> None:
    """Means and sums over the rows of trials are the document's figures."""
    paths = {run["name"]: run["folder"] for run in document["runs"]}
    scores: dict[Group, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    tokens: dict[Group, list[str]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = (paths[row["run"]], row["suite"], row["model"], row["variant"])
            tokens[key].append(row["all_tokens"])
            if row["score"]:
                scores[key][f"{row['task']}\n{row['agent']}"].append(float(row["score"]))
    for key, row in rows.items():
        means = [fmean(of_task) for of_task in scores[key].values()]
        expected = row["all"]["score"]
        assert (abs(fmean(means) - expected) < 1e-9) if means else expected is None
        if "" not in tokens[key] and not row["all"]["spent"]["tokens_untold"]:
            assert sum(map(float, tokens[key])) == row["all"]["spent"]["tokens"]


def _check_junit(path: Path, rows: Mapping[Group, Json]) -> None:
    """The scores in the properties of a file of JUnit are some of the document's, and none is another."""
    known = {format(row["all"]["score"]) for row in rows.values() if row["all"]["score"] is not None}
    rounded = {format_figure(float(score)) for score in known}
    for each in ElementTree.parse(path).iter("property"):
        name, value = each.get("name", ""), each.get("value", "")
        if name.endswith(".mean_score"):
            assert format_figure(float(value)) in rounded


def _check_text(text: str, rows: Mapping[Group, Json]) -> None:
    """Every score with its interval stands in the Markdown as the document's figures are written."""
    cells = [re.sub(r"[\\*`]", "", line) for line in text.splitlines() if line.startswith("|")]
    for row in rows.values():
        figures = row["all"]
        if figures["low"] is None:
            continue
        score, ends = format_figure(figures["score"]), format_ends(figures["low"], figures["high"])
        assert any(score in line and ends in line for line in cells), (score, ends)

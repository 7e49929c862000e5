"""Whether all reports of some runs show the figures of ``agenteval report -o FILE.json``."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias
from xml.etree import ElementTree

from pytest_agenteval.reports.junit_properties import bounded
from pytest_agenteval.text.formatting import format_ends, model_label
from tests.reports.equal_screens import check_listed, check_screens, check_trial_screens, lane_groups, printed
from tests.reports.figure_cells import group_names
from tests.reports.html.pages import Page
from tests.reports.recounted_figures import Group, board_rows, check_recounted, group_key

Json: TypeAlias = dict[str, Any]

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
SPENT = {
    "tokens": "tokens",
    "tokens_unknown": "tokens_untold",
    "usd": "cost_usd",
    "usd_unknown": "unpriced",
    "seconds": "seconds",
    "seconds_unknown": "untimed",
    "wall": "wall_seconds",
    "wall_unknown": "wall_untimed",
    "turns": "turns",
    "turns_unknown": "turns_untimed",
    "p50": "turn_p50",
    "p95": "turn_p95",
}


def check_reports(folders: Sequence[Path], output: Path, *options: str) -> Json:
    """Write every kind of report of these runs and compare their figures; gives the document.

    The runs lie in one folder of runs. Its figures are also worked out anew, from the trials that it lists.
    """
    written = {kind: output / f"report.{kind}" for kind in ("json", "html", "csv", "xml", "md")}
    files = [part for path in written.values() for part in ("-o", str(path))]
    names = list(map(str, folders))
    printed("report", *names, *options, *files)
    figures = output / "figures.json"
    printed("report", *names, *options, "--json", str(figures))
    document: Json = json.loads(written["json"].read_text(encoding="utf-8"))
    alone: Json = json.loads(figures.read_text(encoding="utf-8"))
    assert alone == {name: document[name] for name in alone}
    rows = board_rows(document)
    index = Page(written["html"]).index
    check_recounted(document)
    _check_suites(index, document, rows)
    _check_comparisons(index, document)
    _check_trials(index, document)
    _check_rows(written["csv"], rows, document)
    _check_junit(written["xml"], rows, document)
    check_screens(names, options, document, index, written["md"].read_text(encoding="utf-8"))
    if not options:
        check_listed(document, folders[0].parent)
        check_trial_screens(document, folders[0].parent)
    return document


def _check_suites(index: Json, document: Json, rows: Mapping[Group, Json]) -> None:
    """The page's sides, suites and buckets have the document's figures."""
    assert [side["figures"] for side in index["sides"]] == [side["figures"] for side in document["sides"]]
    seen = set()
    for suite in index["suites"]:
        for side, figures in zip(document["sides"], suite["sides"], strict=True):
            if figures is None or not side["path"]:
                continue
            (group,) = lane_groups(side, suite)
            key = group_key(side, group)
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


def _check_junit(path: Path, rows: Mapping[Group, Json], document: Json) -> None:
    """The properties of a file of JUnit are the figures of suites and trials, with four digits."""
    trials = {(trial["run"], trial["suite"], _case_name(trial)): trial for trial in document["trials"]}
    places, checked = {run["folder"]: run["name"] for run in document["runs"]}, 0
    for suite in ElementTree.parse(path).iter("testsuite"):
        properties = _properties(suite)
        folder = properties["agenteval.run"]
        for key, row in rows.items():
            if key[0] == folder:
                label = "[".join(bounded(part, 60) for part in group_names(document, row, key[1]))
                _check_suite_properties(properties, f"agenteval.{label}].", row["all"])
                checked += 1
        for case in suite.iter("testcase"):
            # Of a trial that never ended nothing is known.
            if of_case := _properties(case):
                in_suite = of_case["agenteval.suite"]
                _check_case(case, trials.pop((places[folder], in_suite, case.get("name", ""))))
    # Of two runs that are compared the file has the new one.
    is_pair = len(places) == 2 and document["comparison"] is not None
    assert checked == len(rows) or is_pair
    assert not trials or is_pair


def _properties(element: ElementTree.Element) -> dict[str, str]:
    return {each.get("name", ""): each.get("value", "") for each in element.findall("properties/property")}


def _case_name(trial: Json) -> str:
    who = model_label(trial["model"], trial["variant"])
    escaped = "".join(sign if " " <= sign <= "~" else sign.encode("unicode_escape").decode() for sign in who)
    return f"{trial['task']}[{escaped}-{trial['repetition']}]"


def _check_suite_properties(properties: Mapping[str, str], prefix: str, figures: Json) -> None:
    k, spent = figures["k"], figures["spent"]
    counts = {"trials": "averaged"} | dict.fromkeys(COUNTED)
    for name, other in counts.items():
        assert properties[prefix + name] == str(figures[other or name]), name
    rates = {"mean_score": figures["score"], "pass@1": figures["pass_1"]}
    if k > 1:
        rates |= {f"pass^{k}": figures["pass_hat_k"], f"pass@{k}": figures["pass_at_k"]}
    for name, value in rates.items():
        _check_property(properties, prefix + name, value)
    is_known = figures["low"] is not None
    ends = format_ends(figures["low"], figures["high"]) if is_known else None
    assert properties.get(f"{prefix}interval_95") == ends
    tokens = None if spent["tokens_untold"] else str(spent["tokens"])
    assert properties.get(f"{prefix}tokens") == tokens
    _check_property(properties, f"{prefix}cost_usd", None if spent["unpriced"] else spent["cost_usd"])


COUNTED = ("planned", "errored", "not_run", "tasks", "tasks_decided", "tasks_passed")


def _check_property(properties: Mapping[str, str], name: str, value: float | None) -> None:
    if value is None:
        assert name not in properties
    else:
        assert abs(float(properties[name]) - value) <= 5.1e-5, name


def _check_case(case: ElementTree.Element, trial: Json) -> None:
    properties = _properties(case)
    assert properties["agenteval.ending"] == trial["ending"]
    _check_property(properties, "agenteval.score", trial["score"])
    _check_property(properties, "agenteval.cost_usd", trial["cost_usd"])
    parts = (trial["input_tokens"], trial["output_tokens"])
    assert properties.get("agenteval.tokens") == (None if None in parts else str(sum(parts)))
    seconds = None if trial["seconds"] is None else f"{trial['seconds']:.3f}"
    assert case.get("time") == seconds

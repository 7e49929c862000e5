"""The figures of a document of ``agenteval report`` worked out once more, from the trials that it lists.

The arithmetic is short and shares nothing with the package: means over tasks, sums, quantiles, covered time.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from statistics import fmean
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

EXACT = 1e-9
TIMED = 0.002
"""A journal has milliseconds of how long trials ran."""

SUMS = {"tokens": ("all_tokens", "tokens_untold"), "cost_usd": ("all_cost_usd", "unpriced"),
        "seconds": ("all_seconds", "untimed")}  # fmt: skip
"""The name of each sum, of a trial's part of it, and of the number of its unknown parts."""


def same(one: float | None, other: float | None, within: float = EXACT) -> bool:
    """Whether two figures are equal but for rounding; what is unknown is equal to nothing but itself."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=within, abs_tol=within)


def check_recounted(document: Json) -> None:
    """Work out the figures of boards, sides, totals and comparisons from the document's own trials."""
    trials = trials_by_group(document)
    by_run = {run["name"]: run for run in document["runs"]}
    assert len(by_run) == len(document["runs"]), "trials of runs with one name cannot be told apart"
    for board in document["boards"]:
        for row in board["rows"]:
            header = by_run[row["run"]]["header"]
            own = trials.get((row["run"], board["suite"], row["model"], row["variant"]), [])
            threshold = _threshold(header, board["suite"])
            _check_group(row["all"], own, threshold, header, row["model"])
            assert {trial["bucket"] for trial in own} <= row["buckets"].keys()
            for name, bucket in row["buckets"].items():
                part = [trial for trial in own if trial["bucket"] == name]
                _check_group(bucket, part, threshold, header, row["model"])
    for total in document["totals"]:
        own = [trial for trial in document["trials"] if trial["run"] == total["run"]]
        models = by_run[total["run"]]["header"]["models"]
        _check_sums(total, own, is_offline=any(model["offline"] for model in models))
    _check_sides(document, trials)
    for pair in document["comparisons"]:
        _check_pair(document, pair, trials)


Group: TypeAlias = tuple[str, str, str, str]
"""A run, a suite, a model and a variant."""


def trials_by_group(document: Json) -> dict[Group, list[Json]]:
    """Give a document's trials by the name of their run, suite, model and variant, by repetition."""
    groups: dict[Group, list[Json]] = defaultdict(list)
    for trial in sorted(document["trials"], key=lambda trial: trial["repetition"]):
        groups[trial["run"], trial["suite"], trial["model"], trial["variant"]].append(trial)
    return groups


def _threshold(header: Json, suite: str) -> float:
    return next((each["threshold"] for each in header["suites"] if each["name"] == suite), 1.0)


def _by_task(trials: Iterable[Json]) -> list[list[Json]]:
    tasks: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for trial in trials:
        tasks[trial["task"], trial["agent"]].append(trial)
    return list(tasks.values())


def _check_group(figures: Json, trials: Sequence[Json], threshold: float, header: Json, model: str) -> None:
    averaged = [trial for trial in trials if trial["score"] is not None]
    tasks = _by_task(averaged)
    assert figures["averaged"] == len(averaged)
    assert figures["errored"] == len(trials) - len(averaged) == sum(figures["errored_by_cause"].values())
    assert figures["not_run"] == figures["planned"] - len(trials) >= 0
    assert figures["tasks"] >= len(_by_task(trials))
    assert same(figures["score"], _mean(fmean(_scores(task)) for task in tasks))
    # Where all tasks passed, or none did, the interval ends before the mean.
    if figures["low"] is not None and 0 < figures["score"] < 1:
        assert figures["low"] < figures["score"] < figures["high"]
    assert same(figures["full"], _mean(trial["all_full"] for trial in averaged))
    counts = [(len(task), sum(trial["passed"] for trial in task)) for task in tasks]
    k = figures["k"]
    assert same(figures["pass_1"], _mean(passed / number for number, passed in counts))
    able = [(n, c) for n, c in counts if n >= k]
    assert same(figures["pass_hat_k"], _mean(math.comb(c, k) / math.comb(n, k) for n, c in able))
    assert same(figures["pass_at_k"], _mean(1 - math.comb(n - c, k) / math.comb(n, k) for n, c in able))
    assert figures["tasks_decided"] == len(tasks)
    assert figures["tasks_passed"] == sum(_is_passed(task, threshold) for task in tasks)
    assert figures["retried"] == sum(trial["attempts"] > 1 for trial in trials)
    is_offline = _is_offline(header, model)
    _check_sums(figures["spent"], trials, is_offline=is_offline)
    _check_turns(figures["spent"], [] if is_offline else trials)
    _check_wall(figures["spent"], trials, is_regraded=bool(header.get("regraded")))


def _scores(trials: Iterable[Json]) -> list[float]:
    return _known(trial["score"] for trial in trials)


def _known(scores: Iterable[float | None]) -> list[float]:
    return [score for score in scores if score is not None]


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return fmean(known) if known else None


def _is_passed(task: Sequence[Json], threshold: float) -> bool:
    """Whether a task passed: by its mean where the suite has a threshold, else by its kind."""
    if threshold < 1:
        return fmean(_scores(task)) >= threshold - EXACT
    passed = [trial["passed"] for trial in task]
    return any(passed) if task[0]["kind"] == "capability" else all(passed)


def _is_offline(header: Json, model: str) -> bool:
    return any(each["offline"] for each in header["models"] if each["name"] == model)


def _check_sums(spent: Json, trials: Sequence[Json], *, is_offline: bool) -> None:
    for name, (of_trial, unknown) in SUMS.items():
        known = [trial[of_trial] for trial in trials if trial[of_trial] is not None]
        # An offline model that took nothing took nothing in attempts that were killed, either.
        if is_offline and name != "seconds" and spent[name] == 0 == sum(known):
            continue
        if spent[unknown]:
            # What attempts took whose sum is unknown is in no row, and parts of it may be known.
            assert spent[name] is None or spent[name] >= sum(known) - EXACT
            assert spent[name] is not None or not sum(known)
        else:
            assert len(known) == len(trials)
            assert same(spent[name], sum(known))


def _check_turns(spent: Json, trials: Sequence[Json]) -> None:
    times = [None if each["turn_seconds"] is None else json.loads(each["turn_seconds"]) for each in trials]
    known = sorted(second for each in times for second in each or ())
    assert spent["turns_untimed"] == times.count(None)
    assert spent["turns"] >= len(known)
    is_known = known and None not in times
    for name, share in (("turn_p50", 0.5), ("turn_p95", 0.95)):
        assert same(spent[name], quantile(known, share) if is_known else None)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Give the time that this share of the ordered times does not exceed, linear between two of them."""
    at = share * (len(ordered) - 1)
    low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
    return low + (high - low) * (at - math.floor(at))


def _check_wall(spent: Json, trials: Sequence[Json], *, is_regraded: bool) -> None:
    if is_regraded or not trials:
        assert spent["wall_seconds"] is None
        return
    spans = list(_spans(trials))
    if any(trial["attempts"] > 1 for trial in trials):
        # When earlier attempts ran is in no row.
        assert spent["wall_seconds"] is None or spent["wall_seconds"] >= _covered(spans) - TIMED
        return
    ran_here = sum(trial["origin"] is None for trial in trials)
    if spent["wall_untimed"] == 0:
        assert len(spans) == ran_here
    expected = _covered(spans) or (None if len(spans) < ran_here or not ran_here else 0.0)
    assert same(spent["wall_seconds"], expected, TIMED)


def _spans(trials: Iterable[Json]) -> Iterator[tuple[float, float]]:
    for trial in trials:
        if trial["origin"] is None and trial["started_at"] and trial["wall_seconds"] is not None:
            start = datetime.fromisoformat(trial["started_at"]).timestamp()
            yield start, start + trial["wall_seconds"]


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    covered, reached = 0.0, -math.inf
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def _check_sides(document: Json, trials: Mapping[Group, Sequence[Json]]) -> None:
    rows = board_rows(document)
    for side in document["sides"]:
        if not side["path"]:
            continue
        groups = [rows[group_key(side, group)]["all"] for group in side["groups"]]
        figures = side["figures"]
        for name, of_group in (("trials", "averaged"), *((name, name) for name in COUNTS)):
            assert figures[name] == sum(group[of_group] for group in groups), name
        for name, (spent, unknown) in SIDE_SUMS.items():
            known = [group["spent"][spent] for group in groups if group["spent"][spent] is not None]
            assert figures[f"{name}_unknown"] == sum(group["spent"][unknown] for group in groups)
            assert same(figures[name], sum(known) if known or not figures[f"{name}_unknown"] else None)
        for name in ("score", "low", "high"):
            assert figures[name] == (groups[0][name] if len(groups) == 1 else None)
        header = next(run["header"] for run in document["runs"] if run["name"] == side["run"])
        turns = {"turn_p50": figures["p50"], "turn_p95": figures["p95"]}
        groups_asking = [each for each in side["groups"] if not _is_offline(header, each["model"])]
        keys = [(side["run"], each["suite"], each["model"], each["variant"]) for each in groups_asking]
        asking = [trial for key in keys for trial in trials.get(key, ())]
        of_side = {**turns, "turns": figures["turns"], "turns_untimed": figures["turns_unknown"]}
        _check_turns(of_side, asking)


COUNTS = ("tasks", "planned", "errored", "not_run", "tasks_passed", "tasks_decided")
SIDE_SUMS = {"tokens": ("tokens", "tokens_untold"), "usd": ("cost_usd", "unpriced"),
             "seconds": ("seconds", "untimed")}  # fmt: skip


def board_rows(document: Json) -> dict[Group, Json]:
    """Give the rows of all boards by the folder of their run, suite, model and variant."""
    return {
        (row["path"], board["suite"], row["model"], row["variant"]): row
        for board in document["boards"]
        for row in board["rows"]
    }


def group_key(side: Json, group: Mapping[str, str]) -> Group:
    """Name a group of a side as ``board_rows`` does."""
    return side["path"], group["suite"], group["model"], group["variant"]


def _check_pair(document: Json, pair: Json, trials: Mapping[Group, Sequence[Json]]) -> None:
    """Means of tasks, buckets and suites in a comparison are those of the trials of its sides."""
    sides = [document["sides"][pair[name]] for name in ("old_side", "new_side")]
    for suite in pair["comparison"]["suites"]:
        whos = zip(sides, (suite["old_who"], suite["new_who"]), strict=True)
        groups = [trials.get((side["run"], suite["name"], *who), ()) for side, who in whos]
        scores, changed = list(map(_scores_by_task, groups)), []
        for task in suite["tasks"]:
            for side, of_task, name in zip(sides, scores, ("old", "new"), strict=True):
                if side["path"]:
                    assert task[name] == of_task.get(task["task"], [])
            old, new = (_mean(_known(task[name])) for name in ("old", "new"))
            if old is not None and new is not None:
                changed.append((task["bucket"], old, new))
        _check_change(suite["suite"], changed)
        for bucket in suite["buckets"]:
            _check_change(bucket, [each for each in changed if each[0] == bucket["name"]])


def _scores_by_task(trials: Iterable[Json]) -> dict[str, list[float | None]]:
    """Give the scores of each task in the order of repetitions, None for errored trials."""
    scores: dict[str, list[float | None]] = defaultdict(list)
    for trial in trials:
        scores[trial["task"]].append(trial["score"])
    return scores


def _check_change(change: Json | None, tasks: Sequence[tuple[str, float, float]]) -> None:
    if change is None:
        assert not tasks
        return
    assert change["tasks"] == len(tasks)
    assert same(change["old"], _mean(old for _, old, _ in tasks))
    assert same(change["new"], _mean(new for _, _, new in tasks))

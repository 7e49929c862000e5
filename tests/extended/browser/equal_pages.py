"""Whether a page shows the figures of a document: each element of the list, with any side as the old one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tests.extended.browser import shown_figures as words
from tests.reports.equal_boards import check_page_boards
from tests.reports.equal_screens import lane_groups, verdict_words
from tests.reports.recounted_figures import board_rows, group_key, quantile, same

Json: TypeAlias = dict[str, Any]

MOST_SUITE_COLUMNS = 4
MOST_CAUSE_SIDES = 6
SIGNS = {"better": "▲", "worse": "▼"}
REVERSED = {"better": "worse", "worse": "better", "not worse": "cannot tell"}


class Reported:
    """A document, the page's index of the same report, and the side that others are compared with."""

    def __init__(self, document: Json, index: Json, old: int | None) -> None:
        self.document, self.index, self.old = document, index, old
        self._rows = board_rows(document)
        by_name = {(trial["run"], trial["trial"]): trial for trial in document["trials"]}
        self._trials: dict[tuple[int, int], list[Json]] = defaultdict(list)
        for row in index["trials"]:
            trial = by_name[self.sides[row["side"]]["run"], row["name"]]
            self._trials[row["task"], row["side"]].append(trial)

    @property
    def sides(self) -> list[Json]:
        """The sides of the document."""
        sides: list[Json] = self.document["sides"]
        return sides

    @property
    def new(self) -> int:
        """The side that a page of one or two is about."""
        return 1 - self.old if len(self.sides) == 2 and self.old is not None else len(self.sides) - 1

    @property
    def has_lanes(self) -> bool:
        """Whether models of one suite have rows of their own."""
        return any(suite["who"] for suite in self.index["suites"])

    def row(self, side: int, suite: Json) -> Json | None:
        """Give a side's row of a board in a suite."""
        groups = lane_groups(self.sides[side], suite)
        return self._rows[group_key(self.sides[side], groups[0])] if groups else None

    def figures(self, side: int, suite: Json, bucket: str | None = None) -> Json | None:
        """Give the figures of a side in a suite, or in one of its buckets."""
        row = self.row(side, suite)
        if row is None:
            return None
        all_: Json | None = row["all"] if bucket is None else row["buckets"].get(bucket)
        return all_

    def part(self, side: int, suite: Json) -> Json | None:
        """Give how a side compares with the old one in a suite, seen from the old side."""
        if self.old is None or side == self.old:
            return None
        for pair in self.document["comparisons"]:
            ends = (pair["old_side"], pair["new_side"])
            if set(ends) == {self.old, side}:
                for part in pair["comparison"]["suites"]:
                    whos = [part["old_who"], part["new_who"]]
                    if part["name"] == suite["suite"] and whos == [self._who(end, suite) for end in ends]:
                        return part if ends[0] == self.old else _turned(part)
        return None

    def is_compared(self, side: int) -> bool:
        """Whether a side is compared with the old one: of very many, each is with the first alone."""
        pairs = [{pair["old_side"], pair["new_side"]} for pair in self.document["comparisons"]]
        return {self.old, side} in pairs

    def _who(self, side: int, suite: Json) -> list[str] | None:
        groups = lane_groups(self.sides[side], suite)
        return [groups[0]["model"], groups[0]["variant"]] if groups else None

    def change(self, side: int, suite: Json, bucket: str | None = None) -> Json | None:
        """Give the change of a suite, or of one of its buckets, from the old side."""
        part = self.part(side, suite)
        if part is None:
            return None
        whole: Json | None = part["suite"]
        if bucket is None:
            return whole
        # A comparison does not test the only bucket of a suite.
        names = {task["bucket"] for task in part["tasks"]}
        if not part["buckets"] and names == {bucket}:
            return whole
        return next((each for each in part["buckets"] if each["name"] == bucket), None)

    def trials(self, place: int, side: int) -> list[Json]:
        """Give the document's trials of a row of the page on one side."""
        return self._trials.get((place, side), [])

    def change_of_task(self, place: int, side: int) -> float | None:
        """Give the change of a task that is compared, worked out from the scores of its trials."""
        task = self.index["tasks"][place]
        part = self.part(side, self.index["suites"][task["suite"]])
        if part is None or task["task"] not in {each["task"] for each in part["tasks"]}:
            return None
        before, after = (
            words.mean([trial["score"] for trial in self.trials(place, at)]) for at in (self.old or 0, side)
        )
        return None if before is None or after is None else after - before


def _turned(part: Json) -> Json:
    """Give a comparison as it is seen from the other side."""
    tasks = [{**task, "old": task["new"], "new": task["old"]} for task in part["tasks"]]
    buckets = [_turned_change(each) for each in part["buckets"]]
    return {**part, "suite": _turned_change(part["suite"]), "buckets": buckets, "tasks": tasks}


def _turned_change(change: Json | None) -> Json | None:
    if change is None:
        return None
    verdict = REVERSED.get(change["verdict"], change["verdict"])
    return {**change, "old": change["new"], "new": change["old"], "verdict": verdict}


def check_list(shown: Json, reported: Reported, hidden: Sequence[int] = ()) -> None:
    """Check all figures of the list, of which every row is drawn."""
    check_headline(shown["headline"], reported)
    # Where a server stands behind the page, boards have pages of their own.
    if not reported.index["live"]:
        check_page_boards(shown["boards"], reported.document)
    sides = [at for at in range(len(reported.sides)) if at not in hidden]
    if len(reported.sides) > 2:
        _check_sides(shown, reported)
    else:
        _check_strip(shown, reported)
    _check_suites(shown, reported, sides)
    _check_causes(shown, reported, sides)
    for row in shown["rows"]:
        _check_row(row, reported, sides)
    _check_chips(shown["chips"], reported)
    trials = words.plural(len(reported.index["trials"]), "trial")
    assert trials in shown["kicker"]


# ---- what sides took


def took(figures: Json, *, has_lanes: bool) -> dict[str, str]:
    """Write what a side took, a text for each column."""
    decided = figures["tasks_decided"]
    return {
        "passed": f"{words.count(figures['tasks_passed'])} of "
        + (words.count(decided) if has_lanes else words.plural(decided, "task")),
        "wall": words.amount(figures["wall"], figures["wall_unknown"], words.duration),
        "agents’ time": words.amount(figures["seconds"], figures["seconds_unknown"], words.duration),
        "tokens": words.amount(figures["tokens"], figures["tokens_unknown"], words.count),
        "cost": words.amount(figures["usd"], figures["usd_unknown"], words.money),
        "turn time": words.turns(figures),
    }


def _check_strip(shown: Json, reported: Reported) -> None:
    now = reported.sides[reported.new]["figures"]
    expected = took(now, has_lanes=reported.has_lanes)
    before = reported.sides[reported.old]["figures"] if reported.old is not None else None
    old = took(before, has_lanes=reported.has_lanes) if before else {}
    assert [head.removesuffix(" p50 / p95") for head, _ in shown["strip"]] == list(expected)
    for (head, text), (name, write) in zip(shown["strip"], expected.items(), strict=True):
        if before is None:
            assert text == write, head
        else:
            assert text == f"{write} {_difference(name, now, before, old[name], write)}", head


NUMBERS = {
    "passed": ("tasks_passed", None),
    "wall": ("wall", "wall_unknown"),
    "agents’ time": ("seconds", "seconds_unknown"),
    "tokens": ("tokens", "tokens_unknown"),
    "cost": ("usd", "usd_unknown"),
    "turn time": ("p50", "turns_unknown"),
}


def _difference(name: str, now: Json, before: Json, was: str, text: str) -> str:
    if text == was:
        return "as before"
    known, unknown = NUMBERS[name]
    values = [None if unknown and each[unknown] else each[known] for each in (now, before)]
    after, old = values
    if after is None or old is None:
        return f"was {was}"
    sign = "+" if after > old else "−"
    if name == "passed":
        return f"{sign}{words.count(abs(after - old))}, was {was}"
    by = words.by(old, after)
    return f"{by}, was {was}" if by else f"was {was}"


def _check_sides(shown: Json, reported: Reported) -> None:
    suites = reported.index["suites"]
    columns = suites if len(suites) <= MOST_SUITE_COLUMNS else []
    assert len(shown["sides"]) == len(reported.sides)
    for at, (row, side) in enumerate(zip(shown["sides"], reported.sides, strict=True)):
        assert row["label"] == words.one_space(side["label"])
        assert row["old"] == (at == reported.old)
        expected = [cell for suite in columns for cell in _score_cells(reported, at, suite, len(suites) == 1)]
        expected += took(side["figures"], has_lanes=reported.has_lanes).values()
        assert row["cells"] == expected, side["label"]


def _score_cells(reported: Reported, side: int, suite: Json, alone: bool) -> Iterator[str]:
    """Write a side's score in a suite; one that is alone has room for its interval and for words."""
    figures = reported.figures(side, suite)
    if figures is None:
        yield from (words.NONE, "no trials")
        return
    ends = words.interval(figures["low"], figures["high"])
    yield words.one_space(f"{score(figures)} {ends if alone else ''}")
    change = reported.change(side, suite)
    if side == reported.old:
        yield "old"
    elif change is None:
        yield "cannot be compared" if reported.is_compared(side) else "not compared"
    else:
        yield words.one_space(f"{change_text(change)} {verdict(change) if alone else ''}")


def score(figures: Json) -> str:
    """Write a score with its mark."""
    marked = figures["without_judge"] and figures["score"] is not None
    return f"{words.figure(figures['score'])}{'*' if marked else ''}"


def change_text(change: Json) -> str:
    """Write a change with the sign of its verdict."""
    return f"{words.signed(change['new'] - change['old'])}{SIGNS.get(change['verdict'], '')}"


def verdict(change: Json) -> str:
    """Write a verdict with how sure it is."""
    if not change["testable"]:
        return str(change["verdict"]) or "no verdict possible"
    alone = change["p_like_these"] is None or change["of_these_tasks"]
    return f"{verdict_words(change)}, {words.probability(change['p'] if alone else change['p_like_these'])}"


# ---- suites and buckets


def _check_suites(shown: Json, reported: Reported, sides: Sequence[int]) -> None:
    by_name = {words.one_space(suite["label"]): suite for suite in reported.index["suites"]}
    assert len(shown["suites"]) == len(by_name)
    for lines in shown["suites"]:
        suite = by_name[lines[0]["name"]]
        buckets = {words.one_space(each["name"]) or "no bucket": each["name"] for each in suite["buckets"]}
        assert len(lines) - 1 == (len(buckets) if len(buckets) > 1 else 0)
        for at, line in enumerate(lines):
            bucket = None if at == 0 else buckets[line["name"]]
            if len(reported.sides) > 2:
                expected = [_block_line(reported, side, suite, bucket) for side in sides]
                assert line["lines"] == expected, line["name"]
            else:
                _check_bucket_line(line, reported, suite, bucket)


def _block_line(reported: Reported, side: int, suite: Json, bucket: str | None) -> list[str]:
    label, figures = words.one_space(reported.sides[side]["label"]), reported.figures(side, suite, bucket)
    if figures is None:
        return [label, "no trials"]
    change = _change_in_list(reported, side, suite, bucket)
    return [label, score(figures), "old" if side == reported.old else change_text(change) if change else ""]


def _change_in_list(reported: Reported, side: int, suite: Json, bucket: str | None) -> Json | None:
    return reported.change(side, suite, bucket)


def _check_bucket_line(line: Json, reported: Reported, suite: Json, bucket: str | None) -> None:
    figures = reported.figures(reported.new, suite, bucket)
    change = _change_in_list(reported, reported.new, suite, bucket)
    if figures is None:
        assert reported.old is not None
        figures, change = reported.figures(reported.old, suite, bucket), None
        assert figures is not None
        assert line["cells"] == [score(figures), "old"], line["name"]
    elif reported.old is None:
        assert line["cells"] == [score(figures), words.percent(figures["pass_1"])], line["name"]
    else:
        assert line["cells"] == [score(figures), change_text(change) if change else ""], line["name"]
    tasks, trials = words.plural(figures["tasks"], "task"), words.plural(figures["averaged"], "trial")
    assert line["title"].startswith(f"{tasks}, {trials}")
    if figures["errored"]:
        assert f" and {figures['errored']} errored" in line["title"]
    if figures["low"] is not None:
        assert f"score within {words.interval(figures['low'], figures['high'])}" in line["title"]
    is_known = change is not None and figures["score"] is not None
    is_part = bool(change and is_known and not same(change["new"], figures["score"]))
    says = f"compared over {change['tasks']} of {tasks}" if change and is_part else ""
    assert line["part"] == says
    expected = "no score" if figures["score"] is None else f"score {words.figure(figures['score'])}"
    assert line["plot"].startswith(expected)
    if change:
        now = f" now {words.figure(change['new'])}" if is_part else ""
        assert line["plot"].endswith(f"before {words.figure(change['old'])}{now}")


# ---- causes, tasks, chips


def _check_causes(shown: Json, reported: Reported, sides: Sequence[int]) -> None:
    causes, several = reported.document["causes"], len(reported.sides) > 1 and len(sides) <= MOST_CAUSE_SIDES
    assert len(shown["causes"]) == len(causes)
    for (head, *cells), cause in zip(shown["causes"], causes, strict=True):
        kind = "errored " if cause["kind"] == "errored" else ""
        assert head == words.one_space(kind + words.cut(cause["words"], 200))
        counts = [words.count(cause["sides"][side]) for side in sides] if several else []
        worst, side = cause["worst"], reported.sides[cause["worst"]["side"]]
        task = next(
            trial["task"]
            for trial in reported.document["trials"]
            if (trial["run"], trial["trial"]) == (side["run"], worst["trial"])
        )
        label = f", {side['label']}" if len(reported.sides) > 1 else ""
        worst_text = words.one_space(f"{words.figure(worst['score'])} {task}{label}")
        assert cells == [*counts, words.count(cause["trials"]), words.count(cause["tasks"]), worst_text]


def _check_row(row: Json, reported: Reported, sides: Sequence[int]) -> None:
    place = row["place"]
    task = reported.index["tasks"][place]
    assert row["name"] == words.one_space(task["task"])
    trials = {side: reported.trials(place, side) for side in range(len(reported.sides))}
    means = {side: words.mean([trial["score"] for trial in own]) for side, own in trials.items()}
    if len(reported.sides) > 2:
        assert [cell["label"] for cell in row["sides"]] == [
            words.one_space(reported.sides[side]["label"]) for side in sides
        ]
        for cell, side in zip(row["sides"], sides, strict=True):
            expected = words.figure(means[side]) if trials[side] else ""
            assert cell["score"] == expected, (row["name"], side)
            change = reported.change_of_task(place, side)
            from_old = f"{words.signed(change)} from " if change is not None else ""
            assert from_old in cell["title"], (row["name"], side, from_old, cell, reported.old)
            assert bool(cell["title"]) == (change is not None), (row["name"], side)
        known = [means[side] for side in sides if means[side] is not None]
        spread = max(known) - min(known) if len(known) > 1 else None
        assert row["numbers"][0] == words.figure(spread)
        strips = [_labels(reported, side, trials[side]) for side in sides if trials[side]]
    else:
        new = reported.new
        numbers = [words.figure(means[new])]
        if reported.old is not None:
            change = reported.change_of_task(place, new)
            numbers.append("" if change is None else words.signed(change))
        assert row["numbers"][: len(numbers)] == numbers, row["name"]
        order = [new] if reported.old is None else [reported.old, new]
        strips = [_labels(reported, side, trials[side]) for side in order if trials[side] or side == new]
    for shown, expected in zip(row["strips"], strips, strict=True):
        assert shown == expected[: len(shown)], row["name"]


def _labels(reported: Reported, side: int, trials: Sequence[Json]) -> list[str]:
    """Name the cells of a side as readers of screens hear them."""
    label = reported.sides[side]["label"] if len(reported.sides) > 1 else ""
    head = f"{label} (old), " if side == reported.old else f"{label}, " if label else ""
    return [
        f"{head}repetition {trial['repetition']}: {trial['ending']}"
        + ("" if trial["score"] is None else f" {words.figure(trial['score'])}")
        for trial in trials
    ]


def check_groups(
    groups: Sequence[Json], rows: Sequence[Json], reported: Reported, sides: Sequence[int]
) -> None:
    """Rows of buckets have the figures of each side in them, and count the tasks that are shown."""
    index = reported.index
    counted: dict[tuple[int, str], int] = {}
    for row in rows:
        task = index["tasks"][row["place"]]
        key = (task["suite"], task["bucket"])
        counted[key] = counted.get(key, 0) + 1
    assert len(groups) == len(counted)
    # Buckets come in the order of their first rows.
    for group, ((number, bucket), tasks) in zip(groups, counted.items(), strict=True):
        suite = index["suites"][number]
        label = f"{words.one_space(suite['label'])}, " if len(index["suites"]) > 1 else ""
        assert group["name"] == (words.one_space(bucket) or "no bucket")
        assert group["about"] == f"{label}{words.plural(tasks, 'task')}"
        expected = []
        for side in sides:
            figures, change = reported.figures(side, suite, bucket), reported.change(side, suite, bucket)
            sign = SIGNS.get(change["verdict"], "") if change else ""
            expected.append(words.one_space(f"{sign} {score(figures)}") if figures else "")
        assert group["cells"] == (expected if len(reported.sides) > 2 else [])


def _check_chips(chips: Mapping[str, int], reported: Reported) -> None:
    index, old = reported.index, reported.old
    main = [reported.new] if len(reported.sides) == 2 else list(range(len(reported.sides)))
    found: dict[str, set[int]] = {name: set() for name in chips}
    for trial in index["trials"]:
        if trial["side"] in main:
            for name, fits in (
                ("missed", trial["ending"] in ("missed", "failed")),
                ("errored", trial["ending"] == "errored"),
                ("disagree", trial["disagree"]),
                ("undecided", trial["undecided"]),
            ):
                found[name] |= {trial["task"]} if fits else set()
    if old is not None:
        for place in range(len(index["tasks"])):
            changes = [reported.change_of_task(place, side) for side in main if side != old]
            found["better"] |= {place} if any(c is not None and c > 1e-9 for c in changes) else set()
            found["worse"] |= {place} if any(c is not None and c < -1e-9 for c in changes) else set()
    assert chips == {name: _count_tasks(reported, places) for name, places in found.items()}


def _count_tasks(reported: Reported, places: set[int]) -> int:
    """Count tasks: where several models have rows of their own, a task counts once."""
    tasks = [reported.index["tasks"][place] for place in places]
    if not reported.has_lanes:
        return len(tasks)
    return len({(reported.index["suites"][task["suite"]]["suite"], task["task"]) for task in tasks})


# ---- pictures


def check_pictures(shown: Json, reported: Reported) -> None:
    """The tables of the pictures have the figures of sides in each suite, and count tasks by their scores."""
    for table in shown["pictures"]:
        suite_name = table["suite"]
        lanes = [each for each in reported.index["suites"] if words.plain(each["suite"]) == suite_name]
        rows = [
            (side, suite, figures)
            for suite in lanes
            for side in range(len(reported.sides))
            if (figures := reported.figures(side, suite)) is not None
        ]
        if table["caption"].startswith("score against"):
            for row, (_, _, figures) in zip(table["rows"], rows, strict=True):
                _check_point(row, table["heads"], figures)
        else:
            _check_spread(table, reported, rows)


def _check_point(row: Sequence[str], heads: Sequence[str], figures: Json) -> None:
    spent = figures["spent"]
    measures = {
        "cost": words.amount(spent["cost_usd"], spent["unpriced"], words.money),
        "tokens": words.amount(spent["tokens"], spent["tokens_untold"], words.short),
        "wall time": words.amount(spent["wall_seconds"], spent["wall_untimed"], words.duration),
        "agents’ time": words.amount(spent["seconds"], spent["untimed"], words.duration),
        "score": words.figure(figures["score"]),
        "95 %": words.interval(figures["low"], figures["high"]),
        "trials": words.count(figures["averaged"] + figures["errored"]),
    }
    assert list(row[1:]) == [measures[head] for head in heads[1:]], row[0]


def _check_spread(table: Json, reported: Reported, rows: Sequence[tuple[int, Json, Json]]) -> None:
    expected = []
    for side, suite, _ in rows:
        number, bins = reported.index["suites"].index(suite), [0] * 10
        places = [at for at, task in enumerate(reported.index["tasks"]) if task["suite"] == number]
        for place in places:
            value = words.mean([trial["score"] for trial in reported.trials(place, side)])
            if value is not None:
                bins[min(9, max(0, int(value * 10 + 1e-9)))] += 1
        if sum(bins):
            expected.append(bins)
    columns = [list(map(words.count, column)) for column in zip(*expected, strict=True)]
    assert [row[1:] for row in table["rows"]] == columns


# ---- one trial


def check_trial(shown: Json, reported: Reported, place: int) -> None:
    """The page of a trial has its score, the means of its task, and what its attempts took."""
    row = reported.index["trials"][place]
    (trial,) = (t for t in reported.trials(row["task"], row["side"]) if t["trial"] == row["name"])
    assert (shown["ending"], shown["score"]) == (trial["ending"], words.figure(trial["score"]))
    tokens = trial["all_tokens"]
    took = "tokens unknown" if tokens is None else f"{words.short(tokens)} tokens"
    assert {words.duration(trial["all_seconds"]), took} <= set(shown["facts"]), (shown["facts"], took)
    change = reported.change_of_task(row["task"], row["side"])
    if change is not None and reported.old is not None:
        means = [
            words.mean([each["score"] for each in reported.trials(row["task"], side)])
            for side in (reported.old, row["side"])
        ]
        assert shown["task"] == "task {} → {}".format(*map(words.figure, means))
        assert shown["change"] == words.signed(change)
    rows = shown["rows"]
    if not rows:
        return  # its transcript is lost
    wall = trial["wall_seconds"]
    assert rows.get("Wall") == (None if wall is None else words.duration(wall))
    assert rows["Agent's time"] == words.duration(trial["seconds"] or 0.0)
    _check_trial_usage(rows, trial)
    names = " ".join(shown["grades"])
    for grade in trial["grades"]:
        written = words.figure(grade["score"]) if grade["score"] is not None else "undecided"
        assert written in names


def _check_trial_usage(rows: Mapping[str, str], trial: Json) -> None:
    parts = (trial["input_tokens"], trial["output_tokens"])
    if "Tokens" not in rows:
        assert parts == (0, 0)
    elif None in parts:
        # One reply may have only one of its two counts.
        alone = sum(part for part in parts if part)
        assert rows["Tokens"] == f"{words.count(alone)} + unknown" if alone else "unknown" in rows["Tokens"]
    else:
        read, written = (words.count(part) for part in parts)
        assert rows["Tokens"].startswith(f"{read} in")
        assert rows["Tokens"].endswith(f"{written} out")
    if "Cost" in rows:
        is_known = trial["cost_usd"] is not None
        assert rows["Cost"] == words.money(trial["cost_usd"]) if is_known else "unknown" in rows["Cost"]
    replies = trial["turn_seconds"] and json.loads(trial["turn_seconds"])
    if replies:
        ordered = sorted(replies)
        turns = {"p50": quantile(ordered, 0.5), "p95": quantile(ordered, 0.95), "turns_unknown": 0}
        assert rows.get("Turns p50 / p95", words.NONE) == words.turns(turns)


# ---- headline


def check_headline(text: str, reported: Reported) -> None:
    """The heading has the scores of one side, or the verdict between two."""
    comparison = reported.document["comparison"]
    if not reported.index["trials"]:
        assert text == "No trials"
    elif reported.old is None:
        scores = []
        for suite in reported.index["suites"][:3]:
            figures = reported.figures(0, suite)
            assert figures is not None
            ends = words.interval(figures["low"], figures["high"])
            scores.append(words.one_space(f"{words.plain(suite['label'])} {score(figures)} {ends}"))
        more = len(reported.index["suites"]) - 3
        assert text == ", ".join(scores) + (f" and {more} more" if more > 0 else "")
    elif comparison and comparison["suites"] and reported.old == 0:
        assert text == words.one_space(comparison["headline"].replace(" -> ", " → "))

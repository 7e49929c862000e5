"""Whether what the commands print, and pages in Markdown, have the figures of a document, row by row."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.records.transcript import Figure, format_cost, format_tokens
from pytest_agenteval.reports.comparison_text import format_change, format_p
from pytest_agenteval.reports.resource_text import cost_cell
from pytest_agenteval.text.formatting import (
    NOT_KNOWN,
    ending_word,
    format_duration,
    format_figure,
    one_line,
    pluralize,
)
from tests.reports import figure_cells as cells
from tests.reports.equal_boards import check_boards, check_levels, markdown_lines
from tests.reports.figure_cells import Row, Table
from tests.reports.printed_tables import (
    blocks,
    check_table,
    folded_rows,
    has_markdown_table,
    markdown_tables,
    one_space,
    plain_markdown,
    row_text,
)
from tests.reports.recounted_figures import board_rows, group_key, same

Json: TypeAlias = dict[str, Any]

WIDE = "200"
"""Columns of the widest terminal that lines are made for."""


def printed(*args: str) -> str:
    """Run a command on a wide terminal and give what it prints."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setenv("COLUMNS", WIDE)
        main(list(args))
    return out.getvalue()


def check_screens(
    names: Sequence[str], options: Sequence[str], document: Json, index: Json, markdown: str
) -> None:
    """All screens and pages in Markdown of some runs: one, two that are compared, or more of them."""
    is_one_run = len(names) == 1 and not options
    comparison, sides = document["comparison"], document["sides"]
    report = "" if is_one_run else printed("report", *names, *options, "-v")
    if is_one_run and document["boards"]:
        check_run_screens(names[0], document, markdown)
    if len(sides) > 2:
        page = Path(names[0]).parent / "compared.md"
        with_first = [pair["comparison"] for pair in document["comparisons"] if not pair["old_side"]]
        texts, pages = [report] if report else [], [] if len(names) == 1 else [markdown]
        if all(each["suites"] for each in with_first):
            texts.append(printed("compare", *names, *options, "--allow", "--markdown", str(page)))
            pages.append(page.read_text(encoding="utf-8"))
        check_side_screens(document, index, texts, pages)
    elif comparison and comparison["suites"]:
        check_comparison(comparison, printed("compare", *names, *options, "-v", "--allow"))
        if report:
            check_comparison(comparison, report)
    if len(names) > 1:
        compared = {suite["name"] for suite in comparison["suites"]} if comparison else set()
        left = [board for board in document["boards"] if board["suite"] not in compared or board["levels"]]
        check_boards(report, document, left, several_runs=True)
        _check_levels(markdown, document, several_runs=True)


def check_run_screens(name: str, document: Json, markdown: str) -> None:
    """The screens of one run, short, whole and quiet, and its Markdown."""
    rows = list(_rows_of_run(document))
    labels = _labels(document, rows)
    (total,) = document["totals"]
    short, whole, quiet = (printed("report", name, *more) for more in ((), ("-v",), ("-q",)))
    for text in (short, whole, quiet):
        _check_head(text, total, labels, rows)
    _check_whole(whole, document, rows)
    _check_worst(short, dict(zip(labels, (row for _, row in rows), strict=True)))
    _check_run_markdown(markdown, document, rows, labels)
    check_boards(whole, document, document["boards"], several_runs=False)
    _check_levels(markdown, document, several_runs=False)


def _check_levels(markdown: str, document: Json, *, several_runs: bool) -> None:
    lines = markdown_lines(markdown)
    for board in document["boards"]:
        if board["levels"]:
            check_levels(lines, document, board, several_runs=several_runs)


SuiteRow: TypeAlias = tuple[str, Json]
"""The name of a suite, and its row on a board."""


def _rows_of_run(document: Json) -> Iterator[SuiteRow]:
    for board in document["boards"]:
        yield from ((board["suite"], row) for row in board["rows"])


def _labels(document: Json, rows: Sequence[SuiteRow]) -> list[str]:
    """Name suites as the screen of a run does: with their models where there are several."""
    names = [cells.group_names(document, row, suite) for suite, row in rows]
    several = len({who for _, who in names}) > 1
    return [
        f"{cells.name_of(suite)}[{one_line(who, 200)}]" if several else cells.name_of(suite)
        for suite, who in names
    ]


def _check_head(text: str, total: Json, labels: Sequence[str], rows: Sequence[SuiteRow]) -> None:
    (head,) = (block for block in blocks(text.splitlines()) if any(map(_is_took, block)))
    head = head[next(at for at, line in enumerate(head) if _is_took(line)) :]
    took = one_space(" ".join(cells.took_texts(total)))
    assert one_space(" ".join(head)).startswith(took), (head[0], took)
    totals, suites = [row for _, row in rows], [suite for suite, _ in rows]
    if len(set(suites)) < len(suites):
        check_table(_models_table(labels, rows), head)
        return
    lines, found = cells.suite_lines(labels, totals), folded_rows(head)
    for row in lines:
        assert found.count(row_text(row)) == sum(each == row for each in lines), (row_text(row), found)
    assert sum(bool(re.search(r"\d of \d+ trials?\b", line)) for line in found) == len(lines)


def _models_table(labels: Sequence[str], rows: Sequence[SuiteRow]) -> Table:
    """Give the table of suites of which one has several models: of a single suite by their names alone."""
    titles, lines = cells.suites_table(labels, [row for _, row in rows])
    (suite, *others) = dict.fromkeys(cells.name_of(suite) for suite, _ in rows)
    if not others:
        titles = (suite, *titles[1:])
        lines = tuple(line._replace(name=line.name.removeprefix(f"{suite}[")[:-1]) for line in lines)
    if all(line.cells[1] == NOT_KNOWN for line in lines):
        titles = (titles[0], titles[1], *titles[3:])
        lines = tuple(line._replace(cells=(line.cells[0], *line.cells[2:])) for line in lines)
    return Table(titles, lines)


def _is_took(line: str) -> bool:
    return line.startswith("wall ")


def _check_whole(text: str, document: Json, rows: Sequence[SuiteRow]) -> None:
    lines = text.splitlines()
    for suite, row in rows:
        title = one_space(one_line(" with ".join(cells.group_names(document, row, suite)), 200))
        starts = [at for at, line in enumerate(lines) if one_space(line).startswith(title)]
        end = check_table(cells.buckets_table(row), lines, starts[0] if starts else 0)
        below = one_space(" ".join(lines[end : end + 12]))
        spent = row["all"]["spent"]
        took = cells.took_texts(spent, with_wall=spent["wall_seconds"] is not None)
        assert one_space("; ".join(took)) in below, (took, below)
        full = cells.figure(row["all"]["full"], row["all"]["without_judge"])
        if row["all"]["tasks_decided"]:
            assert f"; full score in {full} of trials" in below


WORST = re.compile(r"^  (\S.*?) {2,}(\S+)(?: +(\d\S*-\d\S*|-\S+\.\.\S+))? +(\d+\*? of \d+)$")


def _check_worst(text: str, rows: Mapping[str, Json]) -> None:
    """Each line of the worst buckets has the figures of all buckets that it names."""
    for block in blocks(text.splitlines()):
        label, is_worst, _ = block[0].partition(", worst first (")
        if not is_worst or label not in rows:
            continue
        buckets = {cells.name_of(name): each for name, each in rows[label]["buckets"].items()}
        for line in block[1:]:
            if found := WORST.match(line):
                names = [found[1]] if found[1] in buckets else found[1].removesuffix(",").split(", ")
                for name in names:
                    each = buckets[name]
                    between = cells.interval(each) if each["low"] is not None else None
                    assert found.groups()[1:] == (cells.score(each), between, cells.passed_of(each)), line


def _check_run_markdown(text: str, document: Json, rows: Sequence[SuiteRow], labels: Sequence[str]) -> None:
    tables = list(markdown_tables(text))
    summary = cells.suites_table(labels, [row for _, row in rows])
    # The order in which suites were planned is in no document.
    by_order = [[head, *sorted(body)] for head, *body in tables]
    ordered = Table(summary.titles, tuple(sorted(summary.rows)))
    assert has_markdown_table(ordered, by_order), (summary, tables[0])
    for _, row in rows:
        assert has_markdown_table(cells.buckets_table(row), tables), row["model"]
    assert ", ".join(cells.took_texts(document["totals"][0])) in plain_markdown(text)
    by_label = dict(zip(labels, (row for _, row in rows), strict=True))
    for head, *body in tables:
        label, is_worst, _ = head[0].partition(", worst first (")
        if is_worst and label in by_label:
            buckets = {cells.name_of(name): each for name, each in by_label[label]["buckets"].items()}
            for name, *found in body:
                each = buckets[name]
                between = cells.interval(each)
                assert found == [cells.score(each), between, cells.passed_of(each)], name


# ---- several sides


def check_side_screens(document: Json, index: Json, texts: Sequence[str], markdown: Sequence[str]) -> None:
    """Tables of three sides and more: a row for each, on screens and in Markdown."""
    rows = board_rows(document)
    for suite in index["suites"]:
        standings = []
        for side in document["sides"]:
            figures = _figures_of_side(side, suite, rows)
            if figures is not None:
                standings.append((side["label"], figures))
        table = cells.sides_table(standings)
        for text in texts:
            lines = text.splitlines()
            start = next(at for at, line in enumerate(lines) if line.startswith(f"{_lane_name(suite)}: "))
            check_table(table, lines, start)
        for text in markdown:
            assert has_markdown_table(table, list(markdown_tables(text))), suite["label"]


def _lane_name(suite: Json) -> str:
    name = one_line(suite["suite"], 200)
    return f"{name} with {one_line(suite['who'], 200)}" if suite["who"] else name


def _figures_of_side(side: Json, suite: Json, rows: Mapping[Any, Json]) -> Json | None:
    """Give a side's figures in a suite, of one of its models where it has several."""
    groups = lane_groups(side, suite)
    return rows[group_key(side, groups[0])]["all"] if groups and side["path"] else None


def lane_groups(side: Json, suite: Json) -> list[Mapping[str, str]]:
    """Give the group of a side that stands in a row of the page."""
    groups = [each for each in side["groups"] if each["suite"] == suite["suite"]]
    if len(groups) > 1:
        groups = [g for g in groups if "@".join(filter(None, (g["model"], g["variant"]))) == suite["who"]]
    return groups


# ---- two sides


def check_comparison(comparison: Json, text: str) -> None:
    """The screen of two sides, with everything: what they took, their scores, buckets, graders and tasks."""
    shown = one_space(text)
    old, new = comparison["old_resources"], comparison["new_resources"]
    if old and new:
        for title, words in change_texts(old, new):
            assert one_space(f"{title} {words}") in shown, words
    at, lines = 0, text.splitlines()
    for suite in comparison["suites"]:
        change = suite["suite"]
        if change is None:
            assert "no task has scores on both sides" in shown
        elif change["verdict"] == "identical":
            assert f"score {format_figure(change['new'])}, every trial scored the same" in shown
        else:
            assert one_space(score_text(change)) in shown, score_text(change)
            at = _check_changes(suite, lines, at)
            at = _check_graders(suite, lines, at)
            _check_moved(suite, shown)
            assert one_space(trial_text(suite)) in shown, trial_text(suite)


def change_texts(old: Json, new: Json) -> Iterator[tuple[str, str]]:
    """Write what two sides took, with the change, which is worked out here."""
    sums = (
        ("wall", cells.wall_of, cells.known),
        ("agents", cells.time_of, cells.known),
        ("tokens", cells.tokens_of, _count),
        ("cost", cells.cost_of, lambda each: format_cost(each).removeprefix("cost ")),
    )
    for title, of, write in sums:
        before, after = of(old), of(new)
        some_known = {before.known_part, after.known_part} != {None}
        if title == "agents" or (some_known if title == "wall" else before or after):
            yield title, _changed(write(before), write(after), before.value, after.value)


def _count(tokens: Figure) -> str:
    return "unknown" if tokens.known_part is None else re.sub(" tokens?", "", format_tokens(tokens))


def _changed(before: str, after: str, old: float | None, new: float | None) -> str:
    if before == after:
        return before
    by = ""
    if old is not None and new is not None and old > 0:
        percent = 100 * (new - old) / old
        by = f" ({percent:+.0f} %)" if abs(percent) >= 1 else f" ({percent:+.1f} %)"
        by = f" ({new / old:,.0f} times)" if new >= 10 * old else by
    return f"{before} -> {after}{by}"


def score_text(change: Json) -> str:
    """Write the scores of both sides with the change."""
    scores = f"score {format_figure(change['old'])} -> {format_figure(change['new'])}"
    return f"{scores} {format_change(change['new'] - change['old'])}"


def _check_changes(suite: Json, lines: Sequence[str], at: int) -> int:
    testable = sorted((each for each in suite["buckets"] if each["testable"]), key=lambda each: each["p"])
    moved = [each for each in suite["buckets"] if not (each["testable"] or same(each["old"], each["new"]))]
    shown = [*testable, *sorted(moved, key=lambda each: each["old"] - each["new"])]
    if not shown:
        return at
    rows = []
    for each in shown:
        change = [str(each["tasks"]), format_figure(each["old"]), format_figure(each["new"])]
        change += [format_change(each["new"] - each["old"])]
        change += [format_p(each["p"]) if each["testable"] else NOT_KNOWN, verdict_words(each)]
        rows.append(Row(one_line(each["name"], 200) or "(no bucket)", tuple(change)))
    titles = ("bucket", "tasks", "old", "new", "change", "p", "verdict")
    return check_table(Table(titles, tuple(rows)), lines, at)


def verdict_words(change: Json) -> str:
    """Write a verdict, a dash where none is possible."""
    if change["verdict"] in ("better", "worse"):
        these = " on this task" if change["tasks"] == 1 else " on these tasks"
        return f"{change['verdict']}{these if change['of_these_tasks'] else ''}"
    if not change["testable"]:
        return NOT_KNOWN
    return "cannot tell, because of errored trials" if change["undone"] else str(change["verdict"])


def _check_graders(suite: Json, lines: Sequence[str], at: int) -> int:
    if not suite["graders"]:
        return at
    rows = []
    for grader in suite["graders"]:
        old, new = (grader["scores"][side] or 0.0 for side in ("old", "new"))
        change = (str(grader["tasks"]), format_figure(old), format_figure(new), format_change(new - old))
        rows.append(Row(one_line(grader["grader"], 200) or NOT_KNOWN, change))
    return check_table(Table(("grader", "tasks", "old", "new", "change"), tuple(rows)), lines, at)


def _check_moved(suite: Json, shown: str) -> None:
    changed = 0
    for task in suite["tasks"]:
        means = [[score for score in task[side] if score is not None] for side in ("old", "new")]
        if not all(means) or same(*(sum(each) / len(each) for each in means)):
            continue
        changed += 1
        old, new = (" ".join(map(format_figure, task[side])) for side in ("old", "new"))
        assert one_space(f"{task['task']} {old} -> {new}") in shown, task["task"]
    assert ("unchanged" in shown) or changed == 0


def trial_text(suite: Json) -> str:
    """Write what one trial took on both sides."""
    tokens = _both(suite["tokens"], lambda value: f"{value:,.0f} tokens", "tokens unknown")
    parts = [tokens.replace(" tokens ->", " ->"), _both(suite["seconds"], format_duration, NOT_KNOWN)]
    if suite["cost_usd"] != {"old": 0, "new": 0}:
        parts.append(_both(suite["cost_usd"], lambda value: f"${value:.4f}", "cost unknown"))
    return f"per trial: {', '.join(parts)}"


def _both(pair: Json, write: Any, unknown: str) -> str:
    if pair["old"] is None and pair["new"] is None:
        return unknown
    return " -> ".join("unknown" if pair[side] is None else write(pair[side]) for side in ("old", "new"))


# ---- lists of runs, and single trials


def check_listed(document: Json, results: Path) -> None:
    """``agenteval runs`` has a row for each suite of each run, with the figures of reports."""
    lines = [one_space(line) for line in printed("runs", "--all", "--results", str(results)).splitlines()]
    head = next(line for line in lines if line.startswith("run "))
    listed = json.loads(printed("runs", "--all", "--results", str(results), "--json", "-"))
    by_name = {run["name"]: run for run in listed["runs"]}
    totals = {total["path"]: total for total in document["totals"]}
    for board in document["boards"]:
        for row in board["rows"]:
            run = by_name[Path(row["path"]).name]
            for name in ("wall_seconds", "wall_untimed"):
                assert run[name] == totals[row["path"]][name]
            key = (board["suite"], row["model"], row["variant"])
            (suite,) = (s for s in run["suites"] if (s["suite"], s["model"], s["variant"]) == key)
            _check_listed_suite(suite, row["all"])
            names = map(cells.name_of, cells.group_names(document, row, board["suite"]))
            expected = one_space(" ".join([*names, *_listed_cells(row["all"], head)]))
            assert any(expected in line for line in lines), expected


def _check_listed_suite(suite: Json, figures: Json) -> None:
    for name in ("score", "low", "high", "tasks", "planned", "errored"):
        assert suite[name] == figures[name], name
    assert suite["ended"] == figures["averaged"] + figures["errored"]
    assert {name: suite[name] for name in figures["spent"]} == figures["spent"]


def _listed_cells(figures: Json, head: str) -> Iterator[str]:
    """Give the cells of the columns that had room."""
    spent = figures["spent"]
    took = cells.tokens_of(spent) or cells.cost_of(spent)
    yield cells.score(figures)
    if " 95 % " in head:
        yield cells.interval(figures)
    yield f"{figures['averaged']:,} of {figures['planned']:,}"
    if " cost " in head:
        yield cost_cell(cells.cost_of(spent)) if took else NOT_KNOWN
    if " turn p50/p95 " in head:
        yield NOT_KNOWN if spent["turn_p95"] is None else cells.turns(spent) or NOT_KNOWN


def check_trial_screens(document: Json, results: Path) -> None:
    """``agenteval show`` has the ending of each trial, its score, time, tokens and cost, and its grades."""
    for run in document["runs"]:
        trials = {_head(trial): trial for trial in document["trials"] if trial["run"] == run["name"]}
        shown = 0
        for ending in {trial["ending"] for trial in trials.values()}:
            place = f"{Path(run['folder']).name}:{ending}"
            text = printed("show", place, "--results", str(results), "--no-pager")
            for screen in text.split("=" * int(WIDE)):
                # Of several trials each says which of how many it is, and a long name has several lines.
                begin = re.sub(r"^\d+of\d+", "", "".join(screen.split()))
                trial = next(each for head, each in trials.items() if begin.startswith(head))
                _check_trial(screen, trial, run["name"])
                shown += 1
        assert shown == len(trials)


def _head(trial: Json) -> str:
    return "".join(f"{ending_word(trial['ending'], trial['score'])}{one_line(trial['trial'], 300)}".split())


def _check_trial(screen: str, trial: Json, run: str) -> None:
    facts = one_space(screen.partition("\nwhy\n")[0])
    if f" run {run}" not in facts:
        return  # of a transcript that is lost, the journal alone is shown
    expected = [f"agent {format_duration(trial['seconds'] or 0.0)}"]
    if trial["wall_seconds"] is not None:
        expected.append(f"wall {format_duration(trial['wall_seconds'])}")
    took = [trial[name] for name in ("input_tokens", "output_tokens", "cost_usd", "replies", "requests")]
    if None in took[:2]:
        expected.append("unknown")
    elif any(each != 0 for each in took):
        expected.append(pluralize(took[0] + took[1], "token"))
        if trial["cost_usd"] is not None:
            expected.append(format_cost(Figure(trial["cost_usd"])))
    for text in expected:
        assert text in facts, (text, facts)
    shown = one_space(screen)
    for grade in trial["grades"]:
        word = "undecided" if grade["score"] is None else format_figure(grade["score"])
        assert one_space(f"{one_line(grade['grader'], 60)}") in shown
        assert word in shown, (grade, shown)

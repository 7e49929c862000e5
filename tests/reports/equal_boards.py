"""Whether boards have a document's figures: suites by bucket, benchmarks by level and metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from pytest_agenteval.text.formatting import NOT_KNOWN, format_figure, one_line, pluralize
from tests.reports import figure_cells as cells
from tests.reports.printed_tables import check_wide_table, markdown_tables, one_space

Json: TypeAlias = dict[str, Any]


def check_boards(text: str, document: Json, boards: Sequence[Json], *, several_runs: bool) -> None:
    """Boards are drawn of several runs; those of benchmarks of one run, too, with each model's levels."""
    lines = text.splitlines()
    for board in boards:
        if board["levels"]:
            check_levels(lines, document, board, several_runs=several_runs)
        elif several_runs:
            runs = pluralize(len({row["path"] for row in board["rows"]}), "run")
            start = lines.index(one_line(f"{board['suite']}: {runs}, best first", 160))
            check_wide_table(cells.board_table(board), lines, start)


def check_levels(lines: Sequence[str], document: Json, board: Json, *, several_runs: bool) -> None:
    """A benchmark's total, the values of its levels and their metrics stand in rows of their own."""
    # Which figures lack a judge is in no document.
    unmarked = [one_space(line.replace("*", "")) for line in lines]
    several = several_runs or len(board["rows"]) > 1
    expected = [] if several_runs else [row for each in board["rows"] for row in _of_one(each)]
    expected += _beside(document, board) if several else []
    for text in expected:
        assert text in unmarked, text


def check_page_boards(rows: Sequence[str], document: Json) -> None:
    """The page has a board wherever a suite has several models, and the levels of benchmarks."""
    unmarked, found = [row.replace("*", "") for row in rows], list(map(one_space, rows))
    for board in document["boards"]:
        # The page names models, whatever its sides are called.
        expected = list(_beside({**document, "sides": []}, board)) if len(board["rows"]) > 1 else []
        if not board["levels"]:
            table = cells.board_table(board).rows if len(board["rows"]) > 1 else ()
            assert all(one_space(" ".join([row.name, *row.cells])) in found for row in table)
            continue
        expected += list(_of_one(board["rows"][0])) if len(board["rows"]) == 1 else []
        for text in expected:
            assert text in map(one_space, unmarked), text


def markdown_lines(text: str) -> list[str]:
    """Give the rows of all tables of a page as lines."""
    return [" ".join(row) for table in markdown_tables(text) for row in table]


def _of_one(row: Json) -> Iterator[str]:
    """Give the rows of a model's own table: each level, and the metrics that it is made of."""
    for name, level in row.get("levels", {}).items():
        yield one_space(f"{name} {' '.join(_metric(level))}")
        for metric, each in level["metrics"].items():
            yield one_space(f"{name} {metric} {' '.join(_metric(each))}")


def _metric(metric: Json) -> list[str]:
    return [format_figure(metric["value"]), cells.interval(metric), str(metric["tasks"])]


def _value(metric: Json | None) -> str:
    return format_figure(metric["value"]) if metric else NOT_KNOWN


def _beside(document: Json, board: Json) -> Iterator[str]:
    """Give the rows of models beside each other: of the board, then of each of its levels."""
    names = row_names(document, board)
    levels = dict.fromkeys(name for row in board["rows"] for name in row.get("levels", {}))
    for name, row in zip(names, board["rows"], strict=True):
        total = row.get("composite", row["all"])
        value = format_figure(total.get("value", total.get("score")))
        values = [format_figure(row.get("levels", {}).get(level, {}).get("value")) for level in levels]
        yield one_space(" ".join([name, value, cells.interval(total), cells.trials(row["all"]), *values]))
    for level in levels:
        yield from _level_rows(list(zip(names, board["rows"], strict=True)), level)


def _level_rows(rows: Sequence[tuple[str, Json]], level: str) -> Iterator[str]:
    having = [(name, row["levels"].get(level)) for name, row in rows if "levels" in row]
    known = [each for _, each in having if each]
    if not any(metric["tasks"] for each in known for metric in (each, *each["common"].values())):
        return
    metrics = [dict.fromkeys(name for each in known for name in each[part]) for part in ("metrics", "common")]
    for name, each in having:
        found = [name, *(_metric(each) if each else (NOT_KNOWN, NOT_KNOWN, "0"))]
        for part, names in zip(("metrics", "common"), metrics, strict=True):
            found += [_value(each[part].get(metric)) if each else NOT_KNOWN for metric in names]
        yield one_space(" ".join(found))


def row_names(document: Json, board: Json) -> list[str]:
    """Name the rows of a board by their sides or, where one has no label, by their models and runs."""
    labels = [_label(document, board, row) for row in board["rows"]]
    if all(labels):
        return labels
    whos = [cells.group_names(document, row, board["suite"])[1] for row in board["rows"]]
    times = Counter(whos)
    names = [
        who if times[who] == 1 else f"{who} {row['run']}"
        for who, row in zip(whos, board["rows"], strict=True)
    ]
    return [one_line(name, 200) for name in names]


def _label(document: Json, board: Json, row: Json) -> str:
    if len(document["sides"]) < 2:
        return ""
    for side in document["sides"]:
        groups = [group for group in side["groups"] if group["suite"] == board["suite"]]
        who = {"suite": board["suite"], "model": row["model"], "variant": row["variant"]}
        if side["path"] == row["path"] and groups == [who]:
            return str(side["label"])
    return ""

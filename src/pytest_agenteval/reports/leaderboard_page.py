"""The leaderboard of a suite as a page: models best first, and the metrics of each level."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from pytest_agenteval.compare.scoring.intervals import Interval, format_interval
from pytest_agenteval.records.transcript import format_seconds
from pytest_agenteval.reports.leaderboard import (
    Leaderboard,
    LeaderboardRow,
    board_remarks,
    format_marked,
    format_metric,
    format_total,
    group_titles,
    metric_named,
    row_names,
    scorecard_notes,
)
from pytest_agenteval.reports.resource_text import cost_cell, tokens_cell, turn_cell, wall_cell
from pytest_agenteval.reports.scorecard import Metric, MetricGroup
from pytest_agenteval.reports.suite_tables import interval_cell, judge_caveat, mean_cell, trials_cell
from pytest_agenteval.text.formatting import NOT_KNOWN

Fields: TypeAlias = dict[str, Any]
Cell: TypeAlias = tuple[str, float | None]
"""What stands in a cell, and the figure that its column is sorted by."""


def board_document(board: Leaderboard, side_of: Callable[[LeaderboardRow], str]) -> Fields:
    """Give a board for the page; ``side_of`` names the side of a row, to compare it with others.

    A column is in a block: ``figure`` is what models are ordered by, ``part`` what counts in it, ``group`` a
    level or a bucket, ``use`` what was taken. ``groups`` are tables of the metrics of each level.
    """
    rows = board.standings
    names = row_names(rows)
    groups = list(_group_columns(board))
    return {
        "suite": board.suite,
        "rows": [
            {"name": name, "who": row.view.who, "run": row.run, "side": side_of(row), "note": row.view.note}
            for name, row in zip(names, rows, strict=True)
        ],
        "columns": [*_figure_columns(rows), *_part_columns(rows), *groups, *_use_columns(rows)],
        "groups": list(_group_tables(rows)),
        "notes": [*scorecard_notes(rows), *board_remarks(board)],
        "caveats": [
            f"{name}: {judge_caveat(row.view.total)}" if len(rows) > 1 else judge_caveat(row.view.total)
            for name, row in zip(names, rows, strict=True)
            if row.view.total.lacking
        ],
        "broken": sorted({row.broken for row in rows if row.broken}),
    }


def _column(title: str, block: str, cells: Iterable[Cell], says: str = "") -> Fields:
    return {"title": title, "block": block, "says": says, "cells": list(cells)}


def _figure_columns(rows: Sequence[LeaderboardRow]) -> Iterator[Fields]:
    figure = next((row.total.name for row in rows if row.total), "")
    if figure:
        yield _column(figure, "figure", ((format_total(row.scorecard), row.value) for row in rows))
        intervals = [row.total.interval if row.total else None for row in rows]
        yield _column("95 %", "figure", map(_interval, intervals))
    else:
        yield _column("score", "figure", ((mean_cell(row.view.total), row.value) for row in rows))
        cells = ((interval_cell(row.view.total), _interval(row.view.total.interval)[1]) for row in rows)
        yield _column("95 %", "figure", cells)
    trials = ((trials_cell(row.view.total), float(row.view.total.averaged)) for row in rows)
    yield _column("trials", "figure", trials)


def _part_columns(rows: Sequence[LeaderboardRow]) -> Iterator[Fields]:
    """Give the parts of which totals are made, where there is more to them than one level."""
    parts = {part.name: part for row in rows if row.total for part in row.total.parts}
    for name, part in parts.items():
        if part.groups != (name,):
            says = f"{part.weight:g} of the total: {', '.join(part.groups)}"
            yield _column(name, "part", (_part_cell(row, name) for row in rows), says)


def _part_cell(row: LeaderboardRow, name: str) -> Cell:
    for part in row.total.parts if row.total else ():
        if part.name == name and row.scorecard:
            return format_marked(row.scorecard, part.value, part.groups), part.value
    return NOT_KNOWN, None


def _group_columns(board: Leaderboard) -> Iterator[Fields]:
    rows = board.standings
    if board.has_scorecard:
        for name, title in group_titles(rows).items():
            groups = [row.scorecard.group(name) if row.scorecard else None for row in rows]
            yield _column(title, "group", (_metric(group.total if group else None) for group in groups))
        return
    # Runs of different versions of a suite may have different buckets.
    for name in dict.fromkeys(bucket.name for row in rows for bucket in row.view.rows):
        yield _column(name or "no bucket", "group", (_bucket(row, name) for row in rows))


def _bucket(row: LeaderboardRow, name: str) -> Cell:
    bucket = next((bucket for bucket in row.view.rows if bucket.name == name), None)
    return (mean_cell(bucket), bucket.score) if bucket else (NOT_KNOWN, None)


def _use_columns(rows: Sequence[LeaderboardRow]) -> Iterator[Fields]:
    """Give what agents took: where no model was called neither cost nor tokens, as on other screens."""
    spent = [row.view.total.spent for row in rows]
    for title, write, figure in (
        ("tokens", tokens_cell, attrgetter("tokens")),
        ("cost", cost_cell, attrgetter("cost")),
    ):
        cells = [
            (write(figure(use)), figure(use).value) if use.tokens or use.cost else (NOT_KNOWN, None)
            for use in spent
        ]
        yield _column(title, "use", cells)
    yield _column("agents' time", "use", ((format_seconds(use.seconds), use.seconds.value) for use in spent))
    totals = [row.view.total for row in rows]
    yield _column("wall", "use", ((wall_cell(total.wall), total.wall.value) for total in totals))
    turns = [(turn_cell(total.turns) or NOT_KNOWN, total.turns.p50) for total in totals]
    yield _column("turn p50/p95", "use", turns)


def _group_tables(rows: Sequence[LeaderboardRow]) -> Iterator[Fields]:
    """Give the metrics of each level: what its value is made of, then what stands beside it."""
    for name, title in group_titles(rows).items():
        groups = [row.scorecard.group(name) if row.scorecard else None for row in rows]
        decided = [group for group in groups if group]
        if not any(metric.tasks for group in decided for metric in (group.total, *group.beside)):
            continue
        columns = [
            _column("value", "figure", (_metric(group.total if group else None) for group in groups)),
            _column(
                "95 %", "figure", (_interval(group.total.interval if group else None) for group in groups)
            ),
            _column("tasks", "figure", (_tasks(group) for group in groups)),
        ]
        for block, of_group in (("group", _own_metrics), ("use", _beside_metrics)):
            for metric in dict.fromkeys(each.name for group in decided for each in of_group(group)):
                found = (metric_named(metric, of_group(group)) if group else None for group in groups)
                columns.append(_column(metric, block, map(_metric, found)))
        yield {"name": title, "columns": columns}


def _own_metrics(group: MetricGroup) -> Sequence[Metric]:
    return group.metrics


def _beside_metrics(group: MetricGroup) -> Sequence[Metric]:
    return group.beside


def _tasks(group: MetricGroup | None) -> Cell:
    return (str(group.total.tasks), float(group.total.tasks)) if group else (NOT_KNOWN, None)


def _metric(metric: Metric | None) -> Cell:
    return format_metric(metric), metric.value if metric else None


def _interval(interval: Interval | None) -> Cell:
    """Give an interval, which is sorted by its lower end."""
    return format_interval(interval), interval.low if interval else None


def newest_of_each(board: Leaderboard, order: Mapping[str, int]) -> Leaderboard:
    """Give the newest row of each model and variant; ``order`` numbers paths of runs, the newest first."""
    newest: dict[tuple[str, str], LeaderboardRow] = {}
    for row in sorted(board.standings, key=lambda row: order[row.path]):
        newest.setdefault((row.view.model, row.view.variant), row)
    chosen = set(map(id, newest.values()))
    return Leaderboard(board.suite, tuple(row for row in board.standings if id(row) in chosen))

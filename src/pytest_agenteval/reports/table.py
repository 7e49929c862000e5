"""The table of one suite with one model, as rows of cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_agenteval.reports.formatting import MOST_NAME, NOT_KNOWN, format_figure, one_line
from pytest_agenteval.reports.statistics import GroupStatistics, Rate
from pytest_agenteval.reports.text_width import align_columns, cell_width, wrap
from pytest_agenteval.reports.view import SuiteView
from pytest_agenteval.scoring.intervals import Estimate

NARROWEST_NAME = len("bucket")
WIDEST_NAME = 40
GAP = 2
MARK = "*"
"""Stands behind a figure over trials that lack a judge's grade."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's title and what it shows of a row.

    Where there is no room, columns that are ``spare`` are left out, those with the lowest number first.
    """

    title: str
    cell: Callable[[GroupStatistics], str]
    spare: int = 0


def columns_of(k: int) -> list[Column]:
    """Give the columns, in their order; with one repetition there is nothing to say of k."""
    of_k = [
        Column(f"pass^{k}", lambda row: mark_unjudged(format_rate(row.pass_hat_k), row.unproven), spare=5),
        Column(f"pass@{k}", lambda row: mark_unjudged(format_rate(row.pass_at_k), row.unproven), spare=3),
    ]
    return [
        Column("tasks", lambda row: str(row.tasks), spare=4),
        Column("passed", lambda row: mark_unjudged(str(row.tasks_passed), row.unproven), spare=2),
        Column(
            "score",
            lambda row: mark_unjudged(format_figure(row.mean.mean if row.mean else None), row.unscored),
        ),
        Column("95 %", lambda row: format_interval(row.mean), spare=6),
        Column("trials", lambda row: f"{row.averaged} of {row.planned}", spare=7),
        Column("full", lambda row: mark_unjudged(format_figure(row.full), row.unscored), spare=1),
        Column("pass@1", lambda row: mark_unjudged(format_rate(row.pass_1), row.unproven)),
        *(of_k if k > 1 else ()),
    ]


def mark_unjudged(cell: str, lacking: int) -> str:
    """Mark a figure that rests on trials which lack what only a judge decides."""
    return f"{cell}{MARK}" if lacking and cell != NOT_KNOWN else cell


def format_rate(found: Rate | None) -> str:
    """Write a rate."""
    return format_figure(found.value if found else None)


def format_interval(mean: Estimate | None) -> str:
    """Write an interval: ``0.52-0.90``."""
    if mean is None or mean.interval is None:
        return NOT_KNOWN
    return f"{format_figure(mean.interval.low)}-{format_figure(mean.interval.high)}"


def table_rows(suite: SuiteView) -> list[GroupStatistics]:
    """Give the rows to show: buckets and, where there are several, all together."""
    return [*suite.rows, suite.total] if len(suite.rows) != 1 else list(suite.rows)


def table_lines(suite: SuiteView, width: int) -> list[str]:
    """Give the table as lines of at most ``width`` columns.

    A name that has no room beside its figures stands whole on a line above them. Only where the figures
    themselves have no room columns are left out, the most spare first, and the last line names them.
    """
    every = columns_of(suite.total.k)
    names = [one_line(row.name, MOST_NAME) or NOT_KNOWN for row in table_rows(suite)]
    longest = max(NARROWEST_NAME, *map(cell_width, names))
    columns, gap, room = _fitting_columns(suite, every, width, min(WIDEST_NAME, longest))
    beside = ["bucket", *(name if cell_width(name) <= room else "" for name in names)]
    cells = _cells(suite, columns)
    lines = align_columns([[name, *row] for name, row in zip(beside, cells, strict=True)], gap)
    table = lines[:1]
    for name, short, line in zip(names, beside[1:], lines[1:], strict=True):
        table += [line] if short else [*wrap(name, width), line]
    left_out = ", ".join(column.title for column in every if column not in columns)
    return [*table, *(wrap(f"no room for {left_out}", width) if left_out else ())]


def _fitting_columns(
    suite: SuiteView, columns: list[Column], width: int, longest: int
) -> tuple[list[Column], int, int]:
    """Give the columns that have room, how far they stand apart, and the room that is left for names."""
    spares = sorted((column for column in columns if column.spare), key=lambda column: column.spare)
    for dropped in range(len(spares) + 1):
        here = [column for column in columns if column not in spares[:dropped]]
        wide = [max(map(len, cells)) for cells in zip(*_cells(suite, here), strict=True)]
        for gap, enough in ((GAP, longest), (1, longest), (GAP, NARROWEST_NAME), (1, NARROWEST_NAME)):
            room = width - sum(wide) - gap * len(wide)
            if room >= enough:
                return here, gap, room
    return here, 1, max(room, NARROWEST_NAME)


def _cells(suite: SuiteView, columns: list[Column]) -> list[list[str]]:
    body = [[column.cell(row) for column in columns] for row in table_rows(suite)]
    return [[column.title for column in columns], *body]

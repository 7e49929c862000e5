"""The table of one suite with one model, as rows of cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_agenteval.reports.cells import aligned, fit
from pytest_agenteval.reports.figures import Figures, Rate
from pytest_agenteval.reports.view import SuiteView
from pytest_agenteval.reports.wording import MOST_NAME, NOT_KNOWN, figure, one_line
from pytest_agenteval.scoring.intervals import Estimate

NARROWEST_NAME = 16
WIDEST_NAME = 40
GAP = 2
MARK = "*"
"""Stands behind a figure over trials that lack a judge's grade."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's title and what it shows of a row; ``spare`` columns are left out where there is no room."""

    title: str
    cell: Callable[[Figures], str]
    spare: int = 0


def columns_of(k: int) -> list[Column]:
    """Give the columns, in their order; with one repetition there is nothing to say of k."""
    of_k = [
        Column(f"pass^{k}", lambda row: marked(rate(row.pass_hat_k), row.unproven)),
        Column(f"pass@{k}", lambda row: marked(rate(row.pass_at_k), row.unproven)),
    ]
    return [
        Column("tasks", lambda row: str(row.tasks)),
        Column("passed", lambda row: marked(str(row.tasks_passed), row.unproven), spare=1),
        Column("score", lambda row: marked(figure(row.mean.mean if row.mean else None), row.unscored)),
        Column("95 %", lambda row: interval(row.mean)),
        Column("trials", lambda row: f"{row.averaged} of {row.planned}"),
        Column("full", lambda row: marked(figure(row.full), row.unscored), spare=2),
        Column("pass@1", lambda row: marked(rate(row.pass_1), row.unproven)),
        *(of_k if k > 1 else ()),
    ]


def marked(cell: str, lacking: int) -> str:
    """Mark a figure that rests on trials which lack what only a judge decides."""
    return f"{cell}{MARK}" if lacking and cell != NOT_KNOWN else cell


def rate(found: Rate | None) -> str:
    """Write a rate."""
    return figure(found.value if found else None)


def interval(mean: Estimate | None) -> str:
    """Write an interval: ``0.52-0.90``."""
    if mean is None or mean.interval is None:
        return NOT_KNOWN
    return f"{figure(mean.interval.low)}-{figure(mean.interval.high)}"


def rows_of(suite: SuiteView) -> list[Figures]:
    """Give the rows to show: buckets and, where there are several, all together."""
    return [*suite.rows, suite.total] if len(suite.rows) != 1 else list(suite.rows)


def table_lines(suite: SuiteView, width: int) -> list[str]:
    """Give the table as lines of at most ``width`` columns; what is spare goes first, then names are cut."""
    columns = columns_of(suite.total.k)
    for spare in (2, 1, 0):
        body = [[column.title for column in columns]]
        body += [[column.cell(row) for column in columns] for row in rows_of(suite)]
        room = width - sum(max(map(len, column)) + GAP for column in zip(*body, strict=True))
        if room >= NARROWEST_NAME or not spare:
            break
        columns = [column for column in columns if column.spare != spare]
    names = ["bucket", *(one_line(row.name, MOST_NAME) or NOT_KNOWN for row in rows_of(suite))]
    most = max(6, min(room, WIDEST_NAME))
    return aligned([[fit(name, most), *cells] for name, cells in zip(names, body, strict=True)], GAP)

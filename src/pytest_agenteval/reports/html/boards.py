"""Leaderboards and scorecards as parts of a page: the tables of the terminal, with a dot for each figure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.leaderboard.board_tables import leaderboard_tables
from pytest_agenteval.reports.leaderboard.scorecard_tables import scorecard_tables
from pytest_agenteval.reports.leaderboard.standings import Leaderboard, Standing, leaderboards_of
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.tables import ReportTable

WHOLE = 3
"""Rows of a board that are about the suite as a whole, above its buckets."""


class Dot(FrozenValue, frozen=True):
    """A figure with its interval, in percents of the way from 0 to 1; None where there is none."""

    at: float
    low: float | None
    high: float | None


class BoardColumn(FrozenValue, frozen=True):
    """A column: its title and a cell for each row, shaded by its score in percent where it has one."""

    title: str
    cells: tuple[str, ...]
    shades: tuple[float | None, ...] = ()


class BoardTable(FrozenValue, frozen=True):
    """A ``ReportTable`` as a page shows it, with a dot for each row where these are ordered by one figure."""

    title: str
    head: str
    names: tuple[str, ...]
    columns: tuple[BoardColumn, ...]
    notes: tuple[str, ...]
    caveats: tuple[str, ...]
    dots: tuple[Dot | None, ...] = ()


def board_tables(source: ReportSource) -> list[BoardTable]:
    """Give a board for each suite with several standings, and the scorecard of one that stands alone."""
    return [
        table for board in leaderboards_of(source.all_runs, source.scorecards) for table in _tables(board)
    ]


def _tables(board: Leaderboard) -> Iterator[BoardTable]:
    if len(board.standings) == 1:
        for standing in board.standings:
            if standing.scorecard:
                yield from map(_board, scorecard_tables(standing, standing.scorecard))
        return
    first, *others = map(_board, leaderboard_tables(board))
    if board.has_scorecard:
        yield replace(first, dots=tuple(map(_dot, board.standings)))
    else:
        yield replace(first, columns=tuple(_shaded(first, board)))
    yield from others


def _shaded(table: BoardTable, board: Leaderboard) -> Iterator[BoardColumn]:
    """Shade the buckets of each standing, which is a column, by their scores."""
    for column, standing in zip(table.columns, board.standings, strict=True):
        means = {bucket.name: bucket.mean for bucket in standing.view.rows}
        own = [means.get(name) for name in table.names[WHOLE:]]
        shades = (_percent(mean.mean) if mean else None for mean in own)
        yield replace(column, shades=(*[None] * WHOLE, *shades))


def _board(table: ReportTable) -> BoardTable:
    return BoardTable(
        title=table.title,
        head=table.head,
        names=table.names,
        columns=tuple(BoardColumn(column.title, column.cells) for column in table.columns),
        notes=tuple(note.text for note in table.notes),
        caveats=table.caveats,
    )


def _dot(standing: Standing) -> Dot | None:
    if standing.value is None:
        return None
    mean = standing.view.total.mean
    interval = standing.total.interval if standing.total else mean.interval if mean else None
    low, high = (interval.low, interval.high) if interval else (None, None)
    return Dot(
        _percent(standing.value),
        None if low is None else _percent(low),
        None if high is None else _percent(high),
    )


def _percent(value: float) -> float:
    return round(100 * min(1.0, max(0.0, value)), 2)

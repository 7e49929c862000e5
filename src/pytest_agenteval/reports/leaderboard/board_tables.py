"""The tables of a board: a row for each standing, best first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_agenteval.compare.scoring.intervals import format_interval
from pytest_agenteval.reports.leaderboard.scorecard_tables import (
    MOST_TITLE,
    beside_metric,
    format_metric,
    format_total,
    metric_columns,
)
from pytest_agenteval.reports.leaderboard.standings import Leaderboard, Standing, count_graded_differently
from pytest_agenteval.reports.scorecard import Metric, MetricGroup, TotalPart
from pytest_agenteval.reports.suite_table import (
    interval_cell,
    judge_caveat,
    mean_cell,
    trials_cell,
)
from pytest_agenteval.reports.tables import Column, Note, ReportTable, stacked_lines
from pytest_agenteval.text.formatting import MOST_NAME, NOT_KNOWN, StyledLine, one_line, pluralize

WIDEST_TITLE = 16
"""Columns of a terminal beyond which a title would cost its column more than the figures do."""


def leaderboard_tables(board: Leaderboard) -> Iterator[ReportTable]:
    """Give the table of a board and, where its suite has a scorecard, one for each group of metrics."""
    if board.has_scorecard:
        yield _by_group(board)
        yield from _metric_tables(board)
    else:
        yield _by_bucket(board)


def board_lines(boards: Iterable[Leaderboard], width: int) -> Iterator[StyledLine]:
    """Give the tables of boards as lines of a terminal."""
    return stacked_lines((table for board in boards for table in leaderboard_tables(board)), width)


def _by_group(board: Leaderboard) -> ReportTable:
    rows = board.standings
    groups = tuple(
        Column(name, tuple(format_metric(group.total if group else None) for group in _groups(rows, name)))
        for name in _group_names(rows)
    )
    return ReportTable(
        title=_title(board),
        head="model",
        names=_names(rows),
        groups=(_total_columns(rows), groups),
        notes=tuple(map(Note, (*_formula(rows), *_missing(rows), *_scorecard_notes(rows), *_remarks(board)))),
        caveats=tuple(_without_judge(rows)),
    )


def _total_columns(rows: Sequence[Standing]) -> tuple[Column, ...]:
    """Give the figure that rows are ordered by, and over how many trials it is."""
    name = next((row.total.name for row in rows if row.total), None)
    if name is None:
        return _score_columns(rows)
    intervals = [row.total.interval if row.total else None for row in rows]
    return (
        Column(name, tuple(format_total(row.scorecard) for row in rows)),
        Column("95 %", tuple(map(format_interval, intervals))),
        _trials(rows),
    )


def _score_columns(rows: Sequence[Standing]) -> tuple[Column, ...]:
    return (
        Column("score", tuple(mean_cell(row.view.total) for row in rows)),
        Column("95 %", tuple(interval_cell(row.view.total) for row in rows)),
        _trials(rows),
    )


def _metric_tables(board: Leaderboard) -> Iterator[ReportTable]:
    """Give the table of each group in which something was decided: its own metrics, then those beside it."""
    rows = [row for row in board.standings if row.scorecard]
    for name in _group_names(rows):
        groups = _groups(rows, name)
        decided = [group for group in groups if group]
        if not any(metric.tasks for group in decided for metric in (group.total, *group.beside)):
            continue
        own = dict.fromkeys(metric.name for group in decided for metric in group.metrics)
        beside = dict.fromkeys(metric.name for group in decided for metric in group.beside)
        columns = (
            *metric_columns([group.total if group else None for group in groups]),
            *(_column(metric, [_own_metric(group, metric) for group in groups]) for metric in own),
        )
        common = (_column(metric, [beside_metric(group, metric) for group in groups]) for metric in beside)
        yield ReportTable(name, "model", _names(rows), (columns, tuple(common)))


def _column(name: str, metrics: Sequence[Metric | None]) -> Column:
    return Column(name, tuple(map(format_metric, metrics)))


def _own_metric(group: MetricGroup | None, name: str) -> Metric | None:
    return next((metric for metric in group.metrics if metric.name == name), None) if group else None


def _group_names(rows: Sequence[Standing]) -> Iterable[str]:
    """Name the groups of all rows, in the order of their first appearance."""
    return dict.fromkeys(group.name for row in rows if row.scorecard for group in row.scorecard.groups)


def _groups(rows: Sequence[Standing], name: str) -> list[MetricGroup | None]:
    return [row.scorecard.group(name) if row.scorecard else None for row in rows]


def _by_bucket(board: Leaderboard) -> ReportTable:
    """Give a row for each bucket and a column for each standing: there are more buckets than runs."""
    rows = board.standings
    buckets = dict.fromkeys(bucket.name for row in rows for bucket in row.view.rows)
    titles, legend = _column_titles(rows)
    columns = tuple(
        Column(title, (*_whole_cells(row), *(_bucket(row, name) for name in buckets)))
        for title, row in zip(titles, rows, strict=True)
    )
    names = ("score", "95 %", "trials", *(one_line(name, MOST_NAME) or NOT_KNOWN for name in buckets))
    return ReportTable(
        title=_title(board),
        head="bucket",
        names=names,
        groups=(columns,),
        notes=tuple(map(Note, (*legend, *_remarks(board)))),
        caveats=tuple(_without_judge(rows)),
    )


def _column_titles(rows: Sequence[Standing]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name columns by model and variant; where runs are needed to tell them apart, by number and a legend."""
    names = _names(rows)
    if max(map(len, names)) <= WIDEST_TITLE:
        return names, ()
    numbers = tuple(str(number) for number in range(1, len(names) + 1))
    return numbers, tuple(f"{number}: {name}" for number, name in zip(numbers, names, strict=True))


def _whole_cells(row: Standing) -> tuple[str, str, str]:
    return mean_cell(row.view.total), interval_cell(row.view.total), trials_cell(row.view.total)


def _title(board: Leaderboard) -> str:
    runs = {row.path for row in board.standings}
    return one_line(f"{board.suite}: {pluralize(len(runs), 'run')}, best first", MOST_TITLE)


def _names(rows: Sequence[Standing]) -> tuple[str, ...]:
    """Name rows by model and variant, with the run where that alone is not enough."""
    times = Counter(row.view.who for row in rows)
    names = [row.view.who if times[row.view.who] == 1 else f"{row.view.who} {row.run}" for row in rows]
    return tuple(one_line(name, MOST_NAME) for name in names)


def _trials(rows: Sequence[Standing]) -> Column:
    return Column("trials", tuple(trials_cell(row.view.total) for row in rows))


def _without_judge(rows: Sequence[Standing]) -> Iterator[str]:
    """Say whose figures rest on trials that lack a judge's grade."""
    for name, row in zip(_names(rows), rows, strict=True):
        if row.view.total.lacking:
            yield f"{name}: {judge_caveat(row.view.total)}" if len(rows) > 1 else judge_caveat(row.view.total)


def _bucket(row: Standing, name: str) -> str:
    bucket = next((bucket for bucket in row.view.rows if bucket.name == name), None)
    if bucket is None or bucket.mean is None:
        return NOT_KNOWN
    interval = f" {interval_cell(bucket)}" if bucket.mean.interval else ""
    return f"{mean_cell(bucket)}{interval}"


def _formula(rows: Sequence[Standing]) -> Iterator[str]:
    """Say how the total is worked out; it is worked out in one way for all rows."""
    total = next((row.total for row in rows if row.total), None)
    if total is not None:
        parts = " + ".join(f"{part.weight:g} x {_mean_of(part)}" for part in total.parts)
        yield f"{total.name} = {parts}" + (f"; {total.beside} stands beside it" if total.beside else "")


def _mean_of(part: TotalPart) -> str:
    return part.groups[0] if len(part.groups) == 1 else f"mean({', '.join(part.groups)})"


def _missing(rows: Sequence[Standing]) -> Iterator[str]:
    for name, row in zip(_names(rows), rows, strict=True):
        if row.total is not None and row.total.missing:
            yield f"{name}: no {row.total.name}, nothing is decided in {', '.join(row.total.missing)}"


def _scorecard_notes(rows: Sequence[Standing]) -> Iterator[str]:
    for name, row in zip(_names(rows), rows, strict=True):
        yield from (f"{name}: {note}" for note in (row.scorecard.notes if row.scorecard else ()))


def _remarks(board: Leaderboard) -> Iterator[str]:
    """Say what stands beside the figures: what is in no average, and what makes rows hard to compare."""
    for name, row in zip(_names(board.standings), board.standings, strict=True):
        total = row.view.total
        counts = [(sum(total.errored.values()), "errored"), (total.not_run, "not run")]
        missing = [f"{number} {word}" for number, word in counts if number]
        if missing:
            yield f"{name}: {', '.join(missing)} of {total.planned} planned, in no average"
    differing = count_graded_differently(board.standings)
    if differing:
        tasks = pluralize(differing, "task")
        yield f"{tasks} graded by different graders, versions or judges: not comparable"
    if len({row.view.total.tasks for row in board.standings}) > 1:
        yield "the runs are over different numbers of tasks"

"""The scorecard of one suite with one model: one line after a run, or the whole of it as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_agenteval.compare.scoring.intervals import format_interval
from pytest_agenteval.reports.leaderboard.standings import Standing, standings_of
from pytest_agenteval.reports.scorecard import Metric, MetricGroup, RegisteredScorecard, Scorecard, Total
from pytest_agenteval.reports.suite_table import judge_caveat, mark_unjudged
from pytest_agenteval.reports.tables import Column, Note, ReportTable, stacked_lines
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import (
    StyledLine,
    clamp_width,
    format_figure,
    one_line,
    plural,
    wrapped_lines,
)

MOST_TITLE = 160


def scorecard_lines(
    run: Run, scorecards: Iterable[RegisteredScorecard], width: int, *, whole: bool
) -> Iterator[StyledLine]:
    """Give the scorecard of each suite and model that has one; nothing for other suites.

    What a benchmark has wrong is a line, once; the scorecards of others are drawn.
    """
    standings = list(standings_of(run, scorecards))
    for broken in dict.fromkeys(standing.broken for standing in standings if standing.broken):
        yield from wrapped_lines(broken, clamp_width(width), "red", indent="")
    yield from standing_lines(standings, width, whole=whole)


def standing_lines(standings: Sequence[Standing], width: int, *, whole: bool) -> Iterator[StyledLine]:
    """Give the scorecards of these suites and models, as tables or a line each."""
    width = clamp_width(width)
    with_one = [(standing, standing.scorecard) for standing in standings if standing.scorecard]
    if whole:
        tables = (table for standing, card in with_one for table in scorecard_tables(standing, card))
        yield from stacked_lines(tables, width)
        return
    several = len({standing.view.who for standing in standings}) > 1
    for standing, card in with_one:
        yield from wrapped_lines(_in_brief(standing, card, several), width, indent="")


def scorecard_tables(standing: Standing, scorecard: Scorecard) -> Iterator[ReportTable]:
    """Give the groups with each metric and the way to the total, then what stands beside every group."""
    rows = [(group, metric) for group in scorecard.groups for metric in (group.total, *group.metrics)]
    total = standing.view.total
    yield ReportTable(
        title=one_line(_groups_of(standing, scorecard), MOST_TITLE),
        head=scorecard.group_word,
        names=tuple(_row_name(group, metric) for group, metric in rows),
        groups=(metric_columns([metric for _, metric in rows]),),
        notes=tuple(map(Note, (*_total_notes(scorecard), *scorecard.notes))),
        caveats=(judge_caveat(total),) if total.lacking else (),
    )
    if any(group.beside for group in scorecard.groups):
        yield _beside_table(scorecard)


def metric_columns(metrics: Iterable[Metric | None]) -> tuple[Column, Column, Column]:
    """Give what is to be said of a figure for each row: its value, how sure it is, over how many tasks."""
    metrics = list(metrics)
    return (
        Column("value", tuple(map(format_metric, metrics))),
        Column("95 %", tuple(format_interval(metric.interval if metric else None) for metric in metrics)),
        Column("tasks", tuple(str(metric.tasks if metric else 0) for metric in metrics)),
    )


def format_metric(metric: Metric | None) -> str:
    """Write the figure of a group or of one of its metrics, marked where some of its tasks lack a judge."""
    return mark_unjudged(format_figure(metric.value), metric.unjudged) if metric else format_figure(None)


def format_total(scorecard: Scorecard | None) -> str:
    """Write a total, marked where a group of any of its parts lacks a judge's grade."""
    total = scorecard.total if scorecard else None
    if scorecard is None or total is None:
        return format_figure(None)
    return _marked(scorecard, total.value, (name for part in total.parts for name in part.groups))


def _beside_table(scorecard: Scorecard) -> ReportTable:
    """Give what is shown with each group and is no part of its value: a row for each group."""
    names = dict.fromkeys(metric.name for group in scorecard.groups for metric in group.beside)
    columns = tuple(
        Column(name, tuple(format_metric(beside_metric(group, name)) for group in scorecard.groups))
        for name in names
    )
    word = scorecard.group_word
    return ReportTable(
        title=f"metrics of every {word}, in no {word}'s value",
        head=word,
        names=tuple(group.name for group in scorecard.groups),
        groups=(columns,),
    )


def beside_metric(group: MetricGroup | None, name: str) -> Metric | None:
    """Give what stands beside a group under a name, None where nothing does."""
    return next((metric for metric in group.beside if metric.name == name), None) if group else None


def _in_brief(standing: Standing, scorecard: Scorecard, several: bool) -> str:
    """Give the total and what it lacks; where a benchmark makes none, its groups."""
    view, total = standing.view, scorecard.total
    if total is None:
        groups = [_group_text(group) for group in scorecard.groups if group.value is not None or group.reason]
        return f"{_groups_of(standing, scorecard)}: {', '.join(groups)}"
    name = f"{view.suite}[{view.who}]" if several else view.suite
    between = f" ({format_interval(total.interval)})" if total.interval else ""
    lacking = ", ".join(_lack_text(scorecard, missing) for missing in total.missing)
    return f"{name} {total.name} {format_total(scorecard)}{between}{f': lacks {lacking}' if lacking else ''}"


def _lack_text(scorecard: Scorecard, name: str) -> str:
    group = scorecard.group(name)
    return f"{name} ({group.reason})" if group and group.reason else name


def _groups_of(standing: Standing, scorecard: Scorecard) -> str:
    return f"{plural(scorecard.group_word)} of {standing.view.suite} with {standing.view.who}"


def _group_text(group: MetricGroup) -> str:
    """Write the value of a group that was tried and what had no part in it, or why it has none."""
    if group.value is None:
        return f"{group.name} {format_figure(None)} ({group.reason})"
    lacking = [metric.name for metric in group.metrics if metric.value is None]
    without = f" (without {', '.join(lacking)})" if lacking else ""
    return f"{group.name} {format_metric(group.total)}{without}"


def _total_text(scorecard: Scorecard, total: Total) -> str:
    interval = f" (95 % {format_interval(total.interval)})" if total.interval else ""
    return f"{total.name} {format_total(scorecard)}{interval}"


def _total_notes(scorecard: Scorecard) -> Iterator[str]:
    """Say what the total is and what it is made of, or which groups it lacks."""
    total = scorecard.total
    if total is None:
        return
    beside = f"; {_beside_text(scorecard, total.beside)}" if total.beside else ""
    if total.value is None:
        yield f"no {total.name}: nothing is decided in {', '.join(total.missing)}{beside}"
        return
    parts = " + ".join(
        f"{part.weight:g} x {part.name} {_marked(scorecard, part.value, part.groups)}" for part in total.parts
    )
    yield f"{_total_text(scorecard, total)} = {parts}{beside}"


def _beside_text(scorecard: Scorecard, name: str) -> str:
    group = scorecard.group(name)
    return f"{name} stands beside it with {format_metric(group.total if group else None)}"


def _marked(scorecard: Scorecard, value: float | None, groups: Iterable[str]) -> str:
    """Write a figure that is made of groups, marked where one of them lacks a judge's grade."""
    return mark_unjudged(format_figure(value), scorecard.is_unjudged(groups))


def _row_name(group: MetricGroup, metric: Metric) -> str:
    return group.name if metric is group.total else f"{group.name} {metric.name}"

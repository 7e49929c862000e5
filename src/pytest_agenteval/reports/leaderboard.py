"""Suites with their models, best first, as tables and as JSON, and the scorecards of benchmarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from pytest_agenteval.compare.scoring.intervals import format_interval, interval_ends
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.group_statistics import GroupStatistics
from pytest_agenteval.reports.run_view import Group, SuiteView, decisions_json, entries_by_group, suite_views
from pytest_agenteval.reports.scorecard import (
    BrokenScorecard,
    Metric,
    MetricGroup,
    RegisteredScorecard,
    Scorecard,
    Total,
    scorecard_of,
)
from pytest_agenteval.reports.sides import Sides
from pytest_agenteval.reports.suite_tables import (
    interval_cell,
    judge_caveat,
    mark_unjudged,
    mean_cell,
    trials_cell,
)
from pytest_agenteval.reports.tables import ReportTable, TableColumn, TableNote, stacked_lines
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import (
    MOST_NAME,
    NOT_KNOWN,
    StyledLine,
    clamp_width,
    format_figure,
    one_line,
    plural,
    pluralize,
    wrapped_lines,
)

FORMAT = 1


class LeaderboardRow(FrozenValue, frozen=True):
    """A suite with one model and variant in one run.

    ``scorecard`` is that of a benchmark which knows the suite's graders; ``broken`` says why it could not be
    made. ``label`` is that of the report's side, where it names the row.
    """

    run: str
    path: str
    view: SuiteView
    scorecard: Scorecard | None
    entries: Sequence[JournalEntry]
    broken: str = ""
    label: str = ""

    @property
    def total(self) -> Total | None:
        return self.scorecard.total if self.scorecard else None

    @property
    def value(self) -> float | None:
        """The figure that the board is ordered by: the scorecard's total, else the mean score; 1 at most."""
        return self.view.total.score if self.total is None else self.total.value


class Leaderboard(FrozenValue, frozen=True):
    """All standings of one suite, best first, those without a figure last."""

    suite: str
    standings: tuple[LeaderboardRow, ...]

    @property
    def has_scorecard(self) -> bool:
        return any(standing.scorecard for standing in self.standings)


def leaderboards_of(
    runs: Iterable[Run], scorecards: Sequence[RegisteredScorecard] = (), sides: Sides | None = None
) -> list[Leaderboard]:
    """Make a board for each suite, in order of appearance; no transcript is read.

    With ``sides`` it has their rows, under their labels, and no others.
    """
    by_suite: dict[str, list[LeaderboardRow]] = {}
    for run in runs:
        labels = _side_labels(sides, run)
        for standing in _standings_of(run, scorecards, labels):
            by_suite.setdefault(standing.view.suite, []).append(standing)
    return [Leaderboard(suite, tuple(sorted(rows, key=_best_first))) for suite, rows in by_suite.items()]


def _side_labels(sides: Sides | None, run: Run) -> dict[Group, str] | None:
    """Give the label of each suite, model and variant that sides have of a run; None for all, without one.

    A side with several models has none for a single one of them.
    """
    if sides is None:
        return None
    labels: dict[Group, str] = {}
    for side in sides.sides:
        if side.run is run:
            suites = [view.suite for view in side.suites]
            for view in side.suites:
                labels[view.group] = side.label if suites.count(view.suite) == 1 and len(sides) > 1 else ""
    return labels


def _standings_of(
    run: Run, scorecards: Iterable[RegisteredScorecard] = (), labels: Mapping[Group, str] | None = None
) -> Iterator[LeaderboardRow]:
    groups = entries_by_group(run)
    for suite in suite_views(run):
        if labels is not None and suite.group not in labels:
            continue
        entries, scorecard, broken = groups[suite.group], None, ""
        try:
            scorecard = scorecard_of(entries, scorecards)
        # The code of a benchmark must not cost a run its other tables.
        except BrokenScorecard as mistake:
            broken = str(mistake)
        label = labels[suite.group] if labels else ""
        yield LeaderboardRow(run.name, str(run.folder), suite, scorecard, entries, broken, label)


def suite_entries(run: Run, suite: SuiteView) -> list[JournalEntry]:
    return entries_by_group(run)[suite.group]


def _count_graded_differently(standings: Sequence[LeaderboardRow]) -> int:
    # Of the tasks that several standings have, those that were not graded by the same ruler in all.
    by_task: dict[str, set[str]] = {}
    for standing in standings:
        for entry in standing.entries:
            if entry.digests.ruler:
                by_task.setdefault(entry.key.task, set()).add(entry.digests.ruler)
    return sum(len(rulers) > 1 for rulers in by_task.values())


def _best_first(standing: LeaderboardRow) -> tuple[bool, float, str, str]:
    # After the figure come names, so that equal rows have one order in every report.
    value = standing.value
    return value is None, -(value or 0.0), standing.view.who, standing.run


def leaderboards_json(boards: Sequence[Leaderboard]) -> dict[str, Any]:
    """Give everything the tables show, with all digits, as JSON values."""
    totals = [row.total for board in boards for row in board.standings if row.total]
    weights = {part.name: part.weight for total in totals for part in total.parts}
    return {
        "v": FORMAT,
        "weights": weights,
        "boards": [
            {
                "suite": board.suite,
                "levels": board.has_scorecard,
                "graded_differently": _count_graded_differently(board.standings),
                "rows": [_row_json(row) for row in board.standings],
            }
            for board in boards
        ],
    }


def _row_json(row: LeaderboardRow) -> dict[str, Any]:
    data: dict[str, Any] = {
        "run": row.run,
        "path": row.path,
        "model": row.view.model,
        "variant": row.view.variant,
        "note": row.view.note,
        "all": _figures(row.view.total),
        "buckets": {bucket.name: _figures(bucket) for bucket in row.view.rows},
    }
    if row.view.decisions:
        data["decisions"] = decisions_json(row.view.decisions)
    # The keys are the same for every benchmark: a level is any group of metrics.
    if row.total is not None and row.scorecard is not None:
        beside = row.scorecard.group(row.total.beside)
        data["composite"] = {
            "value": row.total.value,
            **interval_ends(row.total.interval),
            "parts": {part.name: part.value for part in row.total.parts},
            "weights": {part.name: part.weight for part in row.total.parts},
            "missing": list(row.total.missing),
            "beside": beside.value if beside else None,
        }
    if row.scorecard is not None:
        data["levels"] = {
            group.name: {
                **_metric(group.total),
                "metrics": {metric.name: _metric(metric) for metric in group.metrics},
                "common": {metric.name: _metric(metric) for metric in group.beside},
            }
            for group in row.scorecard.groups
        }
        if row.scorecard.notes:
            data["notes"] = list(row.scorecard.notes)
    return data


def _figures(row: GroupStatistics) -> dict[str, Any]:
    return {
        "score": row.score,
        **interval_ends(row.interval),
        "tasks": row.tasks,
        "planned": row.planned,
        "averaged": row.averaged,
        "errored": row.errors,
        "not_run": row.not_run,
        "without_judge": row.unscored,
        "k": row.k,
        "pass_1": row.pass_1.value if row.pass_1 else None,
        "pass_at_k": row.pass_at_k.value if row.pass_at_k else None,
        "pass_hat_k": row.pass_hat_k.value if row.pass_hat_k else None,
        "full": row.full,
        "tasks_passed": row.tasks_passed,
        "tasks_decided": row.tasks_decided,
        "errored_by_cause": dict(row.errored),
        "limits_reached": dict(row.limited),
        "undecided": dict(row.undecided),
        "unproven": row.unproven,
        "retried": row.retried,
        "spent": row.resources.to_json(),
        "judging": {**row.judging.to_json(), "replies": row.judge_asks},
        "tool_tape": row.tools.to_json(),
        "chat_tape": row.chats.to_json(),
    }


def _metric(metric: Metric) -> dict[str, Any]:
    return {"value": metric.value, **interval_ends(metric.interval), "tasks": metric.tasks}


MOST_TITLE = 160


def scorecard_lines(
    run: Run, scorecards: Iterable[RegisteredScorecard], width: int, *, whole: bool
) -> Iterator[StyledLine]:
    """Give the scorecard of each suite and model that has one; nothing for other suites.

    A mistake of a benchmark is one line; the scorecards of others are drawn all the same.
    """
    standings = list(_standings_of(run, scorecards))
    # Each suite and model with the broken scorecard says the same: it stands there once.
    for broken in dict.fromkeys(standing.broken for standing in standings if standing.broken):
        yield from wrapped_lines(broken, clamp_width(width), "red", indent="")
    yield from standing_lines(standings, width, whole=whole)


def standing_lines(standings: Sequence[LeaderboardRow], width: int, *, whole: bool) -> Iterator[StyledLine]:
    """Give the scorecards of these suites and models, as tables (``whole``) or in a line each."""
    width = clamp_width(width)
    with_one = [(standing, standing.scorecard) for standing in standings if standing.scorecard]
    if whole:
        tables = (table for standing, card in with_one for table in scorecard_tables(standing, card))
        yield from stacked_lines(tables, width)
        return
    several = len({standing.view.who for standing in standings}) > 1
    for standing, card in with_one:
        yield from wrapped_lines(_in_brief(standing, card, several), width, indent="")


def scorecard_tables(standing: LeaderboardRow, scorecard: Scorecard) -> Iterator[ReportTable]:
    """Give the table of the groups with their metrics and the total, then that of metrics of every group.

    The second one, of metrics that are part of no group's value, is left out where there are none.
    """
    rows = [(group, metric) for group in scorecard.groups for metric in (group.total, *group.metrics)]
    total = standing.view.total
    yield ReportTable(
        title=one_line(_groups_of(standing, scorecard), MOST_TITLE),
        head=scorecard.group_word,
        names=tuple(
            group.name if metric is group.total else f"{group.name} {metric.name}" for group, metric in rows
        ),
        groups=(_metric_columns([metric for _, metric in rows]),),
        notes=tuple(map(TableNote, (*_total_notes(scorecard), *scorecard.notes))),
        caveats=(judge_caveat(total),) if total.lacking else (),
    )
    if beside := dict.fromkeys(metric.name for group in scorecard.groups for metric in group.beside):
        columns = tuple(
            _column(name, (metric_named(name, group.beside) for group in scorecard.groups)) for name in beside
        )
        word = scorecard.group_word
        groups = tuple(group.name for group in scorecard.groups)
        yield ReportTable(f"metrics of every {word}, not part of a {word}'s value", word, groups, (columns,))


def _metric_columns(metrics: Sequence[Metric | None]) -> tuple[TableColumn, TableColumn, TableColumn]:
    """Give the columns of the figures of groups: value, interval, and how many tasks could tell."""
    intervals = (format_interval(metric.interval if metric else None) for metric in metrics)
    tasks = (str(metric.tasks if metric else 0) for metric in metrics)
    return (
        _column("value", metrics),
        TableColumn("95 %", tuple(intervals)),
        TableColumn("tasks", tuple(tasks)),
    )


def _column(name: str, metrics: Iterable[Metric | None]) -> TableColumn:
    return TableColumn(name, tuple(map(format_metric, metrics)))


def format_metric(metric: Metric | None) -> str:
    """Write the figure of a group or of one of its metrics, marked where some of its tasks lack a judge."""
    return mark_unjudged(format_figure(metric.value), metric.unjudged) if metric else NOT_KNOWN


def format_total(scorecard: Scorecard | None) -> str:
    """Write a total, marked where a group of any of its parts lacks a judge's grade."""
    total = scorecard.total if scorecard else None
    if scorecard is None or total is None:
        return NOT_KNOWN
    return format_marked(scorecard, total.value, (name for part in total.parts for name in part.groups))


def metric_named(name: str, metrics: Iterable[Metric]) -> Metric | None:
    return next((metric for metric in metrics if metric.name == name), None)


def _in_brief(standing: LeaderboardRow, scorecard: Scorecard, several: bool) -> str:
    """Write the total and the groups that it lacks; where a benchmark has no total, its groups."""
    view, total = standing.view, scorecard.total
    if total is None:
        groups = [_group_text(group) for group in scorecard.groups if group.value is not None or group.reason]
        return f"{_groups_of(standing, scorecard)}: {', '.join(groups)}"
    name = f"{view.suite}[{view.who}]" if several else view.suite
    between = f" ({format_interval(total.interval)})" if total.interval else ""
    missing = [(name, scorecard.group(name)) for name in total.missing]
    lacking = ", ".join(
        f"{name} ({group.reason})" if group and group.reason else name for name, group in missing
    )
    word = scorecard.group_word if len(missing) == 1 else plural(scorecard.group_word)
    lacking = f"{word} {lacking}" if missing else ""
    return f"{name} {total.name} {format_total(scorecard)}{between}{f': lacks {lacking}' if lacking else ''}"


def _groups_of(standing: LeaderboardRow, scorecard: Scorecard) -> str:
    return f"{plural(scorecard.group_word)} of {standing.view.suite} with {standing.view.who}"


def _group_text(group: MetricGroup) -> str:
    """Write the value of a group with the metrics that it lacks, or the reason why it has none."""
    if group.value is None:
        return f"{group.name} {format_figure(None)} ({group.reason})"
    lacking = [metric.name for metric in group.metrics if metric.value is None]
    without = f" (without {', '.join(lacking)})" if lacking else ""
    return f"{group.name} {format_metric(group.total)}{without}"


def _total_notes(scorecard: Scorecard) -> Iterator[str]:
    """Write the total as the sum of its parts, or say which groups it lacks."""
    total = scorecard.total
    if total is None:
        return
    group = scorecard.group(total.beside)
    figure = format_metric(group.total if group else None)
    beside = f"; {total.beside} stands beside it with {figure}" if total.beside else ""
    if total.value is None:
        yield f"no {total.name}: no grade is decided in {_missing(scorecard, total)}{beside}"
        return
    parts = " + ".join(
        f"{part.weight:g} x {part.name} {format_marked(scorecard, part.value, part.groups)}"
        for part in total.parts
    )
    interval = f" (95 % {format_interval(total.interval)})" if total.interval else ""
    yield f"{total.name} {format_total(scorecard)}{interval} = {parts}{beside}"


def format_marked(scorecard: Scorecard, value: float | None, groups: Iterable[str]) -> str:
    return mark_unjudged(format_figure(value), scorecard.is_unjudged(groups))


WIDEST_TITLE = 16
"""Columns of a terminal beyond which a title would cost its column more than the figures do."""


def leaderboard_tables(board: Leaderboard) -> Iterator[ReportTable]:
    """Give the table of a board and, where its suite has a scorecard, one for each group of metrics."""
    if not board.has_scorecard:
        yield _by_bucket(board)
        return
    yield _by_group(board)
    rows = [row for row in board.standings if row.scorecard]
    titles = group_titles(rows)
    for name in titles:
        # A newer version of a benchmark may have a group that older runs lack.
        groups = _groups(rows, name)
        decided = [group for group in groups if group]
        if not any(metric.tasks for group in decided for metric in (group.total, *group.beside)):
            continue
        # The group's own metrics are one block of columns and those beside it another, so that a table that
        # is too wide is split between them.
        own, beside = (
            tuple(
                _column(metric, (metric_named(metric, side(group)) if group else None for group in groups))
                for metric in dict.fromkeys(metric.name for group in decided for metric in side(group))
            )
            for side in (attrgetter("metrics"), attrgetter("beside"))
        )
        figures = _metric_columns([group.total if group else None for group in groups])
        yield ReportTable(titles[name], "model", row_names(rows), ((*figures, *own), beside))


def board_lines(boards: Iterable[Leaderboard], width: int) -> Iterator[StyledLine]:
    return stacked_lines((table for board in boards for table in leaderboard_tables(board)), width)


def _by_group(board: Leaderboard) -> ReportTable:
    rows = board.standings
    titles = group_titles(rows)
    groups = tuple(
        _column(title, [group.total if group else None for group in _groups(rows, name)])
        for name, title in titles.items()
    )
    # The first column is what rows are ordered by: the total, or the score where a benchmark has no total.
    figure = next((row.total.name for row in rows if row.total), "")
    if figure:
        figures = [format_total(row.scorecard) for row in rows]
        intervals = [format_interval(row.total.interval if row.total else None) for row in rows]
    else:
        figures = [mean_cell(row.view.total) for row in rows]
        intervals = [interval_cell(row.view.total) for row in rows]
    columns = (
        TableColumn(figure or "score", tuple(figures)),
        TableColumn("95 %", tuple(intervals)),
        TableColumn("trials", tuple(trials_cell(row.view.total) for row in rows)),
    )
    # Two figures of one name would be taken for the same.
    same = [(name, title) for name, title in titles.items() if title != name]
    note = [
        f"{title} comes from its metrics, bucket {name} from its trials' scores" for name, title in same[:1]
    ]
    notes = (*note, *scorecard_notes(rows), *board_remarks(board))
    return _board_table(board, "model", row_names(rows), (columns, groups), notes)


def _board_table(
    board: Leaderboard,
    head: str,
    names: tuple[str, ...],
    groups: tuple[tuple[TableColumn, ...], ...],
    notes: Iterable[str],
) -> ReportTable:
    rows = board.standings
    title = one_line(
        f"{board.suite}: {pluralize(len({row.path for row in rows}), 'run')}, best first", MOST_TITLE
    )
    caveats = [
        f"{name}: {judge_caveat(row.view.total)}" if len(rows) > 1 else judge_caveat(row.view.total)
        for name, row in zip(row_names(rows), rows, strict=True)
        if row.view.total.lacking
    ]
    return ReportTable(title, head, names, groups, tuple(map(TableNote, notes)), tuple(caveats))


def group_titles(rows: Sequence[LeaderboardRow]) -> dict[str, str]:
    """Give the title of each group: its name, after the benchmark's word where a bucket has the same name."""
    words = {
        group.name: row.scorecard.group_word
        for row in rows
        if row.scorecard
        for group in row.scorecard.groups
    }
    buckets = {bucket.name for row in rows for bucket in row.view.rows}
    return {name: f"{word} {name}" if name in buckets else name for name, word in words.items()}


def _groups(rows: Sequence[LeaderboardRow], name: str) -> list[MetricGroup | None]:
    return [row.scorecard.group(name) if row.scorecard else None for row in rows]


def _by_bucket(board: Leaderboard) -> ReportTable:
    """Give a row for each bucket and a column for each standing, as there are more buckets than runs."""
    rows = board.standings
    # Runs of different versions of a suite may have different buckets: all of them get a row.
    buckets = dict.fromkeys(bucket.name for row in rows for bucket in row.view.rows)
    titles = row_names(rows)
    legend: tuple[str, ...] = ()
    # Long titles would make their columns wider than the figures are: numbers stand for all of them.
    if max(map(len, titles)) > WIDEST_TITLE:
        numbers = tuple(map(str, range(1, len(titles) + 1)))
        legend = tuple(f"{number}: {name}" for number, name in zip(numbers, titles, strict=True))
        titles = numbers

    columns = tuple(
        TableColumn(
            title,
            (
                *(cell(row.view.total) for cell in (mean_cell, interval_cell, trials_cell)),
                *(_bucket_cell(row, name) for name in buckets),
            ),
        )
        for title, row in zip(titles, rows, strict=True)
    )
    names = ("score", "95 %", "trials", *(one_line(name, MOST_NAME) or NOT_KNOWN for name in buckets))
    return _board_table(board, "bucket", names, (columns,), (*legend, *board_remarks(board)))


def row_names(rows: Sequence[LeaderboardRow]) -> tuple[str, ...]:
    """Name rows by their sides, else by model and variant, with the run too where several have the same."""
    if all(row.label for row in rows):
        return tuple(row.label for row in rows)
    times = Counter(row.view.who for row in rows)
    names = [row.view.who if times[row.view.who] == 1 else f"{row.view.who} {row.run}" for row in rows]
    return tuple(one_line(name, MOST_NAME) for name in names)


def _bucket_cell(row: LeaderboardRow, name: str) -> str:
    bucket = next((bucket for bucket in row.view.rows if bucket.name == name), None)
    if bucket is None:
        return NOT_KNOWN
    return f"{mean_cell(bucket)}{f' {interval_cell(bucket)}' if bucket.interval else ''}"


def _missing(scorecard: Scorecard, total: Total) -> str:
    word = scorecard.group_word if len(total.missing) == 1 else plural(scorecard.group_word)
    return f"{word} {', '.join(total.missing)}"


def scorecard_notes(rows: Sequence[LeaderboardRow]) -> Iterator[str]:
    """Give the formula of the total, which all rows share, what rows lack for it, and their own notes."""
    total = next((row.total for row in rows if row.total), None)
    if total is not None:
        means = [
            part.groups[0] if len(part.groups) == 1 else f"mean({', '.join(part.groups)})"
            for part in total.parts
        ]
        parts = " + ".join(f"{part.weight:g} x {mean}" for part, mean in zip(total.parts, means, strict=True))
        yield f"{total.name} = {parts}" + (f"; {total.beside} stands beside it" if total.beside else "")
    named_rows = list(zip(row_names(rows), rows, strict=True))
    for name, row in named_rows:
        if row.total is not None and row.total.missing:
            missing = _missing(row.scorecard, row.total) if row.scorecard else ""
            yield f"{name}: no {row.total.name}, no grade is decided in {missing}"
    for name, row in named_rows:
        yield from (f"{name}: {note}" for note in (row.scorecard.notes if row.scorecard else ()))


def board_remarks(board: Leaderboard) -> Iterator[str]:
    """Say which trials are in no average, and what makes rows hard to compare."""
    for name, row in zip(row_names(board.standings), board.standings, strict=True):
        total = row.view.total
        counts = [(total.errors, "errored"), (total.not_run, "not run")]
        missing = [f"{number} {word}" for number, word in counts if number]
        if missing:
            yield f"{name}: {', '.join(missing)} of {total.planned} planned, in no average"
    differing = _count_graded_differently(board.standings)
    if differing:
        tasks = pluralize(differing, "task")
        yield f"{tasks} graded by different graders, versions or judges: not comparable"
    if len({row.view.total.tasks for row in board.standings}) > 1:
        yield "the runs are over different numbers of tasks"

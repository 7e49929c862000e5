"""The tables of a board, and those of one standing by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_agenteval.benchmarks.ko_agentbench.composite import BESIDE, PARTS, Composite
from pytest_agenteval.benchmarks.ko_agentbench.levels import COMMON_METRICS, LEVELS, Level, Measured
from pytest_agenteval.reports.formatting import (
    MOST_NAME,
    NOT_KNOWN,
    format_figure,
    format_interval,
    one_line,
    pluralize,
)
from pytest_agenteval.reports.leaderboard.standings import Board, Standing, count_graded_differently
from pytest_agenteval.reports.suite_table import (
    averaged_of_planned,
    judge_caveat,
    mark_unjudged,
    mean_interval,
    mean_score,
)
from pytest_agenteval.reports.tables import Column, Note, Table

MOST_TITLE = 160


def board_tables(board: Board) -> Iterator[Table]:
    """Give the table of a board and, where its suite has levels, one for each level."""
    if board.has_levels:
        yield _by_level(board)
        yield from _metrics(board)
    else:
        yield _by_bucket(board)


def standing_tables(standing: Standing) -> Iterator[Table]:
    """Give the levels of one standing with each metric and the composite, then what all levels measure."""
    if standing.composite is None:
        return
    shown = [(level, each) for level in standing.levels for each in (level.total, *level.metrics)]
    yield Table(
        title=one_line(f"levels of {standing.view.suite} with {standing.view.who}", MOST_TITLE),
        head="level",
        names=tuple(_row_name(level, each) for level, each in shown),
        groups=(
            (
                Column("value", tuple(_value(standing, level, each) for level, each in shown)),
                Column("95 %", tuple(format_interval(each.interval) for _, each in shown)),
                Column("tasks", tuple(str(each.tasks) for _, each in shown)),
            ),
        ),
        notes=tuple(map(Note, _composite(standing, standing.composite))),
        caveats=tuple(_without_judge([standing])),
    )
    yield Table(
        title="metrics of every level, in no level's value",
        head="level",
        names=LEVELS,
        groups=(
            tuple(
                Column(name, tuple(_value(standing, level, level.common[at]) for level in standing.levels))
                for at, name in enumerate(COMMON_METRICS)
            ),
        ),
    )


def _by_level(board: Board) -> Table:
    rows = board.standings
    composites = [row.composite for row in rows]
    levels = tuple(
        Column(name, tuple(_level_value(row, at) for row in rows)) for at, name in enumerate(LEVELS)
    )
    return Table(
        title=_title(board),
        head="model",
        names=_names(rows),
        groups=(
            (
                Column("composite", tuple(map(_composite_value, rows))),
                Column(
                    "95 %", tuple(format_interval(each.interval if each else None) for each in composites)
                ),
                _trials(rows),
            ),
            levels,
        ),
        notes=tuple(map(Note, (*_formula(board), *_missing(board), *_remarks(board)))),
        caveats=tuple(_without_judge(rows)),
    )


def _metrics(board: Board) -> Iterator[Table]:
    """Give the table of each level in which something was decided: its own metrics, then the common ones."""
    rows = [row for row in board.standings if row.levels]
    for at, name in enumerate(LEVELS):
        found = [_level(row, at) for row in rows]
        if not any(level.total.tasks or any(each.tasks for each in level.common) for level in found):
            continue
        own = [
            _column(rows, found, [level.metrics[n] for level in found]) for n in range(len(found[0].metrics))
        ]
        common = [
            _column(rows, found, [level.common[n] for level in found]) for n in range(len(found[0].common))
        ]
        value = [
            Column("value", tuple(_level_value(row, at) for row in rows)),
            Column("95 %", tuple(format_interval(level.total.interval) for level in found)),
            Column("tasks", tuple(str(level.total.tasks) for level in found)),
        ]
        yield Table(name, "model", _names(rows), ((*value, *own), tuple(common)))


def _by_bucket(board: Board) -> Table:
    rows = board.standings
    buckets = dict.fromkeys(bucket.name for row in rows for bucket in row.view.rows)
    return Table(
        title=_title(board),
        head="model",
        names=_names(rows),
        groups=(
            (
                Column("score", tuple(mean_score(row.view.total) for row in rows)),
                Column("95 %", tuple(mean_interval(row.view.total) for row in rows)),
                _trials(rows),
            ),
            tuple(
                Column(one_line(name, MOST_NAME) or NOT_KNOWN, tuple(_bucket(row, name) for row in rows))
                for name in buckets
            ),
        ),
        notes=tuple(map(Note, _remarks(board))),
        caveats=tuple(_without_judge(rows)),
    )


def _title(board: Board) -> str:
    runs = {row.path for row in board.standings}
    return one_line(f"{board.suite}: {pluralize(len(runs), 'run')}, best first", MOST_TITLE)


def _names(rows: Sequence[Standing]) -> tuple[str, ...]:
    """Name rows by model and variant, with the run where that alone is not enough."""
    times = Counter(row.view.who for row in rows)
    names = [row.view.who if times[row.view.who] == 1 else f"{row.view.who} {row.run}" for row in rows]
    return tuple(one_line(name, MOST_NAME) for name in names)


def _trials(rows: Sequence[Standing]) -> Column:
    return Column("trials", tuple(averaged_of_planned(row.view.total) for row in rows))


def _level(row: Standing, at: int) -> Level:
    return row.levels[at]


def _column(rows: Sequence[Standing], levels: Sequence[Level], found: Sequence[Measured]) -> Column:
    return Column(found[0].name, tuple(map(_value, rows, levels, found)))


def _value(row: Standing, level: Level, each: Measured) -> str:
    """Write the figure of a level or of one of its metrics, marked where some of its tasks lack a judge."""
    return mark_unjudged(
        format_figure(each.value), row.lacks(level.name, "" if each is level.total else each.name)
    )


def _level_value(row: Standing, at: int) -> str:
    return _value(row, row.levels[at], row.levels[at].total) if row.levels else NOT_KNOWN


def _composite_value(row: Standing) -> str:
    counted_in = (name for names in PARTS.values() for name in names)
    return _lacking_in(row, row.composite.value if row.composite else None, counted_in)


def _lacking_in(row: Standing, value: float | None, levels: Iterable[str]) -> str:
    """Write a figure that is made of levels, marked where one of them lacks a judge's grade."""
    return mark_unjudged(format_figure(value), sum(map(row.lacks, levels)))


def _without_judge(rows: Sequence[Standing]) -> Iterator[str]:
    """Say whose figures rest on trials that lack a judge's grade."""
    for name, row in zip(_names(rows), rows, strict=True):
        if row.view.total.lacking:
            yield f"{name}: {judge_caveat(row.view.total)}" if len(rows) > 1 else judge_caveat(row.view.total)


def _bucket(row: Standing, name: str) -> str:
    found = next((each for each in row.view.rows if each.name == name), None)
    if found is None or found.mean is None:
        return NOT_KNOWN
    return f"{mean_score(found)} {mean_interval(found)}"


def _row_name(level: Level, each: Measured) -> str:
    return level.name if each is level.total else f"{level.name} {each.name}"


def _composite(row: Standing, found: Composite) -> Iterator[str]:
    """Say what the composite is and what it is made of, or which levels it lacks."""
    beside = f"{BESIDE} stands beside it with {_lacking_in(row, found.beside, [BESIDE])}"
    if found.value is None:
        yield f"no composite: nothing is decided in {', '.join(found.missing)}; {beside}"
        return
    parts = " + ".join(
        f"{found.weights[part]:g} x {part} {_lacking_in(row, value, PARTS[part])}"
        for part, value in found.parts.items()
    )
    yield f"{composite_text(row)} = {parts}; {beside}"


def composite_text(row: Standing) -> str:
    """Write a standing's composite with its interval."""
    interval = row.composite.interval if row.composite else None
    sure = f" (95 % {format_interval(interval)})" if interval else ""
    return f"composite {_composite_value(row)}{sure}"


def _formula(board: Board) -> Iterator[str]:
    weights = next(row.composite.weights for row in board.standings if row.composite)
    parts = " + ".join(f"{weights[part]:g} x {_of(names)}" for part, names in PARTS.items())
    yield f"composite = {parts}; {BESIDE} stands beside it"


def _of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"mean({', '.join(names)})"


def _missing(board: Board) -> Iterator[str]:
    for name, row in zip(_names(board.standings), board.standings, strict=True):
        if row.composite is not None and row.composite.missing:
            yield f"{name}: no composite, nothing is decided in {', '.join(row.composite.missing)}"


def _remarks(board: Board) -> Iterator[str]:
    """Say what stands beside the figures: what is in no average, and what makes rows hard to compare."""
    for name, row in zip(_names(board.standings), board.standings, strict=True):
        total = row.view.total
        left = [(sum(total.errored.values()), "errored"), (total.not_run, "not run")]
        said = [f"{number} {word}" for number, word in left if number]
        if said:
            yield f"{name}: {', '.join(said)} of {total.planned} planned, in no average"
    differing = count_graded_differently(board.standings)
    if differing:
        tasks = pluralize(differing, "task")
        yield f"{tasks} graded by different graders, versions or judges: not comparable"
    if len({row.view.total.tasks for row in board.standings}) > 1:
        yield "the runs are over different numbers of tasks"

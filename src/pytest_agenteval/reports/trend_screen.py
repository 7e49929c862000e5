"""A suite over time as lines of a terminal: its runs side by side, what moved first, and suspect tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.reports.comparison_text import format_change, format_p
from pytest_agenteval.reports.last_step import ComparedChange
from pytest_agenteval.reports.tables import GAP as COLUMN_GAP
from pytest_agenteval.reports.tables import WIDEST_NAME, ReportTable, TableColumn, TableNote, table_lines
from pytest_agenteval.reports.trend import BY_CHANCE, Figures, Point, Series, Suspect, Suspects, Trend
from pytest_agenteval.reports.trend_text import (
    ARROWS,
    TrendRow,
    absence_texts,
    change_text,
    run_head,
    run_mark,
    run_moment,
    step_words,
    trend_rows,
    trend_title,
)
from pytest_agenteval.text.formatting import (
    INDENT,
    MOST_NAME,
    NOT_KNOWN,
    StyledLine,
    cell_width,
    format_ends,
    format_figure,
    one_line,
    pad,
    pluralize,
    printable,
    wrapped_lines,
)

LEVELS = "▁▂▃▄▅▆▇█"
"""Sevenths of the scale; the highest is for 1.00 alone."""

TENTHS = "0123456789"
GAP, ASCII_GAP = "·", "."
BREAK = "|"
BLOCKS = LEVELS + GAP + "".join(ARROWS.values())
"""All characters that a terminal has to know, else the lines are of ASCII."""

LEGEND = "from ▁ to ▇ in sevenths from 0 to 1, █ is 1.00 alone; · not tried"
ASCII_LEGEND = "a digit is a score in tenths: 0 below 0.10, 9 from 0.90 on; . not tried"

MOST_DRAWN, FEWEST_DRAWN = 24, 8
"""Runs of a series that are drawn, the newest ones: as many as have room beside names and figures."""

MOST_SUSPECTS = 5
INNER = "    "


def trend_lines(trend: Trend, width: int, ascii_only: bool = False) -> Iterator[StyledLine]:
    """Give a table for each series, then the suspects; ``ascii_only`` where blocks cannot be printed."""
    has_lines = not ascii_only
    for series in trend.series:
        absences = list(absence_texts(series))
        if series.points:
            table = _SeriesTable(series, width, ascii_only)
            yield from table_lines(table.table(trend.suite, absences), width)
            has_lines |= table.draws_lines
        else:
            yield from wrapped_lines(trend_title(trend.suite, series), width, "bold", indent="")
            for note in absences:
                yield from wrapped_lines(note, width)
        yield StyledLine("")
    if trend.regraded:
        again = f"{pluralize(len(trend.regraded), 'run')} that graded trials again: no agent was tried"
        yield from wrapped_lines(f"left out: {again}", width, indent="")
    if has_lines:
        yield from wrapped_lines(f"scale: {ASCII_LEGEND if ascii_only else LEGEND}", width, "dim", indent="")
        yield StyledLine("")
    yield from suspect_lines(trend, width)
    for problem in trend.odd:
        yield from wrapped_lines(printable(problem), width, "red", indent="")


class _SeriesTable:
    """The table of a series: a figure for each run where there is room, else a line, first and last score."""

    def __init__(self, series: Series, width: int, ascii_only: bool) -> None:
        self._series, self._points, self._ascii_only = series, series.points, ascii_only
        self._whole, buckets = trend_rows(series)
        self._buckets = [row for row in buckets if not row.is_as_before]
        self._as_before = len(buckets) - len(self._buckets)
        self._breaks = {at for at, point in enumerate(self._points) if at and point.breaks_line}
        rates = [Figures(point.total.pass_hat_k, None) for point in series.points]
        self._rows = [
            self._whole,
            TrendRow(f"all: pass^{series.k}", rates, self._whole.first),
            *self._buckets,
        ]
        self._names = [one_line(row.name, MOST_NAME) or NOT_KNOWN for row in self._rows]
        longest = min(WIDEST_NAME, max(map(cell_width, ("bucket", *self._names))))
        self._room = width - len(INDENT) - longest

    @property
    def draws_lines(self) -> bool:
        """Whether runs have no room for a figure each, and are characters of a line."""
        return self._run_columns() is None

    def table(self, suite: str, absences: Sequence[str]) -> ReportTable:
        columns = self._run_columns()
        if columns is None:
            return self._many_runs(suite, absences)
        names = tuple(self._names)
        notes = self._notes([run_head(point) for point in self._points], absences)
        return ReportTable(trend_title(suite, self._series), "bucket", names, (tuple(columns),), notes)

    def _run_columns(self) -> list[TableColumn] | None:
        """Give a column for each run, and what changed; None where these have no room."""
        for heads in _head_choices(self._points):
            columns = [self._run_column(at, head) for at, head in enumerate(heads)]
            if len(self._points) == 1:
                columns += self._interval_column()
            columns += self._change_columns()
            if _width_of(columns) <= self._room:
                return self._with_rates(columns)
        return None

    def _with_rates(self, columns: Sequence[TableColumn], above: int = 0) -> list[TableColumn]:
        """Add each row's newest pass^k where there is room; ``above`` are the rows of the head."""
        cells = ["" for _ in range(above)]
        for row in self._rows:
            rates = [each.pass_hat_k for each in row.figures if each.pass_hat_k is not None]
            cells.append(format_figure(rates[-1]) if rates else "")
        wider = [*columns, TableColumn(f"pass^{self._series.k}", tuple(cells))]
        return wider if _width_of(wider) <= self._room else list(columns)

    def _run_column(self, at: int, head: str) -> TableColumn:
        mark = run_mark(self._points[at])
        scores = [row.scores[at] for row in self._rows]
        before = f"{BREAK} " if at in self._breaks else ""
        cells = [f"{before}{self._with_block(score)}" for score in scores]
        return TableColumn(f"{head} {mark}" if mark else head, tuple(cells))

    def _with_block(self, score: float | None) -> str:
        figure = format_figure(score)
        return figure if self._ascii_only else f"{figure} {sparkline([score], ascii_only=False)}"

    def _interval_column(self) -> Iterator[TableColumn]:
        ends = [
            format_ends(each.low, each.high) if each.low is not None and each.high is not None else ""
            for each in (row.figures[-1] for row in self._rows)
        ]
        if any(ends):
            yield TableColumn("95 %", tuple(ends))

    def _change_columns(self) -> Iterator[TableColumn]:
        """Give how far scores moved, and the verdict on the newest run where a comparison supports one."""
        two = len(self._points) == 2
        changes = [row.change for row in self._rows]
        if any(change is not None for change in changes):
            cells = ["" if change is None else format_change(change) for change in changes]
            yield TableColumn("change", tuple(cells))
        if self._series.last_step:
            texts = [self._verdict(row, with_change=not two) for row in self._rows]
            widest = max(map(cell_width, texts))
            if widest:
                title = "" if two else "newest run"
                yield TableColumn(pad(title, widest), tuple(pad(text, widest) for text in texts))

    def _verdict(self, row: TrendRow, *, with_change: bool) -> str:
        """Write a verdict: ``▼ worse (p <0.001)``; of buckets only what is better or worse."""
        step = row.step
        if step is None or (step.verdict not in ARROWS and row is not self._whole):
            return ""
        if step.verdict not in ARROWS:
            return step_words(step)
        arrow = "" if self._ascii_only else ARROWS[step.verdict]
        moved = f"{format_change(step.change)} " if with_change else ""
        return f"{arrow}{moved}{step.verdict} (p {format_p(step.p)})"

    def _many_runs(self, suite: str, absences: Sequence[str]) -> ReportTable:
        ends = [[format_figure(end) for end in row.ends] for row in self._rows]
        columns = [
            TableColumn(title, cells)
            for title, cells in zip(("first", "last"), zip(*ends, strict=True), strict=True)
        ]
        columns += self._change_columns()
        breaks = len(self._breaks)
        room = self._room - _width_of(columns) - COLUMN_GAP - breaks
        many = max(FEWEST_DRAWN, min(MOST_DRAWN, room))
        drawn, heads = self._points[-many:], self._head_lines(many)
        lines = [self._sparkline(row.scores, many) for row in self._rows]
        blank = ("",) * len(heads)
        line = TableColumn("score", (*heads.values(), *lines))
        figures = [TableColumn(column.title, (*blank, *column.cells)) for column in columns]
        everything = self._with_rates([line, *figures], above=len(heads))
        names = (*heads, *self._names)
        shown = f", the newest {len(drawn)} drawn" if len(drawn) < len(self._points) else ""
        numbers = [f"run {number}" for number in range(1, len(self._points) + 1)]
        notes = self._notes(numbers, absences, first=len(self._points) - len(drawn))
        title = f"{trend_title(suite, self._series)}{shown}"
        return ReportTable(title, "bucket", names, (tuple(everything),), notes)

    def _head_lines(self, many: int) -> dict[str, str]:
        """Give rows above all others, so that each mark stands right above the character of its run."""
        first = max(0, len(self._points) - many)
        # One character for each run: of its number the last digit.
        numbers = [str(at % 10) for at in range(first + 1, len(self._points) + 1)]
        heads = {"run": self._with_breaks(numbers, first)}
        drawn = self._points[first:]
        if any(map(run_mark, drawn)):
            gap = ASCII_GAP if self._ascii_only else GAP
            heads["noted"] = self._with_breaks([run_mark(point) or gap for point in drawn], first)
        return heads

    def _sparkline(self, scores: Sequence[float | None], many: int) -> str:
        first = max(0, len(scores) - many)
        return sparkline(scores[first:], self._ascii_only, self._breaks_from(first))

    def _with_breaks(self, marks: Sequence[str], first: int) -> str:
        return _with_breaks(marks, self._breaks_from(first))

    def _breaks_from(self, first: int) -> set[int]:
        return {at - first for at in self._breaks if at > first}

    def _notes(self, names: Sequence[str], absences: Sequence[str], first: int = 0) -> tuple[TableNote, ...]:
        texts = []
        if self._as_before:
            texts.append(f"{pluralize(self._as_before, 'bucket')} as before")
        if step := self._over_other_tasks():
            over = f"over the {pluralize(step.tasks, 'task')} that it has as the run before"
            scores = f"{format_figure(step.old)} -> {format_figure(step.new)}"
            texts.append(f"verdicts on the newest run are {over}: {scores}")
        start = self._series.first_comparable
        if start > 0 and any(row.change is not None for row in self._rows):
            texts.append(f"scores count from {names[start]} on: before, graders or tasks were others")
        for name, point in list(zip(names, self._points, strict=True))[first:]:
            parts = [*map(change_text, point.changes), *([point.incomplete] if point.incomplete else [])]
            if parts:
                texts.append(f"{name}, {printable(point.run)}: {'; '.join(parts)}")
        return tuple(map(TableNote, (*texts, *absences)))

    def _over_other_tasks(self) -> ComparedChange | None:
        """Give the comparison of all tasks where some are not part of it, so that its scores are others."""
        step, shown = self._whole.step, self._whole.scores[-2:]
        if step is None or None in shown:
            return None
        pairs = zip((step.old, step.new), shown, strict=True)
        return step if any(abs(own - (score or 0.0)) > ROUNDING for own, score in pairs) else None


def _width_of(columns: Sequence[TableColumn]) -> int:
    return sum(max(map(cell_width, (column.title, *column.cells))) + COLUMN_GAP for column in columns)


def _head_choices(points: Sequence[Point]) -> Iterator[list[str]]:
    """Give headings for runs, longer ones first: day and time, the day or the time alone, a number."""
    moments = [moment for point in points if (moment := run_moment(point))]
    if len(moments) == len(points):
        for form in ("%d %b %H:%M", "%d %b", "%H:%M", "%H:%M:%S"):
            heads = [format(moment, form) for moment in moments]
            one_day = len({moment.date() for moment in moments}) == 1
            if len(set(heads)) == len(heads) and (one_day or "%d" in form):
                yield heads
    yield [f"run {number}" for number in range(1, len(points) + 1)]


def sparkline(scores: Sequence[float | None], ascii_only: bool, breaks: Collection[int] = ()) -> str:
    """Draw scores, 0 to 1, one character each; None is a gap, and a bar stands before each of ``breaks``."""
    levels, steps, gap = (TENTHS, 10, ASCII_GAP) if ascii_only else (LEVELS, 7, GAP)
    # A mean on a border may be a hair too low as a float: (0.1 + 0.7) / 2 would fall a step without the 1e-9.
    heights = (None if score is None else int(score * steps + 1e-9) for score in scores)
    marks = [gap if height is None else levels[min(max(height, 0), len(levels) - 1)] for height in heights]
    return _with_breaks(marks, breaks)


def _with_breaks(marks: Sequence[str], breaks: Collection[int]) -> str:
    return "".join(f"{BREAK}{mark}" if at in breaks else mark for at, mark in enumerate(marks))


def suspect_lines(trend: Trend, width: int) -> Iterator[StyledLine]:
    """Give the suspect tasks by kind of evidence; kinds without any share one line."""
    suspects, none = trend.suspects, []
    runs = pluralize(len(trend.runs), "run")
    title = f"suspects among the tasks of {trend.suite}, in {runs}"
    yield from wrapped_lines(title, width, "bold", indent="")
    for line in _counted(suspects):
        yield from wrapped_lines(line, width)
    kinds: list[tuple[str, str, Sequence[Suspect], Callable[[Suspect], str]]] = [
        ("every model misses", "the task or its grader may be wrong", suspects.missed, _passes),
        ("only oracle passes", "it can be solved, and no model does", suspects.only_oracle, _passes),
        ("judges split", "by some of the judges it passes, by others not", suspects.judges_split, _votes),
        (
            "repetitions disagree",
            "repetitions in one run, with one model, passed and missed",
            suspects.unsteady,
            _unsteady,
        ),
        ("always passes", "saturated, candidates for agenteval promote", suspects.saturated, _passes),
    ]
    for title, meaning, of_kind, evidence in kinds:
        # Without a real model neither misses nor passes say anything about a task.
        if evidence is _passes and not suspects.real:
            continue
        if not of_kind:
            none.append(title)
            continue
        yield from wrapped_lines(f"{title} ({len(of_kind)}): {meaning}", width)
        for suspect in of_kind[:MOST_SUSPECTS]:
            text = f"{one_line(suspect.task, MOST_NAME)}  {evidence(suspect)}"
            yield from wrapped_lines(text, width, indent=INNER)
        if len(of_kind) > MOST_SUSPECTS:
            yield StyledLine(f"{INNER}and {len(of_kind) - MOST_SUSPECTS} more (--json)", "dim")
    if none:
        yield from wrapped_lines(f"none: {', '.join(none)}", width)


def _counted(suspects: Suspects) -> Iterator[str]:
    """Say which trials were counted, and of which models they were not."""
    offline = ", ".join(suspects.offline)
    if not suspects.real:
        yield f"no real model ran: what {offline or 'nobody'} misses or passes says nothing of a task"
        return
    models = ", ".join(suspects.real)
    beside = f"; {offline} asked no LLM and is no evidence that models miss" if offline else ""
    yield f"counted: {pluralize(suspects.trials, 'graded trial')} of {models}{beside}"
    yield (
        f"a task is named if all of its {suspects.enough} trials or more missed, or passed: if each task "
        f"passed half of the time, chance would name any in less than {100 * BY_CHANCE:g} % of suites"
    )
    if suspects.too_few:
        yield f"{pluralize(suspects.too_few, 'task')} with fewer such trials: too few to exclude chance"


def _passes(suspect: Suspect) -> str:
    beside = f"; {suspect.remark}" if suspect.remark else ""
    return f"{suspect.part} of {pluralize(suspect.whole, 'trial')} passed, {_where(suspect)}{beside}"


def _votes(suspect: Suspect) -> str:
    return f"{suspect.part} of {pluralize(suspect.whole, 'judged trial')}, {_where(suspect)}"


def _unsteady(suspect: Suspect) -> str:
    often = f"{suspect.part} of {pluralize(suspect.whole, 'time')}"
    return f"{often}, {suspect.remark}, {', '.join(suspect.models)}"


def _where(suspect: Suspect) -> str:
    return f"{pluralize(suspect.runs, 'run')} with {', '.join(suspect.models)}"

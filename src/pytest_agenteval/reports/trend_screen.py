"""A suite over time in words, and as lines of a terminal: its runs side by side, what moved first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.reports.comparison_text import format_change, format_p
from pytest_agenteval.reports.suspect_tasks import suspect_lines
from pytest_agenteval.reports.tables import GAP as COLUMN_GAP
from pytest_agenteval.reports.tables import WIDEST_NAME, ReportTable, TableColumn, TableNote, table_lines
from pytest_agenteval.reports.trend import ComparedChange, Figures, Point, Series, Trend
from pytest_agenteval.text.formatting import (
    INDENT,
    MOST_NAME,
    NOT_KNOWN,
    StyledLine,
    cell_width,
    format_ends,
    format_figure,
    model_label,
    one_line,
    pad,
    pluralize,
    printable,
    wrapped_lines,
)

ARROWS = {"better": "▲", "worse": "▼"}

MOST_ABSENCES = 3
"""Runs that are left out of a series and named, the newest ones."""


class TrendRow(NamedTuple):
    """A bucket, or all tasks: a figure for each run, and how the newest run compares with the one before.

    ``first`` is the place of the first run that the newest one can be compared with.
    """

    name: str
    figures: Sequence[Figures]
    first: int = 0
    compared: ComparedChange | None = None

    @property
    def scores(self) -> list[float | None]:
        return [each.score for each in self.figures]

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The first and the last known score among runs that can be compared."""
        known = [score for score in self.scores[self.first :] if score is not None]
        return (known[0], known[-1]) if known else (None, None)

    @property
    def change(self) -> float | None:
        """How far the score moved between these; None where it has fewer than two."""
        known = [score for score in self.scores[self.first :] if score is not None]
        return known[-1] - known[0] if len(known) > 1 else None

    @property
    def arrow(self) -> str:
        """Whether the newest run is better or worse; empty where no verdict says so."""
        return ARROWS.get(self.compared.verdict, "") if self.compared else ""

    @property
    def is_as_before(self) -> bool:
        moved = [self.change, self.compared.change if self.compared else None]
        known = [change for change in moved if change is not None]
        return bool(known) and all(abs(change) < ROUNDING for change in known)

    @property
    def over_other_tasks(self) -> ComparedChange | None:
        """The comparison, where it is not over all of the tasks, so that its scores are others."""
        shown = [score for score in self.scores[-2:] if score is not None]
        if self.compared is None or len(shown) < 2:
            return None
        pairs = zip((self.compared.old, self.compared.new), shown, strict=True)
        return self.compared if any(abs(own - score) > ROUNDING for own, score in pairs) else None


def trend_rows(series: Series) -> tuple[TrendRow, list[TrendRow]]:
    """Give the row of all tasks and those of buckets: worse ones first, then better ones, then how far moved.

    A suite's only bucket has no row.
    """
    compared, first = series.comparison, series.first_comparable
    changes = {change.name: change for change in compared.buckets} if compared else {}
    total = compared.total if compared else None
    whole = TrendRow("all", [point.total for point in series.points], first, total)
    # In the order of the newest run; buckets that it lacks come last.
    names = dict.fromkeys(name for point in reversed(series.points) for name in point.buckets)
    nothing = Figures(None, None)
    buckets = [
        TrendRow(
            name, [point.buckets.get(name, nothing) for point in series.points], first, changes.get(name)
        )
        for name in names
    ]
    return whole, sorted(buckets, key=_importance) if len(buckets) > 1 else []


def _importance(row: TrendRow) -> tuple[int, float]:
    """What a verdict calls worse comes first, then what it calls better, then what fell, rose and stayed."""
    if row.compared and row.arrow:
        return (0 if row.compared.verdict == "worse" else 1), -abs(row.compared.change)
    if row.change is None or abs(row.change) < ROUNDING:
        return 4 if row.change is None else 5, 0.0
    return (2 if row.change < 0 else 3), -abs(row.change)


def days_text(points: Sequence[Point]) -> str:
    """Write the days from the first to the last run; empty where none is known."""
    days = [f"{moment:%Y-%m-%d}" for point in points if (moment := run_moment(point))]
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def run_moment(point: Point) -> datetime | None:
    try:
        return datetime.fromisoformat(point.started_at).astimezone()
    except ValueError:
        return None


def run_head(point: Point) -> str:
    moment = run_moment(point)
    return f"{moment:%d %b %H:%M}" if moment else one_line(point.run, MOST_NAME)


def run_mark(point: Point) -> str:
    """Give the character that marks a run, that of its most important note; empty without a note."""
    if point.breaks_line:
        return "!"
    if any(change.what == "prompt" for change in point.changes):
        return "p"
    return "+" if point.changes else "~" if point.incomplete else ""


def interval_text(figures: Figures) -> str:
    return "" if figures.low is None or figures.high is None else format_ends(figures.low, figures.high)


def point_texts(point: Point) -> Iterator[str]:
    """Say what changed at a run, and what of the suite it did not try."""
    for change in point.changes:
        spoilt = "" if change.comparable else ", scores before and after are not comparable"
        yield f"{change.what} {change.before} -> {change.after} ({pluralize(change.tasks, 'task')}){spoilt}"
    if point.incomplete:
        yield point.incomplete


def absence_texts(series: Series) -> Iterator[str]:
    for absence in series.left_out[-MOST_ABSENCES:]:
        yield f"left out: {printable(absence.run)}: {absence.why}"
    if series.left_out:
        runs = pluralize(len(series.left_out), "run")
        yield f"left out in total: {runs} with less than half of the suite; --last N reads older runs"


LEVELS = "▁▂▃▄▅▆▇█"
"""Sevenths of the scale; the highest is for 1.00 alone."""

TENTHS = "0123456789"
GAP, ASCII_GAP = "·", "."
BREAK = "|"
BLOCKS = LEVELS + GAP + "".join(ARROWS.values())
"""All characters that a terminal has to know, else the lines are of ASCII."""

LEGEND = "▁ to ▇ are sevenths from 0 to 1, █ is exactly 1.00; · not run"
ASCII_LEGEND = "a digit is a score in tenths: 0 below 0.10, 9 from 0.90 on; . not run"

MOST_DRAWN, FEWEST_DRAWN = 24, 8
"""Runs of a series that are drawn, the newest ones: as many as have room beside names and figures."""


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
            yield from wrapped_lines(_title(trend.suite, series), width, "bold", indent="")
            for note in absences:
                yield from wrapped_lines(note, width)
        yield StyledLine("")
    if trend.regraded:
        again = f"{pluralize(len(trend.regraded), 'run')} that only graded stored trials again"
        yield from wrapped_lines(f"left out: {again}", width, indent="")
    if has_lines:
        yield from wrapped_lines(f"scale: {ASCII_LEGEND if ascii_only else LEGEND}", width, "dim", indent="")
        yield StyledLine("")
    yield from suspect_lines(trend.suspects, trend.suite, len(trend.runs), width)
    for problem in trend.odd:
        yield from wrapped_lines(printable(problem), width, "red", indent="")


def _title(suite: str, series: Series) -> str:
    name = one_line(f"{suite} with {model_label(series.model, series.variant)}", MOST_NAME)
    note = f": {one_line(series.note, MOST_NAME)}" if series.note else ""
    when = ", ".join(filter(None, (pluralize(len(series.points), "run"), days_text(series.points))))
    return f"{name}{note}: {when}"


class _SeriesTable:
    """The table of a series: a figure for each run where there is room, else a line, first and last score."""

    def __init__(self, series: Series, width: int, ascii_only: bool) -> None:
        self._series, self._points, self._ascii_only = series, series.points, ascii_only
        self._whole, buckets = trend_rows(series)
        moved = [row for row in buckets if not row.is_as_before]
        self._as_before = len(buckets) - len(moved)
        self._breaks = {at for at, point in enumerate(self._points) if at and point.breaks_line}
        rates = [Figures(point.total.pass_hat_k, None) for point in series.points]
        self._rows = [self._whole, TrendRow(f"all: pass^{series.k}", rates, self._whole.first), *moved]
        self._names = [one_line(row.name, MOST_NAME) or NOT_KNOWN for row in self._rows]
        longest = min(WIDEST_NAME, max(map(cell_width, ("bucket", *self._names))))
        self._room = width - len(INDENT) - longest
        self._run_columns = self._columns_of_runs()

    @property
    def draws_lines(self) -> bool:
        """Whether runs have no room for a figure each, and are characters of a line."""
        return self._run_columns is None

    def table(self, suite: str, absences: Sequence[str]) -> ReportTable:
        title, heads, columns, first = _title(suite, self._series), dict[str, str](), self._run_columns, 0
        names = [run_head(point) for point in self._points]
        if columns is None:
            names = [f"run {number}" for number in range(1, len(self._points) + 1)]
            heads, columns, first = self._columns_of_lines()
            title += f", the newest {len(self._points) - first} drawn" if first else ""
        notes = self._notes(names, absences, first)
        return ReportTable(title, "bucket", (*heads, *self._names), (tuple(columns),), notes)

    def _columns_of_runs(self) -> list[TableColumn] | None:
        """Give a column for each run, and what changed; None where these have no room."""
        for heads in _head_choices(self._points):
            columns = [self._run_column(at, head) for at, head in enumerate(heads)]
            if len(self._points) == 1 and any(cells := [interval_text(row.figures[0]) for row in self._rows]):
                columns.append(TableColumn("95 %", tuple(cells)))
            columns += self._change_columns()
            if _width_of(columns) <= self._room:
                return self._with_rates(columns)
        return None

    def _columns_of_lines(self) -> tuple[dict[str, str], list[TableColumn], int]:
        """Give rows that stand above all others, a line for each row, and the first run that is drawn."""
        ends = zip(*(map(format_figure, row.ends) for row in self._rows), strict=True)
        figures = [TableColumn(head, cells) for head, cells in zip(("first", "last"), ends, strict=True)]
        figures += self._change_columns()
        room = self._room - _width_of(figures) - COLUMN_GAP - len(self._breaks)
        first = max(0, len(self._points) - max(FEWEST_DRAWN, min(MOST_DRAWN, room)))
        breaks = {at - first for at in self._breaks if at > first}
        # One character for each run, so that each mark stands right above it: of its number the last digit.
        numbers = [str(at % 10) for at in range(first + 1, len(self._points) + 1)]
        heads = {"run": _with_breaks(numbers, breaks)}
        if any(marks := [run_mark(point) for point in self._points[first:]]):
            gap = ASCII_GAP if self._ascii_only else GAP
            heads["noted"] = _with_breaks([mark or gap for mark in marks], breaks)
        lines = [sparkline(row.scores[first:], self._ascii_only, breaks) for row in self._rows]
        blank = ("",) * len(heads)
        columns = [TableColumn(column.title, (*blank, *column.cells)) for column in figures]
        columns = [TableColumn("score", (*heads.values(), *lines)), *columns]
        return heads, self._with_rates(columns, blank), first

    def _with_rates(self, columns: list[TableColumn], blank: Sequence[str] = ()) -> list[TableColumn]:
        """Add each row's newest pass^k where there is room, below the cells of the head."""
        cells = [*blank]
        for row in self._rows:
            rates = [each.pass_hat_k for each in row.figures if each.pass_hat_k is not None]
            cells.append(format_figure(rates[-1]) if rates else "")
        wider = [*columns, TableColumn(f"pass^{self._series.k}", tuple(cells))]
        return wider if _width_of(wider) <= self._room else columns

    def _run_column(self, at: int, head: str) -> TableColumn:
        before = f"{BREAK} " if at in self._breaks else ""
        cells = [f"{before}{self._with_block(row.scores[at])}" for row in self._rows]
        return TableColumn(f"{head} {run_mark(self._points[at])}".rstrip(), tuple(cells))

    def _with_block(self, score: float | None) -> str:
        figure = format_figure(score)
        return figure if self._ascii_only else f"{figure} {sparkline([score], ascii_only=False)}"

    def _change_columns(self) -> Iterator[TableColumn]:
        """Give how far scores moved, and the verdict on the newest run where a comparison supports one."""
        changes = [row.change for row in self._rows]
        if any(change is not None for change in changes):
            cells = ["" if change is None else format_change(change) for change in changes]
            yield TableColumn("change", tuple(cells))
        # Of two runs the change is that of the newest one.
        title = "newest run" if len(self._points) > 2 else ""
        texts = [self._verdict(row, with_change=bool(title)) for row in self._rows]
        if widest := max(map(cell_width, texts)):
            yield TableColumn(pad(title, widest), tuple(pad(text, widest) for text in texts))

    def _verdict(self, row: TrendRow, *, with_change: bool) -> str:
        """Write a verdict: ``▼ worse (p <0.001)``; of buckets only what is better or worse."""
        if row.compared is None or not (row.arrow or row is self._whole):
            return ""
        if not row.arrow:
            return row.compared.says
        arrow = "" if self._ascii_only else f"{row.arrow} "
        moved = f"{format_change(row.compared.change)} " if with_change else ""
        return f"{arrow}{moved}{row.compared.verdict} (p {format_p(row.compared.p)})"

    def _notes(self, names: Sequence[str], absences: Sequence[str], first: int) -> tuple[TableNote, ...]:
        texts = []
        if self._as_before:
            texts.append(f"{pluralize(self._as_before, 'bucket')} unchanged")
        if compared := self._whole.over_other_tasks:
            over = f"the {pluralize(compared.tasks, 'task')} that it shares with the run before"
            scores = f"{format_figure(compared.old)} -> {format_figure(compared.new)}"
            texts.append(f"verdicts on the newest run cover {over}: {scores}")
        start = self._series.first_comparable
        if start > 0 and any(row.change is not None for row in self._rows):
            texts.append(f"scores are comparable from {names[start]} on: earlier graders or tasks differ")
        for name, point in list(zip(names, self._points, strict=True))[first:]:
            if parts := list(point_texts(point)):
                texts.append(f"{name}, {printable(point.run)}: {'; '.join(parts)}")
        return tuple(map(TableNote, (*texts, *absences)))


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

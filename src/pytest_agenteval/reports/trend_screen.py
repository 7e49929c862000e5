"""A suite over time as lines of a terminal: sparklines, what changed on the way, and suspect tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from pytest_agenteval.reports.tables import ReportTable, TableColumn, TableNote, table_lines
from pytest_agenteval.reports.trend import BY_CHANCE, Change, Figures, Point, Series, Suspect, Suspects, Trend
from pytest_agenteval.text.formatting import (
    MOST_NAME,
    NOT_KNOWN,
    StyledLine,
    format_figure,
    model_label,
    one_line,
    pluralize,
    printable,
    wrapped_lines,
)

LEVELS = "▁▂▃▅▇"
"""Fifths of the scale: 1.00 belongs to the highest."""

TENTHS = "0123456789"
GAP, ASCII_GAP = "·", "."
BREAK = "|"

LEGEND = "▁ below 0.20, ▂ below 0.40, ▃ below 0.60, ▅ below 0.80, ▇ from there on; · not tried"
ASCII_LEGEND = "a digit is a score in tenths: 0 below 0.10, 9 from 0.90 on; . not tried"


def sparkline(scores: Sequence[float | None], ascii_only: bool, breaks: Collection[int] = ()) -> str:
    """Draw scores, 0 to 1, one character each; None is a gap, and a bar stands before each of ``breaks``."""
    levels, gap = (TENTHS, ASCII_GAP) if ascii_only else (LEVELS, GAP)
    marks = [gap if score is None else levels[_step(score, len(levels))] for score in scores]
    return _with_breaks(marks, breaks)


def _with_breaks(marks: Sequence[str], breaks: Collection[int]) -> str:
    return "".join(f"{BREAK}{mark}" if at in breaks else mark for at, mark in enumerate(marks))


def _step(score: float, steps: int) -> int:
    # A mean on a border may be a hair too low as a float: (0.1 + 0.7) / 2 would fall a step without the 1e-9.
    return min(max(int(score * steps + 1e-9), 0), steps - 1)


MOST_SUSPECTS = 5

INNER = "    "


class _Kind(NamedTuple):
    """A reason to suspect a task: what it is called, what to make of it, and its evidence in words."""

    title: str
    meaning: str
    suspects: Sequence[Suspect]
    evidence: Callable[[Suspect], str]


def _suspect_lines(trend: Trend, width: int) -> Iterator[StyledLine]:
    """Give the suspect tasks by kind of evidence; kinds without any share one line."""
    suspects = trend.suspects
    runs = pluralize(len(trend.runs), "run")
    title = f"suspects among the tasks of {trend.suite}, in {runs}"
    yield from wrapped_lines(title, width, "bold", indent="")
    for line in _counted(suspects):
        yield from wrapped_lines(line, width)
    kinds = list(_kinds(suspects))
    for kind in kinds:
        if kind.suspects:
            yield from wrapped_lines(f"{kind.title} ({len(kind.suspects)}): {kind.meaning}", width)
            for suspect in kind.suspects[:MOST_SUSPECTS]:
                text = f"{one_line(suspect.task, MOST_NAME)}  {kind.evidence(suspect)}"
                yield from wrapped_lines(text, width, indent=INNER)
            if len(kind.suspects) > MOST_SUSPECTS:
                yield StyledLine(f"{INNER}and {len(kind.suspects) - MOST_SUSPECTS} more (--json)", "dim")
    none = [kind.title for kind in kinds if not kind.suspects]
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


def _kinds(suspects: Suspects) -> Iterator[_Kind]:
    if suspects.real:
        wrong = "the task or its grader may be wrong"
        yield _Kind("every model misses", wrong, suspects.missed, _passes)
        solved = "it can be solved, and no model does"
        yield _Kind("only oracle passes", solved, suspects.only_oracle, _passes)
    votes = "by some of the judges it passes, by others not"
    yield _Kind(
        "judges split",
        votes,
        suspects.judges_split,
        lambda each: f"{each.part} of {pluralize(each.whole, 'judged trial')}, {_where(each)}",
    )
    unsteady = "repetitions in one run, with one model, passed and missed"
    yield _Kind("repetitions disagree", unsteady, suspects.unsteady, _unsteady)
    # As above: without a real model neither misses nor passes say anything about a task.
    if suspects.real:
        saturated = "saturated, candidates for agenteval promote"
        yield _Kind("always passes", saturated, suspects.saturated, _passes)


def _passes(suspect: Suspect) -> str:
    beside = f"; {suspect.remark}" if suspect.remark else ""
    return f"{suspect.part} of {pluralize(suspect.whole, 'trial')} passed, {_where(suspect)}{beside}"


def _unsteady(suspect: Suspect) -> str:
    often = f"{suspect.part} of {pluralize(suspect.whole, 'time')}"
    return f"{often}, {suspect.remark}, {', '.join(suspect.models)}"


def _where(suspect: Suspect) -> str:
    return f"{pluralize(suspect.runs, 'run')} with {', '.join(suspect.models)}"


MOST_DRAWN = 24
"""Runs of a series that are drawn, the newest ones: more have no room beside names and figures."""

MOST_ABSENCES = 3
"""Runs that are left out of a series and named, the newest ones."""

NOTHING_KNOWN = Figures(None, None)


def trend_lines(trend: Trend, width: int, ascii_only: bool = False) -> Iterator[StyledLine]:
    """Give a table for each series, then the suspects; ``ascii_only`` where blocks cannot be printed."""
    for series in trend.series:
        yield from _series_lines(trend.suite, series, width, ascii_only)
        yield StyledLine("")
    if trend.regraded:
        again = f"{pluralize(len(trend.regraded), 'run')} that graded trials again: no agent was tried"
        yield from wrapped_lines(f"left out: {again}", width, indent="")
    yield from wrapped_lines(f"scale: {ASCII_LEGEND if ascii_only else LEGEND}", width, "dim", indent="")
    yield StyledLine("")
    yield from _suspect_lines(trend, width)
    for problem in trend.odd:
        yield from wrapped_lines(printable(problem), width, "red", indent="")


def _series_lines(suite: str, series: Series, width: int, ascii_only: bool) -> Iterator[StyledLine]:
    if series.points:
        drawing, rows = _Drawing(series, ascii_only), list(_rows(series))
        # The heads are rows of the table too: so each mark stands right above the character of its run.
        heads = drawing.heads()
        blank = ("",) * len(heads)
        lines = (*(line for _, line in heads), *(drawing.sparkline(row.scores) for row in rows))
        counts = (str(sum(score is not None for score in row.scores)) for row in rows)
        rates = (format_figure(_decided(row.rates)[-1]) if row.rates else "" for row in rows)
        columns = (
            TableColumn("score", lines),
            TableColumn("first", (*blank, *(format_figure(_decided(row.scores)[0]) for row in rows))),
            TableColumn("last", (*blank, *(format_figure(_decided(row.scores)[-1]) for row in rows))),
            TableColumn("runs", (*blank, *counts)),
            TableColumn(f"pass^{series.k}", (*blank, *rates), spare=1),
        )
        names = (*(name for name, _ in heads), *(one_line(row.name, MOST_NAME) or NOT_KNOWN for row in rows))
        notes = (*drawing.notes(), *_absences(series))
        yield from table_lines(ReportTable(_title(suite, series), "bucket", names, (columns,), notes), width)
        return
    yield from wrapped_lines(_title(suite, series), width, "bold", indent="")
    for note in _absences(series):
        yield from wrapped_lines(note.text, width)


class _Row(NamedTuple):
    """A figure of all tasks or of a bucket in every run of a series, and pass^k in every run."""

    name: str
    scores: Sequence[float | None]
    rates: Sequence[float | None]


class _Drawing:
    """The newest runs of a series side by side, one character for each."""

    def __init__(self, series: Series, ascii_only: bool) -> None:
        self._ascii_only = ascii_only
        self._points = series.points[-MOST_DRAWN:]
        self._first = len(series.points) - len(self._points) + 1
        self._breaks = {at for at, point in enumerate(self._points) if at and _spoiling(point.changes)}

    def heads(self) -> list[tuple[str, str]]:
        """Give the lines above the figures: the runs' numbers and, if any run has one, their marks."""
        # One character for each run: of its number the last digit.
        numbers = [str((self._first + at) % 10) for at in range(len(self._points))]
        marks = [_mark(point) or (ASCII_GAP if self._ascii_only else GAP) for point in self._points]
        noted = any(map(_mark, self._points))
        lines = [("run", numbers), ("noted", marks)] if noted else [("run", numbers)]
        return [(name, _with_breaks(cells, self._breaks)) for name, cells in lines]

    def sparkline(self, figures: Sequence[float | None]) -> str:
        return sparkline(figures[-MOST_DRAWN:], self._ascii_only, self._breaks)

    def notes(self) -> Iterator[TableNote]:
        for number, point in enumerate(self._points, start=self._first):
            texts = [*map(_change_text, point.changes), *([point.incomplete] if point.incomplete else [])]
            if texts:
                yield TableNote(f"run {number}, {printable(point.run)}: {'; '.join(texts)}")


def _rows(series: Series) -> Iterator[_Row]:
    """Give rows for all tasks, for their pass^k, and for each bucket where there are several."""
    totals = [point.total for point in series.points]
    scores, rates = [total.score for total in totals], [total.pass_hat_k for total in totals]
    yield _Row("all", scores, rates)
    yield _Row(f"all: pass^{series.k}", rates, ())
    # In the order of the newest run; buckets that it lacks come last.
    names = dict.fromkeys(name for point in reversed(series.points) for name in point.buckets)
    for name in names if len(names) > 1 else ():
        figures = [point.buckets.get(name, NOTHING_KNOWN) for point in series.points]
        yield _Row(name, [each.score for each in figures], [each.pass_hat_k for each in figures])


def _decided(figures: Sequence[float | None]) -> list[float | None]:
    """Give the known figures, else a single None."""
    return [figure for figure in figures if figure is not None] or [None]


def _title(suite: str, series: Series) -> str:
    who, note = model_label(series.model, series.variant), f": {series.note}" if series.note else ""
    days = [point.started_at[:10] for point in series.points]
    when = f", {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    drawn = f", the newest {MOST_DRAWN} drawn" if len(series.points) > MOST_DRAWN else ""
    return f"{suite} with {who}{note}: {pluralize(len(series.points), 'run')}{when}{drawn}"


def _spoiling(changes: Sequence[Change]) -> bool:
    return not all(change.comparable for change in changes)


def _mark(point: Point) -> str:
    """Give the character that marks a run, that of its most important note; empty without a note."""
    if _spoiling(point.changes):
        return "!"
    if any(change.what == "prompt" for change in point.changes):
        return "p"
    return "+" if point.changes else "~" if point.incomplete else ""


def _change_text(change: Change) -> str:
    spoilt = "" if change.comparable else ", scores before and after are not comparable"
    return f"{change.what} {change.before} -> {change.after} ({pluralize(change.tasks, 'task')}){spoilt}"


def _absences(series: Series) -> Iterator[TableNote]:
    for absence in series.left_out[-MOST_ABSENCES:]:
        yield TableNote(f"left out: {printable(absence.run)}: {absence.why}")
    if series.left_out:
        runs = pluralize(len(series.left_out), "run")
        hint = "--last N looks further back"
        yield TableNote(f"left out in all: {runs} with less than half of the suite; {hint}")

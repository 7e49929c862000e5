"""What screens and pages say of a trend: its rows in the order of what moved, and its runs in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.reports.last_step import ComparedChange
from pytest_agenteval.reports.trend import Change, Figures, Point, Series
from pytest_agenteval.text.formatting import MOST_NAME, model_label, one_line, pluralize, printable

ARROWS = {"better": "▲ ", "worse": "▼ "}

MOST_ABSENCES = 3
"""Runs that are left out of a series and named, the newest ones."""


def trend_title(suite: str, series: Series) -> str:
    who, note = model_label(series.model, series.variant), f": {series.note}" if series.note else ""
    days = [f"{moment:%Y-%m-%d}" for point in series.points if (moment := run_moment(point))]
    when = f", {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    return f"{suite} with {who}{note}: {pluralize(len(series.points), 'run')}{when}"


def absence_texts(series: Series) -> Iterator[str]:
    for absence in series.left_out[-MOST_ABSENCES:]:
        yield f"left out: {printable(absence.run)}: {absence.why}"
    if series.left_out:
        runs = pluralize(len(series.left_out), "run")
        yield f"left out in all: {runs} with less than half of the suite; --last N looks further back"


class TrendRow(NamedTuple):
    """A bucket, or all tasks: a figure for each run, and how the newest run compares with the one before.

    ``first`` is the place of the first run that the newest one can be compared with.
    """

    name: str
    figures: Sequence[Figures]
    first: int = 0
    step: ComparedChange | None = None

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
    def is_as_before(self) -> bool:
        moved = [self.change, self.step.change if self.step else None]
        known = [change for change in moved if change is not None]
        return bool(known) and all(abs(change) < ROUNDING for change in known)


def trend_rows(series: Series) -> tuple[TrendRow, list[TrendRow]]:
    """Give the row of all tasks and those of buckets: worse ones first, then better ones, then how far moved.

    A suite's only bucket has no row.
    """
    step, first = series.last_step, series.first_comparable
    changes = {change.name: change for change in step.buckets} if step else {}
    whole = TrendRow("all", [point.total for point in series.points], first, step.total if step else None)
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
    verdict = row.step.verdict if row.step else ""
    change = row.step.change if row.step and verdict in ARROWS else row.change
    if change is None or (abs(change) < ROUNDING and verdict not in ARROWS):
        return 4 if change is None else 5, 0.0
    rank = {"worse": 0, "better": 1}.get(verdict, 2 if change < 0 else 3)
    return rank, -abs(change)


def step_words(step: ComparedChange) -> str:
    """Write the verdict on the newest run in words; empty where none is possible."""
    return step.says or (step.verdict if step.verdict == "identical" else "")


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


def change_text(change: Change) -> str:
    spoilt = "" if change.comparable else ", scores before and after are not comparable"
    return f"{change.what} {change.before} -> {change.after} ({pluralize(change.tasks, 'task')}){spoilt}"

"""Suites over time as one HTML file: lines with intervals, broken where something else was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.processes.files import replacing
from pytest_agenteval.reports.comparison_text import NO_BUCKET, format_change, format_p
from pytest_agenteval.reports.html_report import page_environment, page_file
from pytest_agenteval.reports.suspect_tasks import suspect_lines
from pytest_agenteval.reports.trend import ComparedChange, Figures, Point, Series, Trend
from pytest_agenteval.reports.trend_screen import (
    TrendRow,
    absence_texts,
    days_text,
    interval_text,
    point_texts,
    run_head,
    run_mark,
    run_moment,
    trend_rows,
)
from pytest_agenteval.text.formatting import MOST_NAME, format_figure, model_label, one_line, pluralize

Fields: TypeAlias = dict[str, Any]

RunLink: TypeAlias = Callable[[str], str]
"""Gives the address of a run, where a server has one."""

MOST_TOGETHER = 4
"""Series that share one picture; of more, each has pictures of its own."""

WIDE, HIGH = 1000, 100
"""Units of a drawing across and down, which is stretched to the room that there is."""

MOST_DOTS = 48
"""Runs from which on only ends and lone points are dots."""

MAIN_PIXELS, LABEL_PIXELS = 260, 18
"""How high the picture of all tasks is, and a label beside it."""

BREAK_PERCENT = 16
"""How much of the picture the words of a break take across: with less between two breaks neither has any."""

MOST_TICKS = 6
SUSPECT_COLUMNS = 110

MARK_WORDS = {
    "!": "! graders or tasks changed",
    "p": "p the prompt changed",
    "+": "+ something else changed",
    "~": "~ a part was not run",
}
"""Marks of runs, the most important first."""


def write_trend_page(path: Path, trends: Sequence[Trend]) -> None:
    """Write the page; an OSError leaves the file as it was."""
    with replacing(path) as beside:
        beside.write_bytes(trend_page(trends).encode(errors="backslashreplace"))


def trend_page(
    trends: Sequence[Trend], link: RunLink | None = None, nav: Mapping[str, Any] | None = None
) -> str:
    """Give the page as HTML; runs lead to where ``link`` says, and nowhere without it.

    ``nav`` leads to other pages, suites and numbers of runs, where a server has them.
    """
    names = [trend.suite for trend in trends]
    title = f"Trend of {names[0]}" if len(names) == 1 else f"Trend of {len(names)} suites"
    template = page_environment().get_template("trend.html.jinja")
    style = page_file("kit.css") + page_file("trend.css") + (page_file("served/head.css") if nav else "")
    return template.render(
        title=title,
        suites=list(map(_suite, trends)),
        style=style,
        nav=nav,
        link=link or (lambda run: ""),
        figure=format_figure,
        interval=interval_text,
        texts=point_texts,
        run_head=run_head,
        bucket_name=_bucket_name,
        change_text=_change_text,
    )


def _suite(trend: Trend) -> Fields:
    drawn = [series for series in trend.series if series.points]
    together = [drawn] if len(drawn) <= MOST_TOGETHER else [[series] for series in drawn]
    lines = suspect_lines(trend.suspects, trend.suite, len(trend.runs), SUSPECT_COLUMNS)
    return {
        "name": trend.suite,
        "groups": [_Group(group, trend.runs).fields() for group in together if group],
        "empty": [
            {"name": _label(series), "notes": list(absence_texts(series))}
            for series in trend.series
            if not series.points
        ],
        "regraded": len(trend.regraded),
        "suspects": "\n".join(line.text for line in lines),
        "odd": trend.odd,
    }


def _label(series: Series) -> str:
    return one_line(model_label(series.model, series.variant), MOST_NAME)


class _Spot(NamedTuple):
    """A run of a line: its slot among all runs of the picture, and its figures there."""

    slot: int
    point: Point
    figures: Figures


class _Line:
    """A series in one picture of ``many`` runs, and the paths that draw it."""

    def __init__(self, number: int, label: str, row: TrendRow, spots: Sequence[_Spot], many: int) -> None:
        self.number, self.label, self.row, self.spots, self._many = number, label, row, spots, many
        self.first, self.last = map(format_figure, row.ends)
        self.known = [each for each in spots if each.figures.score is not None]

    @property
    def kind(self) -> str:
        return self.row.compared.verdict if self.row.compared and self.row.arrow else ""

    @property
    def text(self) -> str:
        """Where the line begins and ends, for those who do not see it."""
        ends = f"{self.first} to {self.last}" if len(self.known) > 1 else self.last
        return f"{self.label} {ends} in {pluralize(len(self.known), 'run')}"

    @cached_property
    def _stretches(self) -> list[list[_Spot]]:
        """The line ends before a run that measures something else, or that lacks a score.

        A run without this series is passed over.
        """
        stretches: list[list[_Spot]] = [[]]
        for spot in self.spots:
            if spot.point.breaks_line or spot.figures.score is None:
                stretches.append([])
            if spot.figures.score is not None:
                stretches[-1].append(spot)
        return [stretch for stretch in stretches if stretch]

    @property
    def path(self) -> str:
        return "".join(f"M{'L'.join(map(self._place, stretch))}" for stretch in self._stretches)

    @property
    def dots(self) -> str:
        # A line of no length with round ends is a dot, which stays round however the drawing is stretched.
        shown = [
            spot
            for stretch in self._stretches
            for spot in stretch
            if self._many <= MOST_DOTS or len(stretch) == 1 or spot is self.known[-1]
        ]
        return "".join(f"M{self._place(spot)}h0" for spot in shown)

    @property
    def band(self) -> str:
        """The area between the ends of the intervals."""
        return "".join(
            f"M{'L'.join([*high, *reversed(low)])}Z" for high, low in self._intervals() if high[1:]
        )

    @property
    def bars(self) -> str:
        """The intervals of runs that have none beside them."""
        return "".join(f"M{high[0]}L{low[0]}" for high, low in self._intervals() if not high[1:])

    def _intervals(self) -> Iterator[tuple[list[str], list[str]]]:
        """Give the upper and lower ends of intervals, stretch by stretch."""
        for stretch in self._stretches:
            for has_interval, spots in groupby(stretch, lambda spot: spot.figures.low is not None):
                if has_interval:
                    ends = [
                        (self._at(spot.slot, spot.figures.high), self._at(spot.slot, spot.figures.low))
                        for spot in spots
                    ]
                    yield [high for high, _ in ends], [low for _, low in ends]

    def _place(self, spot: _Spot) -> str:
        return self._at(spot.slot, spot.figures.score)

    def _at(self, slot: int, score: float | None) -> str:
        return f"{round(WIDE * (slot + 0.5) / self._many, 2)} {round(HIGH * (1 - (score or 0.0)), 2)}"


class _Group:
    """Series of a suite that share pictures; each of their runs has a slot, the oldest first."""

    def __init__(self, group: Sequence[Series], runs: Sequence[str]) -> None:
        points = {point.run: point for series in group for point in series.points}
        self._slots = [points[run] for run in runs if run in points]
        self._group, self._rows = group, [trend_rows(series) for series in group]
        self._main = self._lines(whole for whole, _ in self._rows)
        # What each series has of the run of a slot.
        self._spots: list[list[tuple[_Line, _Spot]]] = [[] for _ in self._slots]
        for line in self._main:
            for spot in line.spots:
                self._spots[spot.slot].append((line, spot))

    def fields(self) -> Fields:
        marks = [(at, mark) for at, spots in enumerate(self._spots) if (mark := _most_important(spots))]
        return {
            "series": [
                (line, series, *self._verdict(series, rows), rows[1])
                for line, series, rows in zip(self._main, self._group, self._rows, strict=True)
            ],
            "runs": ", ".join(filter(None, (pluralize(len(self._slots), "run"), days_text(self._slots)))),
            "lines": self._main,
            "breaks": self._breaks(),
            "marks": [(self._across(at), mark) for at, mark in marks],
            "marks_say": [words for mark, words in MARK_WORDS.items() if mark in {each for _, each in marks}],
            "ticks": [(self._across(at), *tick) for at, *tick in _ticks(self._slots)],
            "labels": _end_labels(self._main),
            "slots": list(map(self._slot, range(len(self._slots)))),
            **self._panels(),
            "notes": list(self._notes()),
        }

    def _lines(self, rows: Iterable[TrendRow | None]) -> list[_Line]:
        lines = []
        slots = {point.run: at for at, point in enumerate(self._slots)}
        for number, (series, row) in enumerate(zip(self._group, rows, strict=True)):
            if row is not None:
                pairs = zip(series.points, row.figures, strict=True)
                spots = [_Spot(slots[point.run], point, figures) for point, figures in pairs]
                lines.append(_Line(number, _label(series), row, spots, len(self._slots)))
        return lines

    def _across(self, slot: float) -> float:
        """Give how far across a slot has its middle, in percent."""
        return round(100 * (slot + 0.5) / len(self._slots), 3)

    def _breaks(self) -> list[tuple[float, str]]:
        """Give where lines are broken, in percent of the way across, and by what if there is room for it."""
        found: list[tuple[float, str]] = []
        for at, spots in enumerate(self._spots[1:]):
            changes = [change for _, spot in spots for change in spot.point.changes if not change.comparable]
            if changes:
                what = dict.fromkeys(change.what for change in changes)
                found.append((self._across(at + 0.5), f"{', '.join(what)} changed"))
        pairs = pairwise(at for at, _ in found)
        crowded = {at for one, other in pairs if other - one < BREAK_PERCENT for at in (one, other)}
        return [(at, "" if at in crowded else words) for at, words in found]

    def _slot(self, at: int) -> tuple[str, str]:
        """Give a run, and what a reader sees while the mouse is above it."""
        point = self._slots[at]
        texts = [f"{run_head(point)}, {point.run}"]
        for line, spot in self._spots[at]:
            texts += [f"{line.label} {_score_text(spot.figures)}", *point_texts(spot.point)]
        return point.run, "\n".join(texts)

    def _panels(self) -> Fields:
        """Give a small picture for each bucket, what moved first; those as before apart."""
        by_series = [{row.name: row for row in buckets} for _, buckets in self._rows]
        order: dict[str, tuple[int, int]] = {}
        for rows in by_series:
            for rank, (name, row) in enumerate(rows.items()):
                order[name] = min(order.get(name, (2, 0)), (int(row.is_as_before), rank))
        panels: Fields = {"moved": [], "steady": []}
        for name in sorted(order, key=lambda name: order[name]):
            lines = self._lines(rows.get(name) for rows in by_series)
            panels["steady" if order[name][0] else "moved"].append((_bucket_name(name), lines))
        return panels

    def _verdict(self, series: Series, rows: tuple[TrendRow, list[TrendRow]]) -> tuple[str, list[TrendRow]]:
        """Say what the newest run changed, with the buckets that moved; empty where nothing is compared."""
        whole, buckets = rows
        if whole.compared is None:
            broken = len(series.points) > 1 and series.points[-1].breaks_line
            return "No verdict: graders or tasks changed with the newest run." if broken else "", []
        tasks = pluralize(whole.compared.tasks, "task")
        alike = f", over the {tasks} that both runs have" if whole.over_other_tasks else ""
        found = f"{whole.compared.says or 'no verdict is possible'}, {_change_text(whole.compared)}{alike}"
        the = "The" if len(self._group) == 1 else "the"
        moved = [row for row in buckets if row.arrow]
        return f"{the} newest run against the one before: {found}", moved

    def _notes(self) -> Iterator[str]:
        """Say what changed at which run; what is the same with several models stands once."""
        several = len(self._group) > 1
        for slot, spots in zip(self._slots, self._spots, strict=True):
            names: dict[str, list[str]] = {}
            for line, spot in spots:
                if text := "; ".join(point_texts(spot.point)):
                    names.setdefault(text, []).append(line.label)
            for text, whose in names.items():
                who = f" with {', '.join(whose)}" if several else ""
                yield f"{run_head(slot)}, {slot.run}{who}: {text}"
        for series in self._group:
            name = f"{_label(series)}: " if several else ""
            yield from (f"{name}{text}" for text in absence_texts(series))


def _bucket_name(name: str) -> str:
    return one_line(name, MOST_NAME) or NO_BUCKET


def _most_important(spots: Iterable[tuple[_Line, _Spot]]) -> str:
    """Give the mark of a run, as the terminal has it: of several series the most important one."""
    marks = {run_mark(spot.point) for _, spot in spots}
    return next((mark for mark in MARK_WORDS if mark in marks), "")


def _score_text(figures: Figures) -> str:
    interval = interval_text(figures)
    return format_figure(figures.score) + (f" ({interval})" if interval else "")


def _change_text(change: ComparedChange) -> str:
    scores = f"{format_figure(change.old)} -> {format_figure(change.new)}"
    p = f", p\N{NO-BREAK SPACE}{format_p(change.p)}" if change.testable else ""
    return f"{scores} ({format_change(change.change)}{p})"


def _ticks(slots: Sequence[Point]) -> Iterator[tuple[int, str, str, bool]]:
    """Give the days below a picture: of each run where they are few, else of some, the newest among them.

    That is the slot, the text, the side to which it is put, and whether it may go where there is no room.
    """
    moments, many = [run_moment(slot) for slot in slots], len(slots)
    days = {moment.date() for moment in moments if moment}
    minutes = {f"{moment:%d %H:%M}" for moment in moments if moment}
    form = "%d %b %H:%M" if len(minutes) == many else "%H:%M:%S"
    if len(days) == many or (many > MOST_TICKS and len(days) > 1):
        form = "%d %b"
    step = math.ceil(many / MOST_TICKS)
    places = range((many - 1) % step, many, step)
    for at in places:
        if moment := moments[at]:
            side = "start" if at == 0 else "end" if at == many - 1 else ""
            text = format(moment, form).removeprefix("0" if form != "%H:%M:%S" else "")
            is_minor = len(places) > 2 and at not in (places[0], places[-1])
            yield at, text, side if many > 2 else "", is_minor


def _end_labels(lines: Iterable[_Line]) -> list[tuple[float, _Line]]:
    """Give what stands beside the end of each line, moved apart where two would cover each other."""
    ends = sorted((-(line.known[-1].figures.score or 0.0), line.number, line) for line in lines if line.known)
    labels: list[tuple[float, _Line]] = []
    for score, _, line in ends:
        wanted = MAIN_PIXELS * (1 + score)
        # The lowest ones stay within the picture, and push up what is above them.
        lowest = MAIN_PIXELS - LABEL_PIXELS * (len(ends) - 1 - len(labels))
        labels.append((min(max(wanted, labels[-1][0] + LABEL_PIXELS) if labels else wanted, lowest), line))
    return labels

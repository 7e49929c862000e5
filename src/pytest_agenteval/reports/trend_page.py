"""Suites over time as one HTML file: lines with intervals, broken where something else was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.processes.files import replacing
from pytest_agenteval.reports.comparison_text import NO_BUCKET, format_change, format_p
from pytest_agenteval.reports.html_report import page_environment, page_file
from pytest_agenteval.reports.last_step import ComparedChange
from pytest_agenteval.reports.trend import Figures, Point, Series, Trend
from pytest_agenteval.reports.trend_screen import suspect_lines
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
)
from pytest_agenteval.text.formatting import (
    MOST_NAME,
    format_ends,
    format_figure,
    model_label,
    one_line,
    pluralize,
)

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

SUSPECT_COLUMNS = 110

MARK_WORDS = {
    "!": "! graders or tasks changed",
    "p": "p the prompt changed",
    "+": "+ something else changed",
    "~": "~ a part was not tried",
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
    suites = [_suite(trend, link) for trend in trends]
    style = page_file("kit.css") + page_file("trend.css") + (page_file("served/head.css") if nav else "")
    return template.render(title=title, suites=suites, style=style, nav=nav)


def _suite(trend: Trend, link: RunLink | None) -> Fields:
    drawn = [series for series in trend.series if series.points]
    together = [drawn] if len(drawn) <= MOST_TOGETHER else [[series] for series in drawn]
    return {
        "name": trend.suite,
        "groups": [_Group(group, trend.runs, link).fields() for group in together if group],
        "empty": [
            {"name": _label(series), "notes": list(absence_texts(series))}
            for series in trend.series
            if not series.points
        ],
        "regraded": len(trend.regraded),
        "suspects": "\n".join(line.text for line in suspect_lines(trend, SUSPECT_COLUMNS)),
        "odd": list(trend.odd),
    }


def _label(series: Series) -> str:
    return one_line(model_label(series.model, series.variant), MOST_NAME)


class _Line(NamedTuple):
    """A series in one picture: a figure and a point for each slot, None where the series lacks the run."""

    number: int
    label: str
    figures: Sequence[Figures | None]
    points: Sequence[Point | None]
    row: TrendRow

    @property
    def last(self) -> float | None:
        known = [each.score for each in self.figures if each and each.score is not None]
        return known[-1] if known else None

    @property
    def arrow(self) -> str:
        verdict = self.row.step.verdict if self.row.step else ""
        return ARROWS.get(verdict, "").strip()


class _Group:
    """Series of a suite that share pictures; each of their runs has a slot, the oldest first."""

    def __init__(self, group: Sequence[Series], runs: Sequence[str], link: RunLink | None) -> None:
        points = {point.run: point for series in group for point in series.points}
        self._slots = [points[run] for run in runs if run in points]
        self._group, self._link = group, link
        self._rows = [trend_rows(series) for series in group]

    def fields(self) -> Fields:
        return {
            "series": [
                {"number": at, "name": _label(series), "note": series.note}
                for at, series in enumerate(self._group)
            ],
            "runs": pluralize(len(self._slots), "run"),
            "when": _when(self._slots),
            "main": self._main(),
            "verdicts": list(map(self._verdict, self._group, self._rows)),
            **self._panels(),
            "notes": list(self._notes()),
            "tables": [self._table(series) for series in self._group],
        }

    def _lines(self, rows: Iterable[TrendRow | None]) -> list[_Line]:
        lines = []
        for number, (series, row) in enumerate(zip(self._group, rows, strict=True)):
            if row is not None:
                places = {point.run: at for at, point in enumerate(series.points)}
                at_slots = [places.get(slot.run) for slot in self._slots]
                figures = [None if at is None else row.figures[at] for at in at_slots]
                points = [None if at is None else series.points[at] for at in at_slots]
                lines.append(_Line(number, _label(series), figures, points, row))
        return lines

    def _main(self) -> Fields:
        lines = self._lines(whole for whole, _ in self._rows)
        breaks, marks = self._breaks(), list(self._marks())
        return {
            **_drawing(lines),
            "breaks": breaks,
            "marks": marks,
            "marks_say": ", ".join(
                words for mark, words in MARK_WORDS.items() if mark in {each["text"] for each in marks}
            ),
            "ticks": list(_ticks(self._slots)),
            "labels": _end_labels(lines),
            "slots": [self._slot(at, lines) for at in range(len(self._slots))],
            "says": "; ".join(map(_line_text, lines)),
        }

    def _breaks(self) -> list[tuple[float, str]]:
        """Give where lines are broken, in percents of the way across, and by what."""
        found: dict[int, dict[str, None]] = {}
        for line in self._lines(whole for whole, _ in self._rows):
            for at, point in enumerate(line.points):
                if at and point is not None and point.breaks_line:
                    causes = (change.what for change in point.changes if not change.comparable)
                    found.setdefault(at, {}).update(dict.fromkeys(causes))
        many = len(self._slots)
        return [(round(100 * at / many, 3), f"{', '.join(causes)} changed") for at, causes in found.items()]

    def _marks(self) -> Iterator[Fields]:
        """Give the marks of runs, as the terminal has them: of several series the most important one."""
        for at, slot in enumerate(self._slots):
            points = [point for series in self._group for point in series.points if point.run == slot.run]
            marks = {mark for point in points if (mark := run_mark(point))}
            if marks:
                mark = next(each for each in MARK_WORDS if each in marks)
                yield {"left": self._across(at), "text": mark}

    def _across(self, at: int) -> float:
        return _percent((at + 0.5) / len(self._slots))

    def _slot(self, at: int, lines: Sequence[_Line]) -> Fields:
        """Give what a reader sees while the mouse is above a run."""
        slot = self._slots[at]
        texts = [f"{run_head(slot)}, {slot.run}"]
        for line in lines:
            figures, point = line.figures[at], line.points[at]
            if figures is not None and point is not None:
                texts.append(f"{line.label} {_score_text(figures)}")
                texts += _point_texts(point)
        left, right = (WIDE * edge / len(self._slots) for edge in (at, at + 1))
        return {
            "x": round(left, 2),
            "width": round(right - left, 2),
            "says": "\n".join(texts),
            "href": self._link(slot.run) if self._link else "",
        }

    def _panels(self) -> Fields:
        """Give a small picture for each bucket, what moved first; those as before apart."""
        by_series = [{row.name: row for row in buckets} for _, buckets in self._rows]
        order: dict[str, tuple[int, int]] = {}
        for rows in by_series:
            for rank, (name, row) in enumerate(rows.items()):
                place = (int(row.is_as_before), rank)
                order[name] = min(order.get(name, place), place)
        panels: Fields = {"moved": [], "steady": []}
        breaks = [at for at, _ in self._breaks()]
        for name in sorted(order, key=lambda name: order[name]):
            lines = self._lines(rows.get(name) for rows in by_series)
            panel = {
                **_drawing(lines, bands=len(lines) == 1),
                "breaks": [(at, "") for at in breaks],
                "name": one_line(name, MOST_NAME) or NO_BUCKET,
                "ends": [_ends_fields(line) for line in lines],
                "says": "; ".join(map(_line_text, lines)),
            }
            panels["steady" if order[name][0] else "moved"].append(panel)
        return panels

    def _verdict(self, series: Series, rows: tuple[TrendRow, list[TrendRow]]) -> Fields:
        """Say what the newest run changed, where a comparison supports a verdict."""
        whole, buckets = rows
        step = series.last_step
        moved = [row.step for row in buckets if row.step and row.step.verdict in ARROWS]
        if step is None:
            broken = len(series.points) > 1 and series.points[-1].breaks_line
            text = "No verdict: graders or tasks changed with the newest run." if broken else ""
            return {"name": _label(series), "text": text, "kind": "", "moved": []}
        total = step.total
        alike = ""
        if None not in whole.scores[-2:] and (total.old, total.new) != tuple(whole.scores[-2:]):
            alike = f", over the {pluralize(total.tasks, 'task')} that both runs have"
        found = f"{step_words(total) or 'no verdict is possible'}, {_change_text(total)}{alike}"
        text = f"the newest run against the one before: {found}"
        if len(self._group) == 1:
            text = text[0].upper() + text[1:]
        kind = total.verdict if total.verdict in ARROWS else ""
        return {"name": _label(series), "text": text, "kind": kind, "moved": list(map(_moved, moved))}

    def _notes(self) -> Iterator[str]:
        """Say what changed at which run; what is the same with several models stands once."""
        several = len(self._group) > 1
        for slot in self._slots:
            names: dict[str, list[str]] = {}
            for series in self._group:
                point = next((point for point in series.points if point.run == slot.run), None)
                if point and (texts := list(_point_texts(point))):
                    names.setdefault("; ".join(texts), []).append(_label(series))
            for text, whose in names.items():
                who = f" with {', '.join(whose)}" if several else ""
                yield f"{run_head(slot)}, {slot.run}{who}: {text}"
        for series in self._group:
            name = f"{_label(series)}: " if several else ""
            yield from (f"{name}{text}" for text in absence_texts(series))

    def _table(self, series: Series) -> Fields:
        _, buckets = trend_rows(series)
        rows = []
        for at, point in enumerate(series.points):
            rates = format_figure(point.total.pass_hat_k)
            rows.append(
                {
                    "run": point.run,
                    "href": self._link(point.run) if self._link else "",
                    "when": run_head(point),
                    "cells": [
                        format_figure(point.total.score),
                        _interval_text(point.total),
                        rates,
                        *(format_figure(row.scores[at]) for row in buckets),
                        "; ".join(_point_texts(point)),
                    ],
                }
            )
        names = [one_line(row.name, MOST_NAME) or NO_BUCKET for row in buckets]
        heads = ["run", "started", "all", "95 %", f"pass^{series.k}", *names, "what changed"]
        return {"name": _label(series), "heads": heads, "rows": rows}


def _when(slots: Sequence[Point]) -> str:
    days = [f"{moment:%Y-%m-%d}" for slot in slots if (moment := run_moment(slot))]
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def _percent(share: float) -> float:
    return round(100 * share, 3)


def _line_text(line: _Line) -> str:
    """Say where a line begins and ends, for those who do not see it."""
    first, last = line.row.ends
    known = sum(1 for each in line.figures if each and each.score is not None)
    ends = f"{format_figure(first)} to {format_figure(last)}" if known > 1 else format_figure(last)
    return f"{line.label} {ends} in {pluralize(known, 'run')}"


def _interval_text(figures: Figures) -> str:
    if figures.low is None or figures.high is None:
        return ""
    return format_ends(figures.low, figures.high)


def _score_text(figures: Figures) -> str:
    interval = _interval_text(figures)
    return f"{format_figure(figures.score)} ({interval})" if interval else format_figure(figures.score)


def _point_texts(point: Point) -> Iterator[str]:
    yield from map(change_text, point.changes)
    if point.incomplete:
        yield point.incomplete


def _change_text(change: ComparedChange) -> str:
    scores = f"{format_figure(change.old)} -> {format_figure(change.new)}"
    if not change.testable:
        return f"{scores} ({format_change(change.change)})"
    return f"{scores} ({format_change(change.change)}, p\N{NO-BREAK SPACE}{format_p(change.p)})"


def _moved(change: ComparedChange) -> Fields:
    return {
        "kind": change.verdict,
        "arrow": ARROWS[change.verdict].strip(),
        "name": one_line(change.name, MOST_NAME) or NO_BUCKET,
        "text": _change_text(change),
    }


def _ends_fields(line: _Line) -> Fields:
    first, last = line.row.ends
    return {
        "number": line.number,
        "first": format_figure(first) if line.row.change is not None else "",
        "last": format_figure(last),
        "arrow": line.arrow,
        "kind": line.row.step.verdict if line.row.step and line.arrow else "",
    }


def _ticks(slots: Sequence[Point]) -> Iterator[Fields]:
    """Give the days below a picture: of each run where they are few, else of some; ``minor`` ones may go."""
    moments = [run_moment(slot) for slot in slots]
    days = {moment.date() for moment in moments if moment}
    many = len(slots)
    minutes = {f"{moment:%d %H:%M}" for moment in moments if moment}
    form = "%d %b %H:%M" if len(minutes) == many else "%H:%M:%S"
    if len(days) == many or (many > 6 and len(days) > 1):
        form = "%d %b"
    places = range(many) if many <= 6 else [round(number * (many - 1) / 5) for number in range(6)]
    for number, at in enumerate(places):
        if moment := moments[at]:
            is_end = at in (0, many - 1)
            side = "start" if many > 2 and at == 0 else "end" if many > 2 and at == many - 1 else "middle"
            text = format(moment, form).removeprefix("0" if form != "%H:%M:%S" else "")
            minor = not is_end and (many > 3 or number % 2 == 1)
            yield {"left": _percent((at + 0.5) / many), "text": text, "side": side, "minor": minor}


def _end_labels(lines: Sequence[_Line]) -> list[Fields]:
    """Give what stands beside the end of each line, moved apart where two would cover each other."""
    ends = sorted(
        ((line, line.last) for line in lines if line.last is not None), key=lambda end: -(end[1] or 0)
    )
    low, high = _score_range(lines)
    tops: list[float] = []
    for _, score in ends:
        wanted = MAIN_PIXELS * (high - (score or 0.0)) / (high - low)
        tops.append(max(wanted, tops[-1] + LABEL_PIXELS) if tops else wanted)
    if tops and (below := tops[-1] - MAIN_PIXELS) > 0:
        # The lowest ones stay within the picture, and push up what is above them.
        tops[-1] -= below
        for at in reversed(range(len(tops) - 1)):
            tops[at] = min(tops[at], tops[at + 1] - LABEL_PIXELS)
    return [
        {"top": round(top, 1), "name": line.label, "alone": len(lines) == 1, **_ends_fields(line)}
        for (line, _), top in zip(ends, tops, strict=True)
    ]


# ---- lines


def _score_range(lines: Sequence[_Line]) -> tuple[float, float]:
    """Give the lower and upper end of the scale: 0 to 1, and further down where a metric goes below 0."""
    scores = [each.score for line in lines for each in line.figures if each and each.score is not None]
    return min(0.0, *scores, 0.0), max(1.0, *scores, 1.0)


def _drawing(lines: Sequence[_Line], *, bands: bool = True) -> Fields:
    """Give each line as paths, over slots of equal width; ``levels`` are scores with a rule across."""
    low, high = _score_range(lines)

    def y(score: float) -> float:
        return round(HIGH * (high - score) / (high - low), 2)

    levels = [0.0, 0.5, 1.0] if low == 0.0 else [low, 0.0, 1.0]
    return {
        "lines": [_paths(line, y) | ({} if bands else {"band": "", "bars": ""}) for line in lines],
        "levels": [{"y": y(level), "text": format_figure(level)} for level in levels],
        "many": len(lines[0].figures) if lines else 0,
    }


def _paths(line: _Line, y: Callable[[float], float]) -> Fields:
    many = len(line.figures)
    segments = list(_segments(line))
    path, band, dots, bars = [], [], [], []
    for segment in segments:
        places = [(round(WIDE * (at + 0.5) / many, 2), figures) for at, figures in segment]
        spots = [f"{x} {y(figures.score or 0.0)}" for x, figures in places]
        path.append("M" + "L".join(spots))
        dots += spots if many <= MOST_DOTS or len(segment) == 1 else []
        for piece in _with_intervals(places):
            if len(piece) == 1:
                x, lower, upper = piece[0]
                bars.append(f"M{x} {y(upper)}V{y(lower)}")
                continue
            above = [f"{x} {y(upper)}" for x, _, upper in piece]
            below = [f"{x} {y(lower)}" for x, lower, _ in reversed(piece)]
            band.append("M" + "L".join([*above, *below]) + "Z")
    ends = [f"{round(WIDE * (at + 0.5) / many, 2)} {y(each.score or 0.0)}" for at, each in _last_of(segments)]
    return {
        "number": line.number,
        "path": "".join(path),
        "band": "".join(band),
        "bars": "".join(bars),
        # A line of no length with round ends is a dot, which stays round however the drawing is stretched.
        "dots": "".join(f"M{spot}h0" for spot in dict.fromkeys([*dots, *ends])),
    }


Placed: TypeAlias = tuple[int, Figures]


def _segments(line: _Line) -> Iterator[list[Placed]]:
    """Give the stretches of a line: it ends before a run that measures something else, or lacks a score.

    A run without this series is passed over.
    """
    segment: list[Placed] = []
    for at, (figures, point) in enumerate(zip(line.figures, line.points, strict=True)):
        if figures is None or point is None:
            continue
        if segment and (point.breaks_line or figures.score is None):
            yield segment
            segment = []
        if figures.score is not None:
            segment.append((at, figures))
    if segment:
        yield segment


def _last_of(segments: Sequence[Sequence[Placed]]) -> Sequence[Placed]:
    return segments[-1][-1:] if segments else []


def _with_intervals(places: Sequence[tuple[float, Figures]]) -> Iterator[list[tuple[float, float, float]]]:
    """Give the stretches of a segment whose points have an interval: how far across, its low and high end."""
    piece: list[tuple[float, float, float]] = []
    for x, figures in places:
        if figures.low is not None and figures.high is not None:
            piece.append((x, figures.low, figures.high))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece

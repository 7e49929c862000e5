"""A suite over time as lines of a terminal: sparklines, what changed on the way, and suspect tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

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

MOST_DRAWN = 24
"""Runs of a series that are drawn, the newest ones: more have no room beside names and figures."""

MOST_ABSENCES = 3
"""Runs that are left out of a series and named, the newest ones."""

MOST_SUSPECTS = 5
INNER = "    "


def trend_lines(trend: Trend, width: int, ascii_only: bool = False) -> Iterator[StyledLine]:
    """Give a table for each series, then the suspects; ``ascii_only`` where blocks cannot be printed."""
    for series in trend.series:
        title, notes = _title(trend.suite, series), list(_absences(series))
        if series.points:
            yield from table_lines(_series_table(title, series, notes, ascii_only), width)
        else:
            yield from wrapped_lines(title, width, "bold", indent="")
            for note in notes:
                yield from wrapped_lines(note, width)
        yield StyledLine("")
    if trend.regraded:
        again = f"{pluralize(len(trend.regraded), 'run')} that graded trials again: no agent was tried"
        yield from wrapped_lines(f"left out: {again}", width, indent="")
    yield from wrapped_lines(f"scale: {ASCII_LEGEND if ascii_only else LEGEND}", width, "dim", indent="")
    yield StyledLine("")
    yield from _suspect_lines(trend, width)
    for problem in trend.odd:
        yield from wrapped_lines(printable(problem), width, "red", indent="")


def _title(suite: str, series: Series) -> str:
    who, note = model_label(series.model, series.variant), f": {series.note}" if series.note else ""
    days = [point.started_at[:10] for point in series.points]
    when = f", {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    drawn = f", the newest {MOST_DRAWN} drawn" if len(series.points) > MOST_DRAWN else ""
    return f"{suite} with {who}{note}: {pluralize(len(series.points), 'run')}{when}{drawn}"


def _absences(series: Series) -> Iterator[str]:
    for absence in series.left_out[-MOST_ABSENCES:]:
        yield f"left out: {printable(absence.run)}: {absence.why}"
    if series.left_out:
        runs = pluralize(len(series.left_out), "run")
        yield f"left out in all: {runs} with less than half of the suite; --last N looks further back"


def _series_table(title: str, series: Series, absences: Sequence[str], ascii_only: bool) -> ReportTable:
    """Give a row for all tasks, for their pass^k and for each bucket; the newest runs are drawn."""
    drawn = series.points[-MOST_DRAWN:]
    first = len(series.points) - len(drawn) + 1
    breaks = {at for at, point in enumerate(drawn) if at and _spoiling(point.changes)}
    # One character for each run: of its number the last digit. The heads are rows of the table too, so that
    # each mark stands right above the character of its run.
    gap = ASCII_GAP if ascii_only else GAP
    heads = {"run": _with_breaks([str((first + at) % 10) for at in range(len(drawn))], breaks)}
    if any(map(_mark, drawn)):
        heads["noted"] = _with_breaks([_mark(point) or gap for point in drawn], breaks)
    names = list(heads)
    cells: list[tuple[str, ...]] = [(line, "", "", "", "") for line in heads.values()]
    for name, scores, rates in _rows(series):
        known = [score for score in scores if score is not None]
        ends = [format_figure(end) for end in ((known[0], known[-1]) if known else (None, None))]
        rate = next((rate for rate in reversed(rates) if rate is not None), None)
        line = sparkline(scores[-MOST_DRAWN:], ascii_only, breaks)
        names.append(one_line(name, MOST_NAME) or NOT_KNOWN)
        cells.append((line, *ends, str(len(known)), format_figure(rate) if rates else ""))
    titles = ("score", "first", "last", "runs", f"pass^{series.k}")
    columns = tuple(
        TableColumn(name, column, spare=int(name == titles[-1]))
        for name, column in zip(titles, zip(*cells, strict=True), strict=True)
    )
    notes = []
    for number, point in enumerate(drawn, start=first):
        texts = [*map(_change_text, point.changes), *([point.incomplete] if point.incomplete else [])]
        if texts:
            notes.append(f"run {number}, {printable(point.run)}: {'; '.join(texts)}")
    all_notes = tuple(map(TableNote, (*notes, *absences)))
    return ReportTable(title, "bucket", tuple(names), (columns,), all_notes)


def _rows(series: Series) -> Iterator[tuple[str, list[float | None], list[float | None]]]:
    """Give a name, its score and its pass^k in every run; buckets only where there are several."""
    totals = [point.total for point in series.points]
    rates = [total.pass_hat_k for total in totals]
    yield "all", [total.score for total in totals], rates
    yield f"all: pass^{series.k}", rates, []
    # In the order of the newest run; buckets that it lacks come last.
    names = dict.fromkeys(name for point in reversed(series.points) for name in point.buckets)
    for name in names if len(names) > 1 else ():
        figures = [point.buckets.get(name, Figures(None, None)) for point in series.points]
        yield name, [each.score for each in figures], [each.pass_hat_k for each in figures]


def sparkline(scores: Sequence[float | None], ascii_only: bool, breaks: Collection[int] = ()) -> str:
    """Draw scores, 0 to 1, one character each; None is a gap, and a bar stands before each of ``breaks``."""
    levels, gap = (TENTHS, ASCII_GAP) if ascii_only else (LEVELS, GAP)
    # A mean on a border may be a hair too low as a float: (0.1 + 0.7) / 2 would fall a step without the 1e-9.
    steps = (None if score is None else int(score * len(levels) + 1e-9) for score in scores)
    marks = [gap if step is None else levels[min(max(step, 0), len(levels) - 1)] for step in steps]
    return _with_breaks(marks, breaks)


def _with_breaks(marks: Sequence[str], breaks: Collection[int]) -> str:
    return "".join(f"{BREAK}{mark}" if at in breaks else mark for at, mark in enumerate(marks))


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


def _suspect_lines(trend: Trend, width: int) -> Iterator[StyledLine]:
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

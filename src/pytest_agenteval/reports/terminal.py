"""A run's view as plain lines for a terminal; whoever prints them gives them colour."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pytest_agenteval.reports.explanations import explain_trial, grade_lines, short_reason
from pytest_agenteval.reports.formatting import format_figure, pluralize, printable, trial_name
from pytest_agenteval.reports.suite_table import suite_table
from pytest_agenteval.reports.tables import table_lines
from pytest_agenteval.reports.text_width import INDENT, Line, Style, clamp_width, wrap
from pytest_agenteval.reports.view import RunView, worst_first
from pytest_agenteval.store.journal_entry import Entry
from pytest_agenteval.store.run_reader import Run


def summary_lines(view: RunView, width: int = 80) -> list[Line]:
    """Give the tables of a run, each with what stands beside its averages, and where the run is kept."""
    width = clamp_width(width)
    lines: list[Line] = []
    for suite in view.suites:
        lines += [*table_lines(suite_table(suite), width), Line("")]
    lines += [Line(piece, "red") for odd in view.odd for piece in wrap(printable(odd), width)]
    lines += [Line(piece, "yellow") for warning in view.warnings for piece in wrap(warning, width)]
    return [*lines, Line(f"run: {printable(view.path)}")]


def miss_lines(
    run: Run,
    limit: int | None = None,
    width: int = 80,
    endings: Collection[str] = ("failed", "missed", "errored"),
) -> list[Line]:
    """Give the trials that did not pass, worst first, with all that is to be said of each.

    Without a limit every trial is told; with one, so many tasks, each by its worst repetition.
    """
    found = [entry for entry in worst_first(run.entries) if entry.ending in endings]
    if limit is None:
        return [line for entry in found for line in _miss(run, entry, width)]
    worst = {entry.key._replace(repetition=0): entry for entry in reversed(found)}
    tasks = list(worst.values())[::-1]
    lines = [line for entry in tasks[:limit] for line in _miss(run, entry, width)]
    left = len(tasks) - limit
    return [*lines, Line(f"and {pluralize(left, 'more task')}", "dim")] if left > 0 else lines


def _miss(run: Run, entry: Entry, width: int) -> Iterator[Line]:
    word = "ERROR" if entry.ending == "errored" else f"{entry.ending.upper()} {format_figure(entry.score)}"
    style: Style = "yellow" if entry.ending == "missed" else "red"
    yield from (Line(piece, style) for piece in wrap(f"{word}  {trial_name(entry.key)}", width))
    trial = run.trial_if_readable(entry)
    said = explain_trial(trial, width - len(INDENT)) if trial else [short_reason(entry), *grade_lines(entry)]
    # The first line says in brief what the others say at length, but for a trial that broke.
    for_short = entry.ending == "errored"
    yield from (Line(piece) for line in said[0 if for_short else 1 :] for piece in wrap(INDENT + line, width))

"""A run's view as plain lines for a terminal; whoever prints them gives them colour."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pytest_agenteval.reports.explanations import explain_trial, grade_lines, short_reason
from pytest_agenteval.reports.formatting import format_figure, pluralize, printable, trial_name
from pytest_agenteval.reports.suite_table import suite_table
from pytest_agenteval.reports.tables import table_lines
from pytest_agenteval.reports.text_width import INDENT, Style, StyledLine, clamp_width, wrap
from pytest_agenteval.reports.view import RunView, worst_first
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run


def summary_lines(view: RunView, width: int = 80) -> list[StyledLine]:
    """Give the tables of a run, each with what stands beside its averages, and where the run is kept."""
    width = clamp_width(width)
    lines: list[StyledLine] = []
    for suite in view.suites:
        lines += [*table_lines(suite_table(suite), width), StyledLine("")]
    lines += [StyledLine(piece, "red") for odd in view.odd for piece in wrap(printable(odd), width)]
    lines += [StyledLine(piece, "yellow") for warning in view.warnings for piece in wrap(warning, width)]
    return [*lines, StyledLine(f"run: {printable(view.path)}")]


def miss_lines(
    run: Run,
    limit: int | None = None,
    width: int = 80,
    endings: Collection[str] = ("failed", "missed", "errored"),
) -> list[StyledLine]:
    """Give the trials that did not pass, worst first, with all that is to be said of each.

    Without a limit every trial is told; with one, so many tasks, each by its worst repetition.
    """
    not_passed = [entry for entry in worst_first(run.entries) if entry.ending in endings]
    if limit is None:
        return [line for entry in not_passed for line in _miss(run, entry, width)]
    # Reversed, so that of a task's repetitions the worst is the last to take its place.
    worst = {entry.key._replace(repetition=0): entry for entry in reversed(not_passed)}
    tasks = list(worst.values())[::-1]
    lines = [line for entry in tasks[:limit] for line in _miss(run, entry, width)]
    left = len(tasks) - limit
    return [*lines, StyledLine(f"and {pluralize(left, 'more task')}", "dim")] if left > 0 else lines


def _miss(run: Run, entry: JournalEntry, width: int) -> Iterator[StyledLine]:
    word = "ERROR" if entry.ending == "errored" else f"{entry.ending.upper()} {format_figure(entry.score)}"
    style: Style = "yellow" if entry.ending == "missed" else "red"
    yield from (StyledLine(piece, style) for piece in wrap(f"{word}  {trial_name(entry.key)}", width))
    trial = run.trial_if_readable(entry)
    lines = explain_trial(trial, width - len(INDENT)) if trial else [short_reason(entry), *grade_lines(entry)]
    if entry.ending != "errored":  # the first line says in brief what the others say at length
        lines = lines[1:]
    yield from (StyledLine(piece) for line in lines for piece in wrap(INDENT + line, width))

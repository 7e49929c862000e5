"""A run's view as plain lines for a terminal, and as Markdown for a GitHub job summary.

Whoever prints the lines gives them colour.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from pytest_agenteval.reports.explanations import explain_trial, grade_lines, short_reason
from pytest_agenteval.reports.formatting import (
    escape_markdown,
    format_figure,
    pluralize,
    printable,
    trial_name,
)
from pytest_agenteval.reports.suite_table import suite_table
from pytest_agenteval.reports.tables import table_lines, table_markdown
from pytest_agenteval.reports.text_width import INDENT, Style, StyledLine, clamp_width, wrap
from pytest_agenteval.reports.view import Miss, RunView, worst_first
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run

MOST_MISSES = 50
MOST_TRACEBACK_LINES = 8
MOST_BYTES = 1_000_000
"""GitHub drops a summary of more than 1 MiB as a whole."""


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
        return [line for entry in not_passed for line in _miss_block(run, entry, width)]
    # Reversed, so that of a task's repetitions the worst is the last to take its place.
    worst = {entry.key._replace(repetition=0): entry for entry in reversed(not_passed)}
    tasks = list(worst.values())[::-1]
    lines = [line for entry in tasks[:limit] for line in _miss_block(run, entry, width)]
    left = len(tasks) - limit
    return [*lines, StyledLine(f"and {pluralize(left, 'more task')}", "dim")] if left > 0 else lines


def _miss_block(run: Run, entry: JournalEntry, width: int) -> Iterator[StyledLine]:
    word = "ERROR" if entry.ending == "errored" else f"{entry.ending.upper()} {format_figure(entry.score)}"
    style: Style = "yellow" if entry.ending == "missed" else "red"
    yield from (StyledLine(piece, style) for piece in wrap(f"{word}  {trial_name(entry.key)}", width))
    trial = run.trial_if_readable(entry)
    lines = explain_trial(trial, width - len(INDENT)) if trial else [short_reason(entry), *grade_lines(entry)]
    if entry.ending != "errored":  # the first line says in brief what the others say at length
        lines = lines[1:]
    yield from (StyledLine(piece) for line in lines for piece in wrap(INDENT + line, width))


def summary_markdown(view: RunView) -> str:
    """Give the tables of a run, its notes, and its misses folded away."""
    parts = ["## Agent evals", *(table_markdown(suite_table(suite)) for suite in view.suites)]
    notes = (*view.odd, *view.warnings, *view.notes)
    if notes:
        parts.append("\n".join(f"- {escape_markdown(note)}" for note in notes))
    if view.misses:
        parts.append(_folded_misses(view.misses))
    parts.append(f"run: {escape_markdown(view.path)}")
    return "\n\n".join(parts) + "\n"


def append_summary(path: Path, text: str) -> None:
    """Add a text to a summary file, unless GitHub would then drop the whole of it."""
    present = path.stat().st_size if path.exists() else 0
    if present + len(text.encode()) > MOST_BYTES:
        text = "\nThe summary of the agent evals is left out: it is longer than GitHub takes.\n"
    with path.open("a", encoding="utf-8", newline="\n") as summary:
        summary.write(text)


def code_block(lines: Iterable[str]) -> str:
    """Put lines into a summary as they are, in columns; nothing in them can end the block."""
    return "\n```text\n" + "\n".join(line.replace("`", "'") for line in lines) + "\n```\n"


def _folded_misses(misses: tuple[Miss, ...]) -> str:
    head = f"<details><summary>{pluralize(len(misses), 'trial')} not passed</summary>"
    lines = [_miss_item(miss) for miss in misses[:MOST_MISSES]]
    left = len(misses) - MOST_MISSES
    more = [f"- and {left} more"] if left > 0 else []
    return "\n".join([head, "", *lines, *more, "", "</details>"])


def _miss_item(miss: Miss) -> str:
    word = "ERROR" if miss.ending == "errored" else f"{miss.ending.upper()} {format_figure(miss.score)}"
    line = f"- **{word}** {escape_markdown(trial_name(miss.key))}: {escape_markdown(miss.reason)}"
    if not miss.traceback:
        return line
    last = code_block(printable(miss.traceback).splitlines()[-MOST_TRACEBACK_LINES:])
    return line + "\n" + "\n".join(f"  {line}" if line else "" for line in last.splitlines())

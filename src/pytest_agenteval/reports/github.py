"""A run's view as Markdown for a GitHub job summary."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_agenteval.reports.formatting import (
    escape_markdown,
    format_figure,
    pluralize,
    printable,
    trial_name,
)
from pytest_agenteval.reports.suite_table import suite_table
from pytest_agenteval.reports.tables import table_markdown
from pytest_agenteval.reports.view import Miss, RunView

MOST_MISSES = 50
MOST_TRACEBACK_LINES = 8
MOST_BYTES = 1_000_000
"""GitHub drops a summary of more than 1 MiB as a whole."""


def summary_markdown(view: RunView) -> str:
    """Give the tables of a run, its notes, and its misses folded away."""
    parts = ["## Agent evals", *(table_markdown(suite_table(suite)) for suite in view.suites)]
    notes = (*view.odd, *view.warnings, *view.notes)
    if notes:
        parts.append("\n".join(f"- {escape_markdown(note)}" for note in notes))
    if view.misses:
        parts.append(_misses(view.misses))
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


def _misses(misses: tuple[Miss, ...]) -> str:
    head = f"<details><summary>{pluralize(len(misses), 'trial')} not passed</summary>"
    lines = [_miss(miss) for miss in misses[:MOST_MISSES]]
    left = len(misses) - MOST_MISSES
    more = [f"- and {left} more"] if left > 0 else []
    return "\n".join([head, "", *lines, *more, "", "</details>"])


def _miss(miss: Miss) -> str:
    word = "ERROR" if miss.ending == "errored" else f"{miss.ending.upper()} {format_figure(miss.score)}"
    line = f"- **{word}** {escape_markdown(trial_name(miss.key))}: {escape_markdown(miss.reason)}"
    if not miss.traceback:
        return line
    last = code_block(printable(miss.traceback).splitlines()[-MOST_TRACEBACK_LINES:])
    return line + "\n" + "\n".join(f"  {line}" if line else "" for line in last.splitlines())

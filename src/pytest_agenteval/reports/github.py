"""A run's view as Markdown for a GitHub job summary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_agenteval.reports.remarks import caveats, remarks
from pytest_agenteval.reports.table import columns_of, rows_of
from pytest_agenteval.reports.view import Miss, RunView, SuiteView
from pytest_agenteval.reports.wording import NOT_KNOWN, counted, figure, one_line, safe, trial_name

MOST_MISSES = 50
MOST_TEXT = 300
MOST_TRACEBACK_LINES = 8
MOST_BYTES = 1_000_000
"""GitHub drops a summary of more than 1 MiB as a whole."""

_MARKUP = re.compile(r"([\\`*_{}\[\]|~#$!])")


def summary_markdown(view: RunView) -> str:
    """Give the tables of a run, its notes, and its misses folded away."""
    parts = ["## Agent evals", *(_suite(suite) for suite in view.suites)]
    said = (*view.odd, *view.warnings, *view.notes)
    if said:
        parts.append("\n".join(f"- {escaped(note)}" for note in said))
    if view.misses:
        parts.append(_misses(view.misses))
    parts.append(f"run: {escaped(view.path)}")
    return "\n\n".join(parts) + "\n"


def append_summary(path: Path, text: str) -> None:
    """Add a text to a summary file, unless GitHub would then drop the whole of it."""
    present = path.stat().st_size if path.exists() else 0
    if present + len(text.encode()) > MOST_BYTES:
        text = "\nThe summary of the agent evals is left out: it is longer than GitHub takes.\n"
    with path.open("a", encoding="utf-8", newline="\n") as summary:
        summary.write(text)


def verbatim(lines: Iterable[str]) -> str:
    """Put lines into a summary as they are, in columns; nothing in them can end the block."""
    return "\n```text\n" + "\n".join(line.replace("`", "'") for line in lines) + "\n```\n"


def escaped(text: str) -> str:
    """Put foreign text on one line in which Markdown and HTML find nothing to act on."""
    line = one_line(text, MOST_TEXT).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\1", line)


def _suite(suite: SuiteView) -> str:
    note = f": {escaped(suite.note)}" if suite.note else ""
    title = f"### {escaped(suite.suite)} with {escaped(suite.who)}{note} ({suite.kind})"
    said = "\n".join(f"- {escaped(remark.text)}" for remark in remarks(suite))
    return "\n\n".join([title, *map(escaped, caveats(suite)), "\n".join(_table(suite)), said])


def _table(suite: SuiteView) -> Iterator[str]:
    columns = columns_of(suite.total.k)
    yield _row(["bucket", *(escaped(column.title) for column in columns)])
    yield _row(["---", *("---:" for _ in columns)])
    for row in rows_of(suite):
        yield _row([escaped(row.name) or NOT_KNOWN, *(escaped(column.cell(row)) for column in columns)])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _misses(misses: tuple[Miss, ...]) -> str:
    head = f"<details><summary>{counted(len(misses), 'trial')} not passed</summary>"
    lines = [_miss(miss) for miss in misses[:MOST_MISSES]]
    left = len(misses) - MOST_MISSES
    more = [f"- and {left} more"] if left > 0 else []
    return "\n".join([head, "", *lines, *more, "", "</details>"])


def _miss(miss: Miss) -> str:
    word = "ERROR" if miss.ending == "errored" else f"{miss.ending.upper()} {figure(miss.score)}"
    said = f"- **{word}** {escaped(trial_name(miss.key))}: {escaped(miss.reason)}"
    if not miss.traceback:
        return said
    last = verbatim(safe(miss.traceback).splitlines()[-MOST_TRACEBACK_LINES:])
    return said + "\n" + "\n".join(f"  {line}" if line else "" for line in last.splitlines())

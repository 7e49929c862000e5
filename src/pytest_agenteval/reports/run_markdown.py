"""A run in Markdown, for a GitHub job's summary: what its screen says; all buckets and misses folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.reports.doubts import doubts
from pytest_agenteval.reports.suite_rows import remarks_on_all, suite_columns
from pytest_agenteval.reports.suite_table import suite_table
from pytest_agenteval.reports.tables import markdown_rows, table_markdown
from pytest_agenteval.reports.view import Miss, RunView
from pytest_agenteval.reports.worst_buckets import WorstBuckets, worst_buckets
from pytest_agenteval.text.formatting import StyledLine, escape_markdown, format_figure, pluralize, printable
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

MOST_MISSES = 50
MOST_TRACEBACK_LINES = 8
MOST_BYTES = 1_000_000
"""GitHub drops a summary of more than 1 MiB as a whole."""


def summary_markdown(
    view: RunView,
    headline: Sequence[StyledLine] = (),
    totals: Sequence[StyledLine] = (),
    footer: Sequence[StyledLine] = (),
) -> str:
    """Give a run as its screen does: suites, worst buckets and doubts; all tables and misses folded away.

    ``headline`` is a comparison's verdict, ``totals`` what benchmarks make of suites, ``footer`` the gates:
    a paragraph for each line.
    """
    parts = ["## Agent evals", *_paragraphs(headline), _suites(view)]
    parts += [*map(escape_markdown, filter(None, remarks_on_all(view))), *_paragraphs(totals)]
    parts += [_buckets(suite) for suite in worst_buckets(view)]
    if notes := [f"- {escape_markdown(note.text)}" for note in doubts(view)]:
        parts.append("\n".join(notes))
    parts += _paragraphs(footer)
    if view.suites:
        tables = "\n\n".join(table_markdown(suite_table(suite)) for suite in view.suites)
        parts.append(_folded("all buckets", tables))
    if view.misses:
        parts.append(_folded(f"{pluralize(len(view.misses), 'trial')} not passed", _misses(view.misses)))
    parts.append(f"run: {escape_markdown(view.path)}")
    return "\n\n".join(parts) + "\n"


def _paragraphs(lines: Sequence[StyledLine]) -> list[str]:
    return [escape_markdown(line.text) for line in lines]


def _suites(view: RunView) -> str:
    columns = suite_columns(view)
    names = [view.label(suite) for suite in view.suites]
    rows = [[name, *(column.cells[at] for column in columns)] for at, name in enumerate(names)]
    return markdown_rows([["suite", *(column.title for column in columns)], *rows])


def _buckets(suite: WorstBuckets) -> str:
    rows = [[name, row.score, row.interval, row.passed] for row in suite.rows for name in row.names]
    table = markdown_rows([[suite.title, "score", "95 %", "tasks passed"], *rows])
    return f"{table}\n\n{suite.more} more with misses" if suite.more else table


def _folded(head: str, body: str) -> str:
    return f"<details><summary>{head}</summary>\n\n{body}\n\n</details>"


def append_summary(path: Path, text: str) -> str:
    """Add a text to a summary file, unless GitHub would then drop the whole of it.

    Gives a sentence where the file cannot be written, which spoils nothing else; else an empty text.
    """
    text = KNOWN_SECRETS.text(text)  # a run may be older than what is known of secrets now
    try:
        present = path.stat().st_size if path.exists() else 0
        if present + len(text.encode()) > MOST_BYTES:
            text = "\nThe summary of the agent evals is left out: it is longer than GitHub takes.\n"
        with path.open("a", encoding="utf-8", newline="\n") as summary:
            summary.write(text)
    except OSError as refused:
        return f"the job's summary {path} cannot be written: {refused.strerror or refused}"
    return ""


def code_block(lines: Iterable[str]) -> str:
    """Put lines into a summary as they are, in columns; nothing in them can end the block."""
    return "\n```text\n" + "\n".join(line.replace("`", "'") for line in lines) + "\n```\n"


def _misses(misses: Sequence[Miss]) -> str:
    left = len(misses) - MOST_MISSES
    more = [f"- and {left} more"] if left > 0 else []
    return "\n".join([*map(_miss_item, misses[:MOST_MISSES]), *more])


def _miss_item(miss: Miss) -> str:
    word = "ERROR" if miss.ending == "errored" else f"{miss.ending.upper()} {format_figure(miss.score)}"
    line = f"- **{word}** {escape_markdown(trial_name(miss.key))}: {escape_markdown(miss.reason)}"
    if not miss.traceback:
        return line
    last = code_block(printable(miss.traceback).splitlines()[-MOST_TRACEBACK_LINES:])
    return line + "\n" + "\n".join(f"  {line}" if line else "" for line in last.splitlines())

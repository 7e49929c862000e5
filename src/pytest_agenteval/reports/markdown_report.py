"""Runs as Markdown, for a pull request, a job's summary or a page of documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.reports.comparison_report import comparison_markdown
from pytest_agenteval.reports.leaderboard import (
    Leaderboard,
    leaderboard_tables,
    leaderboards_of,
    scorecard_tables,
)
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.run_view import Miss, RunView, view_of
from pytest_agenteval.reports.run_warnings import run_warnings
from pytest_agenteval.reports.suite_tables import (
    WorstBuckets,
    remarks_on_all,
    suite_columns,
    suite_table,
    worst_buckets,
)
from pytest_agenteval.reports.tables import (
    ReportTable,
    folded_markdown,
    markdown_rows,
    table_markdown,
)
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.text.formatting import StyledLine, ending_word, escape_markdown, pluralize, printable
from pytest_agenteval.text.redaction import KNOWN_SECRETS

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
    columns = suite_columns(view)
    names = [view.label(suite) for suite in view.suites]
    rows = [[name, *(column.cells[at] for column in columns)] for at, name in enumerate(names)]
    parts = [
        "## Agent evals",
        *_paragraphs(headline),
        markdown_rows([["suite", *(column.title for column in columns)], *rows]),
    ]
    parts += [*map(escape_markdown, filter(None, remarks_on_all(view))), *_paragraphs(totals)]
    parts += [_buckets(suite) for suite in worst_buckets(view)]
    if notes := [f"- {escape_markdown(note.text)}" for note in run_warnings(view)]:
        parts.append("\n".join(notes))
    parts += _paragraphs(footer)
    if view.suites:
        tables = "\n\n".join(table_markdown(suite_table(suite)) for suite in view.suites)
        parts.append(folded_markdown("all buckets", tables))
    if view.misses:
        head = f"{pluralize(len(view.misses), 'trial')} not passed"
        left = len(view.misses) - MOST_MISSES
        more = [f"- and {left} more"] if left > 0 else []
        parts.append(folded_markdown(head, "\n".join([*map(_miss_item, view.misses[:MOST_MISSES]), *more])))
    parts.append(f"run: {escape_markdown(view.path)}")
    return "\n\n".join(parts) + "\n"


def _paragraphs(lines: Sequence[StyledLine]) -> list[str]:
    return [escape_markdown(line.text) for line in lines]


def _buckets(suite: WorstBuckets) -> str:
    rows = [[name, row.score, row.interval, row.passed] for row in suite.rows for name in row.names]
    table = markdown_rows([[suite.title, "score", "95 %", "tasks passed"], *rows])
    return f"{table}\n\n{suite.more} more with misses" if suite.more else table


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


def _miss_item(miss: Miss) -> str:
    word = ending_word(miss.ending, miss.score)
    line = f"- **{word}** {escape_markdown(trial_name(miss.key))}: {escape_markdown(miss.reason)}"
    if not miss.traceback:
        return line
    last = code_block(printable(miss.traceback).splitlines()[-MOST_TRACEBACK_LINES:])
    return line + "\n" + "\n".join(f"  {line}" if line else "" for line in last.splitlines())


def write_markdown(path: Path, source: ReportSource) -> None:
    """Write the tables of runs as Markdown."""
    replace_text(path, KNOWN_SECRETS.text(report_markdown(source)))


def report_markdown(source: ReportSource) -> str:
    """Give one run with its tables; two as what became of each suite; more side by side."""
    runs, comparison = source.all_runs, source.comparison
    parts = [comparison_markdown(comparison)] if comparison else []
    if len(source.runs) == 1 and (comparison is None or source.old_run is None):
        parts.append(summary_markdown(view_of(source.runs[0])))
    boards = boards_beside(leaderboards_of(runs, source.scorecards), source)
    return "\n".join([*parts, *(f"{table_markdown(table)}\n" for table in _tables(boards, len(runs)))])


def boards_beside(boards: Sequence[Leaderboard], source: ReportSource) -> list[Leaderboard]:
    """Give the boards to draw: a suite that is compared needs none, unless a benchmark has more to say."""
    compared = {suite.name for suite in source.comparison.suites} if source.comparison else set()
    return [board for board in boards if board.suite not in compared or board.has_scorecard]


def _tables(boards: Sequence[Leaderboard], runs: int) -> Iterator[ReportTable]:
    """Give the scorecard of each model of a single run; a board wherever there is more than one standing."""
    for board in boards:
        if runs == 1:
            for standing in board.standings:
                if standing.scorecard:
                    yield from scorecard_tables(standing, standing.scorecard)
        if runs > 1 or (board.has_scorecard and len(board.standings) > 1):
            yield from leaderboard_tables(board)

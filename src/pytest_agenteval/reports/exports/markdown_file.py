"""Runs as Markdown, for a pull request, a job's summary or a page of documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_agenteval.reports.comparison.documents import comparison_markdown
from pytest_agenteval.reports.leaderboard.board_tables import leaderboard_tables
from pytest_agenteval.reports.leaderboard.scorecard_tables import scorecard_tables
from pytest_agenteval.reports.leaderboard.standings import Leaderboard, leaderboards_of
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.run_markdown import summary_markdown
from pytest_agenteval.reports.tables import ReportTable, table_markdown
from pytest_agenteval.reports.view import view_of
from pytest_agenteval.store.file_writing import replace_text
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS


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

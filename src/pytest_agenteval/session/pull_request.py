"""What a run leaves for whoever reviews a change: a comment for its pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_agenteval.reports.github_report import comment_markdown
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.reports.task_lines import TaskFileLines
from pytest_agenteval.session.stash import verdict_key
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import StyledLine


def write_comment(path: Path, config: pytest.Config, run: Run, totals: Sequence[StyledLine]) -> Iterator[str]:
    """Write a run's comment into a file; gives a sentence where that cannot be done."""
    verdict = config.stash.get(verdict_key, None)
    comparison, lines = (verdict.comparison, verdict.lines) if verdict is not None else (None, ())
    remarks = [*lines, *(line.text for line in totals)]
    text = comment_markdown(run, view_of(run), TaskFileLines(config.rootpath), comparison, remarks)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as refused:
        yield f"the comment {path} cannot be written: {refused.strerror or refused}"

"""A table of rows that was named in the place of the suite whose tasks they are."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_agenteval.session.eval_session import EvalSession
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import ProblemsFound


class TableFile(pytest.File):
    """Says which file is to be named: rows are collected with their suite, which says what they mean."""

    suite_file: Path

    def collect(self) -> Iterable[pytest.Item]:
        """Raise what to type in its place."""
        table, suite = short_path(self.path), short_path(self.suite_file)
        raise self.CollectError(f"the rows of {table} are tasks of {suite}: pytest {shlex.quote(suite)}")


def table_file(evals: EvalSession, path: Path, parent: pytest.Collector) -> TableFile | None:
    """Give the collector of a table; None for a file that is none of its suite's."""
    loaded, suite_file = evals.planner.suites.suite_of(path), evals.planner.suites.file_of(path.parent)
    if isinstance(loaded, ProblemsFound) or loaded.suite is None or suite_file is None:
        return None
    if not loaded.suite.tasks:
        return None
    from pytest_agenteval.tasks.rows.row_tasks import rows_path, source_of

    tables = (rows_path(source_of(rows), suite_file.parent) for rows in loaded.suite.tables)
    if path not in tables:
        return None
    file: TableFile = TableFile.from_parent(parent, path=path)
    file.suite_file = suite_file
    return file

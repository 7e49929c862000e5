"""What is wrong with the rows of tables, in the order in which they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_agenteval.text.errors import Problem, ProblemsFound

MOST_PROBLEMS = 20
"""Rows whose problems are told one by one; of the others there is their number."""


class RowProblems:
    """All that is wrong with rows, whoever finds it: their shape, their cells, or the tasks they make."""

    def __init__(self) -> None:
        self.rows = 0
        self._problems: list[Problem] = []

    def add(self, problems: Iterable[Problem]) -> None:
        """Add what is wrong with one row, if anything is."""
        found = list(problems)
        self.rows += bool(found)
        if self.rows <= MOST_PROBLEMS:
            self._problems += found

    def raise_any(self) -> None:
        """Raise ProblemsFound if there are any: what all rows share once, the rest in the order of lines."""
        if self._problems:
            raise ProblemsFound(self._in_order())

    def _in_order(self) -> Iterator[Problem]:
        once = list(dict.fromkeys(self._problems))
        files = list(dict.fromkeys(problem.file for problem in once))
        yield from sorted(once, key=lambda problem: (files.index(problem.file), problem.line or 0))
        if (more := self.rows - MOST_PROBLEMS) > 0:
            found = f"{more} more rows with problems"
            yield Problem(once[-1].file, None, (), "rows without problems", found)

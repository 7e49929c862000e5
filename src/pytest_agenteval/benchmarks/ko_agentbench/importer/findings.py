"""What an import came upon: oddities of the data, and everything that was not taken over as it stood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pytest_agenteval.records.record import FrozenValue

What = Literal["oddity", "change"]


class Finding(FrozenValue, frozen=True):
    """One thing worth knowing about a task; a ``change`` is one that the import made because of it."""

    task: str
    text: str
    what: What = "oddity"

    def __str__(self) -> str:
        return f"- {self.task}: {self.text}"


def changes(findings: Iterable[Finding]) -> list[Finding]:
    """Give the findings that changed something."""
    return [one for one in findings if one.what == "change"]


def oddities(findings: Iterable[Finding]) -> list[Finding]:
    """Give the findings that changed nothing."""
    return [one for one in findings if one.what == "oddity"]


def section(title: str, rows: Sequence[object], otherwise: str) -> list[str]:
    """Write a section of a Markdown page; one line says so where there is nothing to list."""
    return [f"## {title}", "", *(map(str, rows) if rows else [otherwise]), ""]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Write a Markdown table."""
    lines = [_row(head), _row(["---"] * len(head))]
    return [*lines, *(_row([str(cell) for cell in row]) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

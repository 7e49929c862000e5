"""The table of a run that is planned: what would be run, and what it would take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pytest_agenteval.reports.tables import ReportTable, TableColumn, TableNote
from pytest_agenteval.text.formatting import MOST_NAME, NOT_KNOWN, one_line

UNKNOWN = "?"
"""Stands for what nobody knows, which is never 0."""


class PlanRow(NamedTuple):
    """What is planned of one suite with one model and variant; amounts are from, to, None for unknown.

    ``held_back`` of ``trials`` are made only where the others decide nothing. ``unknown_tokens`` and
    ``unknown_usd`` say that there is more than the amount, and nobody knows how much.
    """

    name: str
    trials: int
    held_back: int
    reused: int
    regraded: int
    tokens: tuple[float, float] | None
    usd: tuple[float, float] | None
    unknown_tokens: bool = False
    unknown_usd: bool = False

    @property
    def to_run(self) -> int:
        """How many trials an agent acts in."""
        return self.trials - self.reused - self.regraded


def plan_table(rows: Sequence[PlanRow], notes: Sequence[TableNote]) -> ReportTable:
    """Give the table, with a line of all together where there are several; columns of zeros are left out."""
    lines = [*rows, total_row(rows)] if len(rows) > 1 else list(rows)
    columns = [TableColumn("trials", tuple(_trials(row) for row in lines))]
    if any(row.reused or row.regraded for row in rows):
        columns += [
            TableColumn("reused", tuple(f"{row.reused:,}" for row in lines), spare=2),
            TableColumn("regraded", tuple(f"{row.regraded:,}" for row in lines), spare=1),
            TableColumn("to run", tuple(f"{row.to_run:,}" for row in lines)),
        ]
    columns += [
        TableColumn("tokens", tuple(_cell(_tokens(row.tokens), more=row.unknown_tokens) for row in lines)),
        TableColumn("cost", tuple(_cell(_dollars(row.usd), more=row.unknown_usd) for row in lines)),
    ]
    names = tuple(one_line(row.name, MOST_NAME) or NOT_KNOWN for row in lines)
    return ReportTable(
        "what would be run", "suite", names, (tuple(columns),), tuple(notes), names_beside=True
    )


def total_row(rows: Sequence[PlanRow]) -> PlanRow:
    """Add rows up; what is unknown of one is unknown of all, beside what is known."""
    tokens, usd = [row.tokens for row in rows], [row.usd for row in rows]
    return PlanRow(
        "total",
        sum(row.trials for row in rows),
        sum(row.held_back for row in rows),
        sum(row.reused for row in rows),
        sum(row.regraded for row in rows),
        _sum(tokens),
        _sum(usd),
        None in tokens or any(row.unknown_tokens for row in rows),
        None in usd or any(row.unknown_usd for row in rows),
    )


def _sum(amounts: Sequence[tuple[float, float] | None]) -> tuple[float, float] | None:
    known = [amount for amount in amounts if amount is not None]
    low, high = sum((low for low, _ in known), 0.0), sum((high for _, high in known), 0.0)
    return None if None in amounts and not (low or high) else (low, high)


def _trials(row: PlanRow) -> str:
    least = row.trials - row.held_back
    return f"{least:,}-{row.trials:,}" if row.held_back else f"{row.trials:,}"


def _cell(text: str, *, more: bool) -> str:
    return f"{text} + {UNKNOWN}" if more and text != UNKNOWN else text


def _tokens(amount: tuple[float, float] | None) -> str:
    return UNKNOWN if amount is None else _range(*map(_short, amount))


def _dollars(amount: tuple[float, float] | None) -> str:
    return UNKNOWN if amount is None else f"${_range(*map(_money, amount))}"


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low}-{high}"


def _short(tokens: float) -> str:
    """Write a number of tokens in few letters: ``840``, ``12k``, ``3.4M``."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= size * 0.9995:
            shown = tokens / size
            return f"{shown:.1f}{letter}" if shown < 9.95 else f"{shown:,.0f}{letter}"
    return f"{tokens:.0f}"


def _money(usd: float) -> str:
    """Write US dollars in few letters, and never 0 for what costs something."""
    if not usd:
        return "0"
    if usd >= 100:
        return f"{usd:,.0f}"
    return f"{usd:.2f}" if usd >= 0.095 else f"{usd:.1g}" if usd < 0.001 else f"{usd:.3f}"

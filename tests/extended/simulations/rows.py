"""A figure of a simulation beside its goal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

PATIENCE = 3.0
"""Standard errors by which a figure may miss its goal, for it was drawn and scatters."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure beside its goal.

    ``error`` is the figure's own standard error, which comes from having simulated no more often: 0 where
    nothing was drawn.
    """

    what: str
    figure: float
    relation: Literal[">=", "<="]
    goal: float
    error: float = 0.0
    note: str = ""

    def holds(self, patience: float = PATIENCE) -> bool:
        """Whether the goal is reached, or missed by no more than ``patience`` standard errors."""
        short = self.goal - self.figure if self.relation == ">=" else self.figure - self.goal
        return short <= patience * self.error


def share_row(
    what: str, hits: int, times: int, relation: Literal[">=", "<="], goal: float, note: str = ""
) -> Row:
    """Give the row of a share 0..1, with its binomial standard error (at the goal, where it decides)."""
    return Row(what, hits / times, relation, goal, math.sqrt(goal * (1 - goal) / times), note)


def worst_rows(
    what: str, hits: Mapping[str, int], times: int, relation: Literal[">=", "<="], goal: float
) -> Iterator[Row]:
    """Give the row of the worst of several cells, which its note names, and of each other that is missed."""
    ranked = sorted(hits, key=lambda cell: hits[cell], reverse=relation == "<=")
    mean = sum(hits.values()) / times / len(hits)
    for cell in ranked:
        note = f"{cell}; mean of {len(hits)}: {mean:.4f}" if cell == ranked[0] else cell
        row = share_row(what, hits[cell], times, relation, goal, note)
        if cell == ranked[0] or not row.holds():
            yield row

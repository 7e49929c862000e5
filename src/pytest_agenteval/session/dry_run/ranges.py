"""Ranges of what trials take: from what such trials took before, else from how large their tasks are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

SCATTER = 0.5
"""The standard deviation of one task's trials, as a share of their mean, where too few say what it is."""
ENOUGH = 5
"""Repetitions beyond each task's first, from which on they say it themselves."""
SPREAD = 2.0
"""Standard deviations to both sides: of twenty such runs nineteen are within."""


class Range(NamedTuple):
    """From what to what an amount is."""

    low: float
    high: float

    def __add__(self, other: object) -> Range:
        """Add two amounts, of which each may be at either of its ends."""
        if not isinstance(other, Range):
            return NotImplemented
        return Range(self.low + other.low, self.high + other.high)

    def times(self, number: int) -> Range:
        """Give the amount of so many."""
        return Range(self.low * number, self.high * number)


ZERO = Range(0.0, 0.0)


class TaskHistory(NamedTuple):
    """What each trial of a task took before, and how many are to be made."""

    amounts: Sequence[float]
    trials: int

    @property
    def mean(self) -> float:
        """What one took on the average."""
        return sum(self.amounts) / len(self.amounts)


def predicted(tasks: Iterable[TaskHistory]) -> Range:
    """Give what all these trials will take: that of new trials, of means that few have told.

    Amounts spread as logarithms do, so the range is one of factors.
    """
    known = [task for task in tasks if task.trials and task.amounts]
    total = sum(task.mean * task.trials for task in known)
    if not total:
        return ZERO
    share = scatter(known)
    variance = sum(
        (share * task.mean) ** 2 * (task.trials**2 / len(task.amounts) + task.trials) for task in known
    )
    deviation = math.sqrt(math.log1p(variance / total**2))
    return Range(total * math.exp(-SPREAD * deviation), total * math.exp(SPREAD * deviation))


def scatter(tasks: Sequence[TaskHistory]) -> float:
    """Give how far trials of one task lie apart, as a share of their mean."""
    repeated = [task for task in tasks if len(task.amounts) > 1 and task.mean]
    freedom = sum(len(task.amounts) - 1 for task in repeated)
    if freedom < ENOUGH:
        return SCATTER
    squares = sum((amount / task.mean - 1) ** 2 for task in repeated for amount in task.amounts)
    return math.sqrt(squares / freedom)

"""One figure of a program, round by round."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Series:
    """A figure of each round; or, where there is none, why.

    Series are taken from and divided by one another round by round: what slows the machine down for a
    while then falls on both sides.
    """

    values: tuple[float, ...] = ()
    absent: str = ""

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    def __sub__(self, other: Series | float) -> Series:
        return self._with(other, operator.sub)

    def __truediv__(self, other: Series | float) -> Series:
        return self._with(other, operator.truediv)

    def __mul__(self, other: Series | float) -> Series:
        return self._with(other, operator.mul)

    def _with(self, other: Series | float, apply: Callable[[float, float], float]) -> Series:
        if not isinstance(other, Series):
            other = Series((other,) * len(self.values))
        if absent := self.absent or other.absent:
            return Series(absent=absent)
        return Series(tuple(map(apply, self.values, other.values)))

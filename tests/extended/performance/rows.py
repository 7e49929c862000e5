"""Figures round by round, and the rows of the table: what they were made of, their goal, whether it holds."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace


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


TITLES = ("what", "ours", "beside", "figure", "lowest to highest", "goal", "holds")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; ``absent`` says why there is none."""

    what: str
    figure: float = 0.0
    unit: str = ""
    goal: float | None = None
    ours: str = ""
    beside: str = ""
    spread: tuple[float, float] | None = None
    absent: str = ""

    differs: bool = False
    """Whether the figure is what one side takes more than the other, which may be less than 0."""

    @property
    def is_noise(self) -> bool:
        """Whether a difference has rounds on both sides of 0, further apart than the goal: chance."""
        low, high = self.spread or (self.figure, self.figure)
        return self.differs and low < 0 < high and high - low > (self.goal or 0.0)

    @property
    def holds(self) -> bool | None:
        """Whether the goal is reached; ``None`` where there is no goal or no figure, or where it is noise."""
        return None if self.goal is None or self.absent or self.is_noise else self.figure <= self.goal

    def cells(self) -> tuple[str, ...]:
        """Give the cells of its line, as they stand under the titles."""
        goal = "" if self.goal is None else f"≤ {amount(self.goal, self.unit)}"
        if self.absent:
            return (self.what, self.ours, self.beside, self.absent, "", goal, "")
        low, high = self.spread or (self.figure, self.figure)
        spread = "" if low == high else f"{_number(low)} to {_number(high)}"
        unknown = "cannot tell" if self.goal is not None and self.is_noise else ""
        word = {None: unknown, True: "yes", False: "**no**"}[self.holds]
        return (self.what, self.ours, self.beside, amount(self.figure, self.unit), spread, goal, word)


def amount(figure: float, unit: str) -> str:
    """Say a figure with its unit."""
    return f"{_number(figure)} {unit}".strip()


def _number(figure: float) -> str:
    if isinstance(figure, int):
        return f"{figure:,}"
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}" if abs(figure) < 1 else f"{figure:.2f}"


def alone(what: str, ours: Series, unit: str, goal: float | None = None, beside: str = "") -> Row:
    """Give the row of a figure that stands by itself."""
    if ours.absent:
        return Row(what, unit=unit, goal=goal, absent=ours.absent)
    spread = min(ours.values), max(ours.values)
    return Row(what, ours.median, unit, goal, beside=beside, spread=spread)


def ratio(
    what: str, ours: Series, theirs: Series, name: str, unit: str = "s", goal: float | None = None
) -> Row:
    """Give the row of ours over theirs: the median of each round's own ratio."""
    return replace(alone(what, ours / theirs, "x", goal), **_sides(ours, theirs, name, unit))


def beyond(
    what: str, ours: Series, theirs: Series, name: str, unit: str = "s", goal: float | None = None
) -> Row:
    """Give the row of ours less theirs."""
    row = replace(alone(what, ours - theirs, unit, goal), differs=True)
    return replace(row, **_sides(ours, theirs, name, unit))


def _sides(ours: Series, theirs: Series, name: str, unit: str) -> dict[str, str]:
    beside = name if theirs.absent else f"{name}: {amount(theirs.median, unit)}"
    return {"ours": "" if ours.absent else amount(ours.median, unit), "beside": beside}

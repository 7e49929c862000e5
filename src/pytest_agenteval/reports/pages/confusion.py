"""A confusion as a table of shades: the more often a pair was met, the stronger its cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_agenteval.reports.wording import figure


class Cell(NamedTuple):
    """How often a label's category met a score's; ``shade`` is its share of the row, in percent."""

    times: int
    shade: int
    agrees: bool


class Heat(NamedTuple):
    """The cells of a confusion, a row for each category of labels, and the categories' names."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def heat_of(found: Mapping[str, Any]) -> Heat:
    """Give a confusion with the shade of every cell."""
    names = tuple(figure(category) for category in found["categories"])
    rows = tuple(
        (name, tuple(Cell(count, _share(count, row), place == other) for other, count in enumerate(row)))
        for place, (name, row) in enumerate(zip(names, found["rows"], strict=True))
    )
    return Heat(names, rows)


def _share(count: int, row: list[int]) -> int:
    return round(100 * count / sum(row)) if count else 0

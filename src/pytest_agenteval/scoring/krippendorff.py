"""Krippendorff's alpha: how far several coders agree, whoever is missing."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from pytest_agenteval.scoring.undefined import Undefined

Level: TypeAlias = Literal["nominal", "ordinal", "interval"]
Unit: TypeAlias = Sequence["float | None"]
"""What each coder said of one thing; None where a coder said nothing."""


def krippendorff_alpha(units: Sequence[Unit], level: Level = "interval") -> float:
    """Give 1 - observed / expected disagreement, at most 1: 0 is agreement by chance, below is worse.

    Disagreement of two values is, by ``level``: 1 where they differ (nominal); the square of the number of
    values ranked between them, both ends counted half (ordinal); the square of their difference (interval).
    It is averaged over all pairs of values within a unit, each unit weighed by 1/(m-1) for its m values, and
    over all pairs whatsoever (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"). A unit with
    fewer than two values can be paired with nothing and is left out.

    Raises Undefined where no unit has two values, or all values are the same.
    """
    paired = [known for unit in units if len(known := [one for one in unit if one is not None]) > 1]
    values = [value for unit in paired for value in unit]
    if not values:
        raise Undefined("no example has two scores to compare")
    if min(values) == max(values):
        raise Undefined(f"every score is {values[0]:g}: no disagreement could have been expected")
    apart, paired = _measure(paired, values, level)
    observed = math.fsum(apart(unit) / (len(unit) - 1) for unit in paired) / len(values)
    everything = [value for unit in paired for value in unit]
    expected = apart(everything) / (len(values) * (len(values) - 1))
    if not expected:
        raise Undefined("the scores differ by rounding only")
    return 1 - observed / expected


def _measure(
    units: list[list[float]], values: list[float], level: Level
) -> tuple[Callable[[Sequence[float]], float], list[list[float]]]:
    """Give the sum of the disagreements of all ordered pairs of some values, and the values to take it of.

    With mid-ranks in the place of the values, the ordinal disagreement is a squared difference too.
    """
    if level == "nominal":
        return _differing, units
    if level == "interval":
        return _squared, units
    ordered = sorted(values)
    ranks = {value: _mid_rank(value, ordered) for value in set(values)}
    return _squared, [[ranks[value] for value in unit] for unit in units]


def _differing(values: Sequence[float]) -> float:
    """Count the ordered pairs of values that differ."""
    if len(values) == 2:  # two coders: by far the most common, and asked for in every draw
        return 2.0 * (values[0] != values[1])
    return float(len(values) ** 2 - sum(count * count for count in Counter(values).values()))


def _squared(values: Sequence[float]) -> float:
    """Give Σ(a-b)² over all ordered pairs, which is 2·m·Σ(a-ā)²."""
    if len(values) == 2:
        return 2.0 * (values[0] - values[1]) ** 2
    mean = math.fsum(values) / len(values)
    return 2 * len(values) * math.fsum((value - mean) ** 2 for value in values)


def _mid_rank(value: float, ordered: Sequence[float]) -> float:
    return (bisect_left(ordered, value) + bisect_right(ordered, value)) / 2

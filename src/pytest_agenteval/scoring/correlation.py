"""Do two scores of the same things go up and down together?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from pytest_agenteval.errors import UndefinedStatistic

Pair: TypeAlias = tuple[float, float]
"""A label and the score that is compared with it."""

FEWEST = 2


def pearson(pairs: Sequence[Pair]) -> float:
    """Give Pearson's product-moment correlation, -1 to 1: how near the pairs lie to a straight line.

    Σ(x-x̄)(y-ȳ) / sqrt(Σ(x-x̄)²·Σ(y-ȳ)²) (Pearson 1895). Raises Undefined with fewer than two pairs, or
    where one side is the same for all.
    """
    labels, scores = _sides(pairs)
    return _product_moment(labels, scores)


def spearman(pairs: Sequence[Pair]) -> float:
    """Give Spearman's rank correlation, -1 to 1: whether both sides put things into the same order.

    Pearson's correlation of the ranks, equal values having the average of their ranks (Spearman 1904;
    Kendall 1945 for ties). Raises Undefined with fewer than two pairs, or where one side is the same for all.
    """
    labels, scores = _sides(pairs)
    return _product_moment(average_ranks(labels), average_ranks(scores))


def average_ranks(values: Sequence[float]) -> list[float]:
    """Give each value's rank from 1 up, equal values the average of the ranks they take together."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in order[start:end]:
            ranks[place] = (start + 1 + end) / 2
        start = end
    return ranks


def _sides(pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
    if len(pairs) < FEWEST:
        raise UndefinedStatistic("fewer than two pairs")
    labels, scores = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    for side, what in ((labels, "label"), (scores, "score")):
        if min(side) == max(side):
            raise UndefinedStatistic(f"every {what} is {side[0]:g}: there is nothing to go up and down with")
    return labels, scores


def _product_moment(xs: Sequence[float], ys: Sequence[float]) -> float:
    left, right = _deviations(xs), _deviations(ys)
    together = math.fsum(x * y for x, y in zip(left, right, strict=True))
    spread = math.sqrt(math.fsum(x * x for x in left)) * math.sqrt(math.fsum(y * y for y in right))
    return max(-1.0, min(1.0, together / spread))


def _deviations(values: Sequence[float]) -> list[float]:
    """Give the distances from the mean, as shares of the largest: no square vanishes or overflows."""
    mean = math.fsum(values) / len(values)
    apart = [value - mean for value in values]
    largest = max(map(abs, apart))
    if not largest:  # the mean of neighbouring floats may be one of them
        raise UndefinedStatistic("one side is the same for all, but for rounding")
    return [value / largest for value in apart]

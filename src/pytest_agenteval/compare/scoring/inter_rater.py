"""How far two raters agree: correlation, Krippendorff's alpha, Cohen's kappa, and their confusion."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import UndefinedStatistic

Pair: TypeAlias = tuple[float, float]
"""A label and the score that is compared with it."""

FEWEST = 2
MeasurementLevel: TypeAlias = Literal["nominal", "ordinal", "interval"]
Unit: TypeAlias = Sequence["float | None"]
"""What each coder said of one thing; None where a coder said nothing."""
Weights: TypeAlias = Literal["linear", "quadratic"]
CategoryPair: TypeAlias = tuple[int, int]
"""Where a pair stands in a row of categories."""
MOST_OF_THEIR_OWN = 6
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)


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


def krippendorff_alpha(units: Sequence[Unit], level: MeasurementLevel = "interval") -> float:
    """Give 1 - observed / expected disagreement, at most 1: 0 is agreement by chance, below is worse.

    Disagreement of two values is, by ``level``: 1 where they differ (nominal); the square of the number of
    values ranked between them, both ends counted half (ordinal); the square of their difference (interval).
    It is averaged over all pairs of values within a unit, each unit weighed by 1/(m-1) for its m values, and
    over all pairs whatsoever (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"). A unit with
    fewer than two values can be paired with nothing and is left out.

    Raises Undefined where no unit has two values, or all values are the same.
    """
    decided = [[value for value in unit if value is not None] for unit in units]
    paired = [unit for unit in decided if len(unit) > 1]
    values = [value for unit in paired for value in unit]
    if not values:
        raise UndefinedStatistic("no example has two scores to compare")
    if min(values) == max(values):
        raise UndefinedStatistic(f"every score is {values[0]:g}: no disagreement could have been expected")
    apart, paired = _measure(paired, values, level)
    observed = math.fsum(apart(unit) / (len(unit) - 1) for unit in paired) / len(values)
    everything = [value for unit in paired for value in unit]
    expected = apart(everything) / (len(values) * (len(values) - 1))
    if not expected:
        raise UndefinedStatistic("the scores differ by rounding only")
    return 1 - observed / expected


def _measure(
    units: list[list[float]], values: list[float], level: MeasurementLevel
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


class Confusion(FrozenValue, frozen=True):
    """How often a label of the row's category met a score of the column's."""

    categories: tuple[float, ...]
    rows: tuple[tuple[int, ...], ...]


def categories_of(labels: Sequence[float]) -> tuple[float, ...]:
    """Give the categories that labels suggest: their own values, if they are 2 to 6, else five even steps."""
    own = tuple(sorted(set(labels)))
    return own if 2 <= len(own) <= MOST_OF_THEIR_OWN else STEPS


def nearest_category(value: float, categories: Sequence[float]) -> int:
    """Give the place of the category nearest to a value; halfway between two it is the lower."""
    return min(range(len(categories)), key=lambda place: (abs(categories[place] - value), place))


def category_pairs(pairs: Sequence[Pair], categories: Sequence[float]) -> list[CategoryPair]:
    """Put both sides of every pair into the category nearest to them."""
    place_of = {
        value: nearest_category(value, categories) for value in {side for pair in pairs for side in pair}
    }
    return [(place_of[label], place_of[score]) for label, score in pairs]


def confusion(pairs: Sequence[Pair], categories: Sequence[float]) -> Confusion:
    """Count the pairs by the categories nearest to both sides."""
    counts = Counter(category_pairs(pairs, categories))
    size = range(len(categories))
    return Confusion(tuple(categories), tuple(tuple(counts[row, column] for column in size) for row in size))


def weighted_kappa(pairs: Sequence[CategoryPair], weights: Weights) -> float:
    """Give Cohen's weighted kappa, at most 1: 0 is the agreement that chance would bring, below is worse.

    1 - Σ w·observed / Σ w·expected, expected being the product of the margins, and w how many categories the
    two are apart, squared where the weights are quadratic (Cohen 1968). Raises UndefinedStatistic where there
    is no pair, or where both sides keep to the same one category.
    """
    if not pairs:
        raise UndefinedStatistic("no pairs")
    power = 1 if weights == "linear" else 2
    below = Counter(label for label, _ in pairs)
    across = Counter(score for _, score in pairs)
    observed: int = sum(abs(label - score) ** power for label, score in pairs)
    expected: int = sum(abs(i - j) ** power * below[i] * across[j] for i in below for j in across)
    if not expected:
        raise UndefinedStatistic("all labels and scores fall into one category")
    return 1 - observed * len(pairs) / expected

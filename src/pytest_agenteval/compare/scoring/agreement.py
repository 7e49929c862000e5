"""How far raters agree: correlations, Krippendorff's alpha, kappa, and the noise of judges."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

from pytest_agenteval.compare.scoring.intervals import (
    DEFAULT_BOOTSTRAP,
    BootstrapEstimate,
    BootstrapSettings,
    bootstrap_estimate,
    corner_scores,
    point_estimate,
)
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import UndefinedStatistic

# A label and the score that is compared with it.
Pair: TypeAlias = tuple[float, float]

FEWEST = 2
MeasurementLevel: TypeAlias = Literal["nominal", "ordinal", "interval"]
# The values that several coders gave one thing; None where a coder gave none.
Unit: TypeAlias = Sequence["float | None"]
Weights: TypeAlias = Literal["linear", "quadratic"]
# The indexes of a pair's two values in an ordered list of categories.
CategoryPair: TypeAlias = tuple[int, int]
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)


def pearson(pairs: Sequence[Pair]) -> float:
    """Give Pearson's product-moment correlation, -1 to 1: how near the pairs lie to a straight line.

    Σ(x-x̄)(y-ȳ) / sqrt(Σ(x-x̄)²·Σ(y-ȳ)²) (Pearson 1895). Raises UndefinedStatistic with fewer than two pairs,
    or where one side is the same for all.
    """
    labels, scores = _sides(pairs)
    return _product_moment(labels, scores)


def spearman(pairs: Sequence[Pair]) -> float:
    """Give Spearman's rank correlation, -1 to 1: whether both sides put things into the same order.

    Pearson's correlation of the ranks, where equal values have the average of their ranks (Spearman 1904;
    Kendall 1945 for ties). Raises UndefinedStatistic with fewer than two pairs, or where one side is the same
    for all.
    """
    labels, scores = _sides(pairs)
    return _product_moment(average_ranks(labels), average_ranks(scores))


def average_ranks(values: Sequence[float]) -> list[float]:
    """Give each value's rank from 1 up, equal values the average of the ranks they take together."""
    ranks = _mid_ranks(values)
    return [ranks[value] + 0.5 for value in values]


def _mid_ranks(values: Sequence[float]) -> dict[float, float]:
    """Give for each value the number of smaller ones, plus half the number of equal ones."""
    ordered = sorted(values)
    return {value: (bisect_left(ordered, value) + bisect_right(ordered, value)) / 2 for value in set(values)}


def _sides(pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
    if len(pairs) < FEWEST:
        raise UndefinedStatistic("fewer than two pairs")
    labels, scores = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    for side, what in ((labels, "label"), (scores, "score")):
        if min(side) == max(side):
            raise UndefinedStatistic(f"every {what} is {side[0]:g}, so it is not defined")
    return labels, scores


def _product_moment(xs: Sequence[float], ys: Sequence[float]) -> float:
    left, right = _deviations(xs), _deviations(ys)
    together = math.fsum(x * y for x, y in zip(left, right, strict=True))
    spread = math.sqrt(math.fsum(x * x for x in left)) * math.sqrt(math.fsum(y * y for y in right))
    # Rounding may lead beyond the ends.
    return max(-1.0, min(1.0, together / spread))


def _deviations(values: Sequence[float]) -> list[float]:
    """Give the distances from the mean, as shares of the largest: so no square vanishes or overflows."""
    mean = math.fsum(values) / len(values)
    apart = [value - mean for value in values]
    largest = max(map(abs, apart))
    # The mean of neighbouring floats may be one of them.
    if not largest:
        raise UndefinedStatistic("one side is the same for all, but for rounding")
    return [value / largest for value in apart]


def krippendorff_alpha(units: Sequence[Unit], level: MeasurementLevel = "interval") -> float:
    """Give 1 - observed / expected disagreement, at most 1: 0 is agreement by chance, below is worse.

    Disagreement of two values is, by ``level``: 1 where they differ (nominal); the square of the number of
    values ranked between them, both ends counted half (ordinal); the square of their difference (interval).
    It is averaged over all pairs of values within a unit, each unit weighed by 1/(m-1) for its m values, and
    over all pairs whatsoever (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"). A unit with
    fewer than two values can be paired with nothing and is left out.

    Raises UndefinedStatistic where no unit has two values, or all values are the same.
    """
    decided = [[value for value in unit if value is not None] for unit in units]
    paired = [unit for unit in decided if len(unit) > 1]
    values = [value for unit in paired for value in unit]
    if not values:
        raise UndefinedStatistic("no example has two scores to compare")
    if min(values) == max(values):
        raise UndefinedStatistic(f"every score is {values[0]:g}, so it is not defined")
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
    """Give the function that sums the disagreements of all ordered pairs, and the values to apply it to.

    With mid-ranks in place of the values, the ordinal disagreement is a squared difference, too.
    """
    if level == "nominal":
        return _differing, units
    if level == "interval":
        return _squared, units
    ranks = _mid_ranks(values)
    return _squared, [[ranks[value] for value in unit] for unit in units]


def _differing(values: Sequence[float]) -> float:
    return float(len(values) ** 2 - sum(count * count for count in Counter(values).values()))


def _squared(values: Sequence[float]) -> float:
    """Give Σ(a-b)² over all ordered pairs, which is 2·m·Σ(a-ā)²."""
    mean = math.fsum(values) / len(values)
    return 2 * len(values) * math.fsum((value - mean) ** 2 for value in values)


class Confusion(FrozenValue, frozen=True):
    """How often a label of the row's category met a score of the column's."""

    categories: tuple[float, ...]
    rows: tuple[tuple[int, ...], ...]


def categories_of(labels: Sequence[float]) -> tuple[float, ...]:
    """Give the categories that labels suggest: their own values if these are 2 to 6, else five even steps."""
    own = tuple(sorted(set(labels)))
    return own if 2 <= len(own) <= 6 else STEPS


def category_pairs(pairs: Sequence[Pair], categories: Sequence[float]) -> list[CategoryPair]:
    """Put both sides of every pair into the nearest category; halfway between two it is the lower one."""
    places = range(len(categories))
    place_of = {
        value: min(places, key=lambda place: (abs(categories[place] - value), place))
        for value in {side for pair in pairs for side in pair}
    }
    return [(place_of[label], place_of[score]) for label, score in pairs]


def confusion(pairs: Sequence[Pair], categories: Sequence[float]) -> Confusion:
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


TOLERANCE = 0.15

# Every metric by name, with its description. For those of categories, labels and scores are sorted into
# categories first.
METRICS: Mapping[str, str] = {
    "spearman": "Spearman's rank correlation, -1 to 1",
    "pearson": "Pearson's correlation, -1 to 1",
    "mae": "mean absolute error, 0 to 1: the less the better",
    "within": "share of scores within the tolerance of the label, 0 to 1",
    "kappa": "Cohen's kappa with quadratic weights, at most 1",
    "kappa_linear": "Cohen's kappa with linear weights, at most 1",
    "alpha": "Krippendorff's alpha of interval data, at most 1",
    "alpha_ordinal": "Krippendorff's alpha of ordered data, at most 1",
    "alpha_nominal": "Krippendorff's alpha of the categories as mere names, at most 1",
    "decided": "share of requests that gave a score, 0 to 1",
}

# Metrics whose lower values are better.
AT_MOST = frozenset({"mae"})


class Agreement(FrozenValue, frozen=True):
    """How scores agree with the labels of one dimension.

    ``examples`` have a label, ``scored`` of them at least one score; ``pairs`` counts the scores. ``figures``
    has one for each of METRICS.
    """

    examples: int
    scored: int
    pairs: int
    figures: Mapping[str, BootstrapEstimate]
    confusion: Confusion


def agreement(
    examples: Sequence[Sequence[tuple[float, float | None]]],
    tolerance: float = TOLERANCE,
    how: BootstrapSettings = DEFAULT_BOOTSTRAP,
) -> Agreement:
    """Compare labels with scores.

    Each example holds a pair of label and score for every time it was scored, the score None where there was
    none. Every pair counts alike; intervals draw examples, not pairs.
    """
    decided = [[(label, score) for label, score in example if score is not None] for example in examples]
    # A figure of ranks is the lower the fewer labels there are: 8 labels show 0.90 for a judge who has 0.95.
    # So it has no interval.
    too_low = "no interval: the fewer the labels, the lower this figure comes out"
    asks = max(map(len, examples), default=0)
    corners = [[(label, score)] * asks for label, score in corner_scores(2)]
    categories = categories_of([label for example in examples for label, _ in example])
    statistics: Mapping[str, Callable[[list[Pair]], float]] = {
        "spearman": spearman,
        "pearson": pearson,
        "mae": mean_absolute_error,
        "within": partial(share_within, tolerance=tolerance),
        "alpha": partial(krippendorff_alpha, level="interval"),
    }
    figures = {name: bootstrap_estimate(decided, figure, corners, how) for name, figure in statistics.items()}
    figures["alpha_ordinal"] = point_estimate(decided, partial(krippendorff_alpha, level="ordinal"), too_low)
    of_places: Mapping[str, Callable[[list[CategoryPair]], float]] = {
        "kappa": partial(weighted_kappa, weights="quadratic"),
        "kappa_linear": partial(weighted_kappa, weights="linear"),
        "alpha_nominal": partial(krippendorff_alpha, level="nominal"),
    }
    placed, placed_corners = ([category_pairs(each, categories) for each in of] for of in (decided, corners))
    for name, of_place in of_places.items():
        figures[name] = bootstrap_estimate(placed, of_place, placed_corners, how)
    flags = [[score is not None for _, score in example] for example in examples]
    # Four corners, as for the other figures: each weighs as much as half an example.
    figures["decided"] = bootstrap_estimate(flags, _share, [[True] * asks, [False] * asks] * 2, how)
    pairs = [pair for example in decided for pair in example]
    return Agreement(
        examples=len(examples),
        scored=sum(map(bool, decided)),
        pairs=len(pairs),
        figures={name: figures[name] for name in METRICS},
        confusion=confusion(pairs, categories),
    )


def mean_absolute_error(pairs: Sequence[Pair]) -> float:
    """Give the mean distance between label and score, from 0 up; raises UndefinedStatistic without pairs."""
    if not pairs:
        raise UndefinedStatistic("no pairs")
    return math.fsum(abs(label - score) for label, score in pairs) / len(pairs)


def share_within(pairs: Sequence[Pair], tolerance: float = TOLERANCE) -> float:
    """Give the share of scores within ``tolerance`` of their label; raises UndefinedStatistic without any."""
    if not pairs:
        raise UndefinedStatistic("no pairs")
    return sum(abs(label - score) <= tolerance + ROUNDING for label, score in pairs) / len(pairs)


def reaches(name: str, value: float, threshold: float) -> bool:
    """Whether a figure is as good as its threshold says, give or take rounding."""
    if name in AT_MOST:
        return value <= threshold + ROUNDING
    return value >= threshold - ROUNDING


def _share(flags: Sequence[bool]) -> float:
    if not flags:
        raise UndefinedStatistic("no example has a label")
    return sum(flags) / len(flags)


class JudgeNoise(FrozenValue, frozen=True):
    """How the scores of the same examples differ from request to request.

    ``spread`` is the standard deviation within an example, ``flips`` the share of examples that passed in one
    request and not in another; ``examples`` were scored twice or more.
    """

    examples: int
    spread: BootstrapEstimate
    flips: BootstrapEstimate


def judge_noise(
    examples: Sequence[Sequence[float | None]],
    pass_threshold: float,
    how: BootstrapSettings = DEFAULT_BOOTSTRAP,
) -> JudgeNoise:
    """Measure the noise of a judge: each example holds its score of every request, None for no score."""
    decided = [[score for score in example if score is not None] for example in examples]
    repeated = [scores for scores in decided if len(scores) > 1]
    # An example is drawn with all of its scores, or not at all.
    units: list[list[Sequence[float]]] = [[scores] for scores in repeated]
    corners = [[scores] for scores in corner_scores(max(map(len, repeated), default=0))]
    return JudgeNoise(
        len(repeated),
        bootstrap_estimate(units, spread_within, corners, how),
        bootstrap_estimate(units, partial(share_flipping, threshold=pass_threshold), corners, how),
    )


def spread_within(examples: Sequence[Sequence[float]]) -> float:
    """Give the pooled standard deviation within examples: sqrt of Σ(x-x̄)² / Σ(m-1), 0 or more.

    Each example of m scores is compared with its own mean (the within-group mean square of an analysis of
    variance). Raises UndefinedStatistic where no example has two scores.
    """
    freedom = sum(len(scores) - 1 for scores in examples)
    if freedom < 1:
        raise UndefinedStatistic("no example was scored twice")
    squares = math.fsum(
        (score - math.fsum(scores) / len(scores)) ** 2 for scores in examples for score in scores
    )
    return math.sqrt(squares / freedom)


def share_flipping(examples: Sequence[Sequence[float]], threshold: float) -> float:
    """Give the share of examples with a score that reaches the threshold and one that does not, 0 to 1.

    Raises UndefinedStatistic where there is no example.
    """
    if not examples:
        raise UndefinedStatistic("no example was scored twice")
    reached = [{score >= threshold - ROUNDING for score in scores} for scores in examples]
    return sum(len(verdicts) > 1 for verdicts in reached) / len(examples)

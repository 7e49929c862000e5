"""How well scores agree with labels, and a judge with itself when it is asked again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pytest_agenteval.compare.scoring.bootstrap import (
    DEFAULT_BOOTSTRAP,
    BootstrapEstimate,
    BootstrapSettings,
    bootstrap_estimate,
    corner_scores,
    point_estimate,
)
from pytest_agenteval.compare.scoring.inter_rater import (
    CategoryPair,
    Confusion,
    MeasurementLevel,
    Pair,
    Weights,
    categories_of,
    category_pairs,
    confusion,
    krippendorff_alpha,
    pearson,
    spearman,
    weighted_kappa,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import UndefinedStatistic

TOLERANCE = 0.15
# As floats, 0.4 is farther from 0.25 than 0.15.
ROUNDING = 1e-9

TOO_LOW = "no interval: the fewer the labels, the lower this figure comes out"
"""Ranks among few values spread near scores apart: 8 labels show 0.90 of a judge who has 0.95."""

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
    "decided": "share of asks that brought a score, 0 to 1",
}
"""Every figure by name, with what it says; those of categories are put into them first."""

AT_MOST = frozenset({"mae"})
"""Figures that are the better the less they are."""


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
    asks = max(map(len, examples), default=0)
    corners = [[(label, score)] * asks for label, score in corner_scores(2)]
    categories = categories_of([label for example in examples for label, _ in example])
    figures = {
        name: bootstrap_estimate(decided, statistic, corners, how)
        for name, statistic in _of_scores(tolerance).items()
    }
    figures["alpha_ordinal"] = point_estimate(decided, partial(_alpha, level="ordinal"), TOO_LOW)
    placed, placed_corners = (
        [category_pairs(example, categories) for example in of] for of in (decided, corners)
    )
    figures |= {
        name: bootstrap_estimate(placed, statistic, placed_corners, how)
        for name, statistic in _OF_PLACES.items()
    }
    flags = [[score is not None for _, score in example] for example in examples]
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
    """Give the mean distance between label and score, from 0 up; raises Undefined without pairs."""
    _refuse_none(pairs)
    return math.fsum(abs(label - score) for label, score in pairs) / len(pairs)


def share_within(pairs: Sequence[Pair], tolerance: float = TOLERANCE) -> float:
    """Give the share of scores at most ``tolerance`` from their label; raises Undefined without pairs."""
    _refuse_none(pairs)
    return sum(abs(label - score) <= tolerance + ROUNDING for label, score in pairs) / len(pairs)


def reaches(name: str, value: float, threshold: float) -> bool:
    """Whether a figure is as good as its threshold says, give or take rounding."""
    if name in AT_MOST:
        return value <= threshold + ROUNDING
    return value >= threshold - ROUNDING


def _of_scores(tolerance: float) -> Mapping[str, Callable[[list[Pair]], float]]:
    return {
        "spearman": spearman,
        "pearson": pearson,
        "mae": mean_absolute_error,
        "within": partial(share_within, tolerance=tolerance),
        "alpha": partial(_alpha, level="interval"),
    }


def _alpha(pairs: Sequence[Pair] | Sequence[CategoryPair], level: MeasurementLevel) -> float:
    return krippendorff_alpha(pairs, level)


def _kappa(pairs: Sequence[CategoryPair], weights: Weights) -> float:
    return weighted_kappa(pairs, weights)


_OF_PLACES: Mapping[str, Callable[[list[CategoryPair]], float]] = {
    "kappa": partial(_kappa, weights="quadratic"),
    "kappa_linear": partial(_kappa, weights="linear"),
    "alpha_nominal": partial(_alpha, level="nominal"),
}


def _share(flags: Sequence[bool]) -> float:
    if not flags:
        raise UndefinedStatistic("no example has a label")
    return sum(flags) / len(flags)


def _refuse_none(pairs: Sequence[Pair]) -> None:
    if not pairs:
        raise UndefinedStatistic("no pairs")


class JudgeNoise(FrozenValue, frozen=True):
    """How the scores of the same examples move from ask to ask.

    ``spread`` is the standard deviation within an example, ``flips`` the share of examples that passed in one
    ask and not in another; ``examples`` were scored twice or more.
    """

    examples: int
    spread: BootstrapEstimate
    flips: BootstrapEstimate


def judge_noise(
    examples: Sequence[Sequence[float | None]],
    pass_threshold: float,
    how: BootstrapSettings = DEFAULT_BOOTSTRAP,
) -> JudgeNoise:
    """Measure the noise of a judge: each example holds its score of every ask, None where there was none."""
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
    variance). Raises Undefined where no example has two scores.
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

    Raises Undefined where there is no example.
    """
    if not examples:
        raise UndefinedStatistic("no example was scored twice")
    reached = [{score >= threshold - ROUNDING for score in scores} for scores in examples]
    return sum(len(verdicts) > 1 for verdicts in reached) / len(examples)

"""How well scores agree with labels: every figure of a calibration, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pytest_agenteval.errors import UndefinedStatistic
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.scoring.bootstrap import (
    DEFAULT_BOOTSTRAP,
    BootstrapEstimate,
    BootstrapSettings,
    bootstrap_estimate,
)
from pytest_agenteval.scoring.correlation import Pair, pearson, spearman
from pytest_agenteval.scoring.inter_rater import (
    CategoryPair,
    Confusion,
    MeasurementLevel,
    Weights,
    categories_of,
    category_pairs,
    confusion,
    krippendorff_alpha,
    weighted_kappa,
)
from pytest_agenteval.scoring.intervals import wilson

TOLERANCE = 0.15
ROUNDING = 1e-9

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
    labels = [label for example in examples for label, _ in example]
    categories = categories_of(labels)
    figures = {
        name: bootstrap_estimate(decided, statistic, how) for name, statistic in _of_scores(tolerance).items()
    }
    placed = [category_pairs(example, categories) for example in decided]
    figures |= {name: bootstrap_estimate(placed, statistic, how) for name, statistic in _OF_PLACES.items()}
    pairs = [pair for example in decided for pair in example]
    figures["decided"] = _decided_share(len(pairs), len(labels), how.level)
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
        "alpha_ordinal": partial(_alpha, level="ordinal"),
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


def _decided_share(pairs: int, asks: int, level: float) -> BootstrapEstimate:
    if not asks:
        return BootstrapEstimate(None, reason="no example has a label")
    return BootstrapEstimate(pairs / asks, wilson(pairs, asks, level))


def _refuse_none(pairs: Sequence[Pair]) -> None:
    if not pairs:
        raise UndefinedStatistic("no pairs")

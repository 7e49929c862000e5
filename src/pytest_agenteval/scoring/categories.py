"""Scores put into categories: who chose which, and how far that is more than chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pytest_agenteval.scoring.correlation import Pair
from pytest_agenteval.scoring.undefined import Undefined

Weights: TypeAlias = Literal["linear", "quadratic"]
Places: TypeAlias = tuple[int, int]
"""Where a pair stands in a row of categories."""

MOST_OF_THEIR_OWN = 6
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Confusion:
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


def places(pairs: Sequence[Pair], categories: Sequence[float]) -> list[Places]:
    """Put both sides of every pair into the category nearest to them."""
    known = {
        value: nearest_category(value, categories) for value in {side for pair in pairs for side in pair}
    }
    return [(known[label], known[score]) for label, score in pairs]


def confusion(pairs: Sequence[Pair], categories: Sequence[float]) -> Confusion:
    """Count the pairs by the categories nearest to both sides."""
    counts = Counter(places(pairs, categories))
    size = range(len(categories))
    return Confusion(tuple(categories), tuple(tuple(counts[row, column] for column in size) for row in size))


def weighted_kappa(pairs: Sequence[Pair], categories: Sequence[float], weights: Weights) -> float:
    """Give Cohen's weighted kappa, at most 1: 0 is the agreement that chance would bring, below is worse.

    Both sides are put into the categories nearest to them. 1 - Σ w·observed / Σ w·expected, expected being
    the product of the margins, and w how many categories the two are apart, squared where the weights are
    quadratic (Cohen 1968). Raises Undefined where there is no pair, or where both sides keep to the same one
    category.
    """
    return kappa_of_places(places(pairs, categories), weights)


def kappa_of_places(pairs: Sequence[Places], weights: Weights) -> float:
    """Give Cohen's weighted kappa of pairs of places in a row of categories; see ``weighted_kappa``."""
    if not pairs:
        raise Undefined("no pairs")
    power = 1 if weights == "linear" else 2
    below = Counter(label for label, _ in pairs)
    across = Counter(score for _, score in pairs)
    observed: int = sum(abs(label - score) ** power for label, score in pairs)
    expected: int = sum(abs(i - j) ** power * below[i] * across[j] for i in below for j in across)
    if not expected:
        raise Undefined("all labels and scores fall into one category")
    return 1 - observed * len(pairs) / expected

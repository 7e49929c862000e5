"""The score of one trial: the weighted mean of its decided grades."""

from __future__ import annotations

import math
from collections.abc import Iterable


def trial_score(grades: Iterable[tuple[float | None, float]]) -> float | None:
    """Give the mean of the decided scores, each counted by its weight, or None when there is none.

    ``grades`` holds pairs of score and weight: Σ weight·score / Σ weight (design.md, section 2).
    A score is 0..1, or None for undecided: such a pair is left out of both sums. A weight is 0 or
    more; when the decided ones are all 0 there is nothing to divide by, and the answer is None.
    Raises ValueError for any other number.
    """
    pairs = [(checked_score(score), _weight(weight)) for score, weight in grades if score is not None]
    counted = [(score, weight) for score, weight in pairs if weight > 0]
    if not counted:
        return None
    whole = math.fsum(weight for _, weight in counted)
    mean = math.fsum(weight * score for score, weight in counted) / whole
    return _between(mean, [score for score, _ in counted])


def mean_score(scores: Iterable[float | None]) -> float | None:
    """Give the plain mean of the decided scores, or None when there is none.

    Scores are 0..1, None is left out.
    Raises ValueError for any other number.
    """
    known = decided_scores(scores)
    return _between(math.fsum(known) / len(known), known) if known else None


def decided_scores(scores: Iterable[float | None]) -> list[float]:
    """Give the scores that are not None, in their order; raises ValueError for one outside 0..1."""
    return [checked_score(score) for score in scores if score is not None]


def checked_score(score: float) -> float:
    """Give the score back, or raise ValueError when it is not a number from 0 to 1."""
    if not 0 <= score <= 1:
        raise ValueError(f"a score is a number from 0 to 1, not {score!r}")
    return score


def _weight(weight: float) -> float:
    if not 0 <= weight < math.inf:
        raise ValueError(f"a weight is a number, 0 or more, not {weight!r}")
    return weight


def _between(mean: float, scores: list[float]) -> float:
    """Undo what rounding adds: the mean of 0.7, 0.7 and 0.7 reaches a threshold of 0.7."""
    return min(max(mean, min(scores)), max(scores))

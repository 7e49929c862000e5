"""What a judge's own noise is: how far it disagrees with itself when it is asked again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_agenteval.errors import UndefinedStatistic
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.scoring.bootstrap import (
    DEFAULT_BOOTSTRAP,
    BootstrapEstimate,
    BootstrapSettings,
    bootstrap_estimate,
)

ROUNDING = 1e-9


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
    units = [[scores] for scores in repeated]  # an example is drawn with all of its scores, or not at all
    return JudgeNoise(
        len(repeated),
        bootstrap_estimate(units, spread_within, how),
        bootstrap_estimate(units, lambda all_scores: share_flipping(all_scores, pass_threshold), how),
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

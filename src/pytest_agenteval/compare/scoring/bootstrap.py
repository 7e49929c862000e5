"""How sure a figure is whose distribution nobody knows: the percentile bootstrap, with corners added."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import TypeVar

from pytest_agenteval.compare.scoring.intervals import Interval
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import UndefinedStatistic

T = TypeVar("T")

FEWEST = 8
"""Examples from which on intervals hold what they say, simulated in ``tests/extended/simulations``."""
CORNER_WEIGHT = 0.5
"""How often a corner is drawn for each time that an example is: four of them are two examples."""


class BootstrapSettings(FrozenValue, frozen=True):
    """How often examples are drawn anew, from which seed, and how sure an interval shall be."""

    draws: int = 1000
    seed: int = 0
    level: float = 0.95


DEFAULT_BOOTSTRAP = BootstrapSettings()


class BootstrapEstimate(FrozenValue, frozen=True):
    """A statistic with its interval.

    ``value`` is None where it is undefined, ``interval`` where none can be given; ``reason`` says why.
    """

    value: float | None
    interval: Interval | None = None
    reason: str = ""


def bootstrap_estimate(
    examples: Sequence[Sequence[T]],
    statistic: Callable[[list[T]], float],
    corners: Sequence[Sequence[T]],
    how: BootstrapSettings = DEFAULT_BOOTSTRAP,
) -> BootstrapEstimate:
    """Give a statistic of all that the examples hold, with a percentile-bootstrap interval (Efron 1979).

    Each draw takes as many examples as there are, with replacement, each with everything it holds: what an
    example says several times resembles itself. ``corners`` are made-up examples, as extreme as examples can
    be (``corner_scores``). They are in no value, but are drawn too, each half as often as an example:
    examples that all agree would else give an interval without width, although the next one may not.

    The interval runs between the quantiles (1 ∓ level)/2 of the draws' values; draws in which the statistic
    is undefined are left out. There is none below FEWEST examples. The same seed gives the same interval.
    """
    held = [example for example in examples if example]
    estimate = point_estimate(held, statistic)
    if estimate.value is None:
        return estimate
    if len(held) < FEWEST:
        return BootstrapEstimate(estimate.value, reason=f"no interval: fewer than {FEWEST} examples")
    values = sorted(_draws(held, corners, statistic, how))
    tail = (1 - how.level) / 2
    interval = Interval(quantile(values, tail), quantile(values, 1 - tail), how.level)
    return BootstrapEstimate(estimate.value, interval)


def point_estimate(
    examples: Sequence[Sequence[T]], statistic: Callable[[list[T]], float], reason: str = ""
) -> BootstrapEstimate:
    """Give a statistic of all that the examples hold without an interval, which ``reason`` is for."""
    try:
        value = statistic([observation for example in examples for observation in example])
    except UndefinedStatistic as undefined:
        return BootstrapEstimate(None, reason=str(undefined))
    return BootstrapEstimate(value, reason=reason)


def corner_scores(raters: int) -> list[tuple[float, ...]]:
    """Give the most extreme scores of one thing: all raters at 0, all at 1, or 0 and 1 in turn, both ways."""
    in_turn = tuple(float(rater % 2) for rater in range(raters))
    return [(0.0,) * raters, (1.0,) * raters, in_turn, tuple(1 - score for score in in_turn)]


def quantile(ordered: Sequence[float], share: float) -> float:
    """Give the value below which ``share`` of some ordered values lie, linear between two neighbours.

    (Hyndman and Fan 1996, type 7; numpy's default.) Raises ValueError where there is no value.
    """
    if not ordered:
        raise ValueError("no value has no quantile")
    at = share * (len(ordered) - 1)
    low = min(math.floor(at), len(ordered) - 1)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def _draws(
    examples: Sequence[Sequence[T]],
    corners: Sequence[Sequence[T]],
    statistic: Callable[[list[T]], float],
    how: BootstrapSettings,
) -> Iterator[float]:
    random = Random(how.seed)
    pool = [*examples, *corners]
    weights = list(accumulate([1.0] * len(examples) + [CORNER_WEIGHT] * len(corners)))
    for _ in range(how.draws):
        drawn = random.choices(pool, cum_weights=weights, k=len(examples))
        try:
            yield statistic([observation for example in drawn for observation in example])
        except UndefinedStatistic:
            continue

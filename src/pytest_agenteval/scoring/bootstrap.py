"""How sure a figure is whose distribution nobody knows: the percentile bootstrap."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeVar

from pytest_agenteval.errors import UndefinedStatistic
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.scoring.intervals import Interval

T = TypeVar("T")

FEWEST = 2


class BootstrapSettings(FrozenValue, frozen=True):
    """How often examples are drawn anew, from which seed, and how sure an interval shall be."""

    draws: int = 1000
    seed: int = 0
    level: float = 0.95


DEFAULT_BOOTSTRAP = BootstrapSettings()


class BootstrapEstimate(FrozenValue, frozen=True):
    """A statistic with its interval.

    ``value`` is None where it is undefined, ``interval`` where none can be given; ``reason`` says why.
    ``degenerate`` counts the draws in which the statistic was undefined: they are left out of the interval.
    """

    value: float | None
    interval: Interval | None = None
    reason: str = ""
    degenerate: int = 0


def bootstrap_estimate(
    examples: Sequence[Sequence[T]],
    statistic: Callable[[list[T]], float],
    how: BootstrapSettings = DEFAULT_BOOTSTRAP,
) -> BootstrapEstimate:
    """Give a statistic of all that the examples hold, with a percentile-bootstrap interval (Efron 1979).

    Each draw takes as many examples as there are, with replacement, each with everything it holds: what an
    example says several times resembles itself. The interval runs between the quantiles (1 ∓ level)/2 of the
    draws' values. There is none with fewer than two examples, nor where the statistic is undefined in half of
    the draws or more. The same seed gives the same interval.
    """
    held = [example for example in examples if example]
    try:
        value = statistic([observation for example in held for observation in example])
    except UndefinedStatistic as undefined:
        return BootstrapEstimate(None, reason=str(undefined))
    if len(held) < FEWEST:
        return BootstrapEstimate(value, reason="one example cannot tell how far examples differ")
    values = sorted(_draws(held, statistic, how))
    degenerate = how.draws - len(values)
    if 2 * degenerate >= how.draws:
        why = f"no interval: undefined in {degenerate} of {how.draws} draws"
        return BootstrapEstimate(value, reason=why, degenerate=degenerate)
    tail = (1 - how.level) / 2
    return BootstrapEstimate(
        value,
        Interval(quantile(values, tail), quantile(values, 1 - tail), how.level),
        degenerate=degenerate,
    )


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
    examples: Sequence[Sequence[T]], statistic: Callable[[list[T]], float], how: BootstrapSettings
) -> Iterator[float]:
    random = Random(how.seed)
    for _ in range(how.draws):
        drawn = random.choices(examples, k=len(examples))
        try:
            yield statistic([observation for example in drawn for observation in example])
        except UndefinedStatistic:
            continue

"""How likely a sum of very many independent parts is to reach a value, where not all cases can be counted.

The saddlepoint approximation of Lugannani and Rice (1980), for sums on a lattice with Daniels' (1987) second
correction for continuity. Its relative error falls with the number of parts: of a thousand and more it is in
the third digit or behind, also far out in the tail, where a normal approximation is off by its own size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import NamedTuple

NEAR = 1e-5
"""So near to the mean, in standard deviations, half of all cases lie beyond, give or take less than this."""

MOST_STEPS = 200
ALMOST = 1e-6
LARGEST = 700
"""What the hyperbolic sine is still a number of."""
LOG_2 = math.log(2)


class Part(NamedTuple):
    """Summands that come about alike, ``times`` of them: their values, and how likely each is."""

    times: int
    values: tuple[float, ...]
    shares: tuple[float, ...]


class _Cumulants(NamedTuple):
    """The cumulant function of the sum at one place, with its first two derivatives."""

    value: float
    slope: float
    curvature: float


class SumTail:
    """A sum of independent parts; ``spacing`` is that of its lattice, 0 where it has none to speak of."""

    def __init__(self, parts: Iterable[Part], spacing: float = 0.0) -> None:
        self._parts = tuple(parts)
        self._spacing = spacing
        self.mean = math.fsum(count * _mean(values, shares) for count, values, shares in self._parts)
        self.highest = math.fsum(count * max(values) for count, values, _ in self._parts)
        self.lowest = math.fsum(count * min(values) for count, values, _ in self._parts)
        self._deviation = math.sqrt(self._at(0.0).curvature)

    def next_from(self, total: float) -> float:
        """Give the first value of the sum that is ``total`` or more, give or take rounding."""
        if not self._spacing:
            return total
        steps = math.ceil((total - self.lowest) / self._spacing - ALMOST)
        return self.lowest + steps * self._spacing

    def at_least(self, total: float) -> float:
        """Give the share of cases in which the sum is ``total`` or more."""
        reached = total - self._spacing / 2
        if reached <= self.lowest:
            return 1.0
        if total >= self.highest - self._deviation * NEAR:
            return self._share_of_highest() if reached < self.highest else 0.0
        if abs(reached - self.mean) <= NEAR * self._deviation:
            return 0.5
        return self._beyond(reached)

    def _beyond(self, reached: float) -> float:
        t, found = self._saddlepoint(reached)
        distance = math.copysign(math.sqrt(max(0.0, 2 * (t * reached - found.value))), t)
        half = t * self._spacing / 2
        step = (
            t
            if not self._spacing
            else math.sinh(half) * 2 / self._spacing
            if abs(half) < LARGEST
            else math.inf
        )
        scaled = math.copysign(step * math.sqrt(found.curvature), t)
        density = math.exp(-distance * distance / 2) / math.sqrt(2 * math.pi)
        tail = math.erfc(distance / math.sqrt(2)) / 2
        return min(1.0, max(0.0, tail + density * (1 / scaled - 1 / distance)))

    def _saddlepoint(self, reached: float) -> tuple[float, _Cumulants]:
        """Give the place where the slope is what is reached: by Newton's steps, within what is known."""
        low, high = -math.inf, math.inf
        t = (reached - self.mean) / self._deviation**2
        found = self._at(t)
        for _ in range(MOST_STEPS):
            missing = reached - found.slope
            if abs(missing) <= 1e-9 * self._deviation:
                break
            low, high = (t, high) if missing > 0 else (low, t)
            t = _within(t + missing / found.curvature if found.curvature else math.inf, low, high)
            found = self._at(t)
        return t, found

    def _at(self, t: float) -> _Cumulants:
        parts = [(part.times, _cumulants(part, t)) for part in self._parts]
        return _Cumulants(*(math.fsum(count * found[at] for count, found in parts) for at in range(3)))

    def _share_of_highest(self) -> float:
        chances = [(part.times, max(zip(part.values, part.shares, strict=True))[1]) for part in self._parts]
        return math.exp(math.fsum(count * math.log(chance) for count, chance in chances))


def _within(t: float, low: float, high: float) -> float:
    """Keep a step between what is known to be too low and too high."""
    if low < t < high:
        return t
    if math.isinf(low):
        return 2 * high if high < 0 else -1.0
    if math.isinf(high):
        return 2 * low if low > 0 else 1.0
    return (low + high) / 2


def _mean(values: Sequence[float], shares: Sequence[float]) -> float:
    return math.fsum(value * share for value, share in zip(values, shares, strict=True))


def _cumulants(part: Part, t: float) -> tuple[float, float, float]:
    _, values, shares = part
    if len(values) == 2 and shares[0] == 0.5:  # by far the most, of which there may be thousands
        first, second = values
        step = t * (second - first)
        fall = math.exp(-abs(step))
        upper = 1 / (1 + fall) if step > 0 else fall / (1 + fall)
        value = t * first + max(step, 0.0) + math.log1p(fall) - LOG_2
        return value, first + (second - first) * upper, (second - first) ** 2 * upper * (1 - upper)
    return _cumulants_of_several(part, t)


def _cumulants_of_several(part: Part, t: float) -> tuple[float, float, float]:
    values = part.values
    largest = t * (max(values) if t > 0 else min(values))
    exp = math.exp
    weights = [share * exp(t * value - largest) for value, share in zip(values, part.shares, strict=True)]
    whole = sum(weights)
    mean = sum(map(mul, values, weights)) / whole
    away = [value - mean for value in values]
    return largest + math.log(whole), mean, sum(map(mul, map(mul, away, away), weights)) / whole


def part_of(ways: Mapping[float, int], count: int = 1) -> Part:
    """Give so many summands whose values come about in these many ways."""
    cases = sum(ways.values())
    return Part(count, tuple(ways), tuple(number / cases for number in ways.values()))

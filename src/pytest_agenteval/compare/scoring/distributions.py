"""Quantiles of the normal, of Student's and of the beta distribution, and its chances, without scipy.

Of the first two, both tails are convex above 0, so Newton's method, started at or below the quantile, climbs
towards it and never overshoots: the first step that does not climb is rounding, and ends it. Tests hold all
to scipy within 1e-8, relatively.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

NEAR_NORMAL = 10_000.0
FRACTION_DEPTH = 50_000
MOST_STEPS = 2_000
TINY = 1e-300


def normal_quantile(p: float) -> float:
    """Give the number below which a standard normal variable lies with probability ``p``, 0 < p < 1.

    Raises ValueError for any other ``p``.
    """
    tail = _tail_of(p)
    above = _climb(_normal_tail, _normal_density, 0.0, tail)
    return above if p >= 0.5 else -above


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """Give the number below which Student's t with ``df`` degrees of freedom lies with probability ``p``.

    0 < p < 1, df >= 1 and not necessarily whole (else ValueError). Past 10,000 degrees the normal
    quantile is corrected instead (Abramowitz and Stegun, 26.7.5, to the second order).
    """
    tail = _tail_of(p)
    if not df >= 1:
        raise ValueError(f"degrees of freedom are 1 or more, not {df!r}")
    z = _climb(_normal_tail, _normal_density, 0.0, tail)
    if df > NEAR_NORMAL:
        above = z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
    else:
        above = _climb(lambda t: _t_tail(t, df), lambda t: _t_density(t, df), z, tail)
    return above if p >= 0.5 else -above


@lru_cache(maxsize=4096)
def beta_quantile(p: float, a: float, b: float) -> float:
    """Give the number below which a beta variable of shapes ``a`` and ``b`` lies with probability ``p``.

    0 < p < 1, a and b above 0 (else ValueError).
    """
    tail = _tail_of(p)
    if not (a > 0 and b > 0):
        raise ValueError(f"shapes are above 0, not {a!r} and {b!r}")
    return _low_beta_quantile(tail, a, b) if p <= 0.5 else 1 - _low_beta_quantile(tail, b, a)


def beta_cdf(x: float, a: float, b: float) -> float:
    """Give the probability that a beta variable of shapes ``a`` and ``b`` is less than ``x``.

    a and b above 0 (else ValueError).
    """
    if not (a > 0 and b > 0):
        raise ValueError(f"shapes are above 0, not {a!r} and {b!r}")
    at = min(max(x, 0.0), 1.0)
    return _incomplete_beta(at, 1 - at, a, b) if at < 1 else 1.0


def _low_beta_quantile(p: float, a: float, b: float) -> float:
    """Solve log I_x(a, b) = log p for log x: there the curve is straight near 0, where quantiles are tiny.

    Newton's method; a step that leaves what is known to hold the quantile is a halving instead.
    """
    whole, low, high = log_beta(a, b), -math.inf, 0.0
    at = math.log(a / (a + b))
    for _ in range(MOST_STEPS):
        x, y = math.exp(at), -math.expm1(at)
        below = _incomplete_beta(x, y, a, b)
        low, high = (at, high) if below < p else (low, at)
        slope = math.exp(a * at + (b - 1) * math.log(y) - whole) / below if below > 0 else math.inf
        following = at - math.log(below / p) / slope if 0 < slope < math.inf else -math.inf
        if not low <= following <= high:
            following = (low + high) / 2
        step, at = following - at, following
        if abs(step) <= 1e-13:
            break
    return math.exp(at)


def _tail_of(p: float) -> float:
    if not 0 < p < 1:
        raise ValueError(f"a probability here is above 0 and below 1, not {p!r}")
    return min(p, 1 - p)


def _climb(
    tail: Callable[[float], float], density: Callable[[float], float], start: float, target: float
) -> float:
    at = start
    for _ in range(MOST_STEPS):
        step = (tail(at) - target) / density(at)
        at += step
        if step <= 1e-14 * max(1.0, at):
            break
    return at


def _normal_tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2


def _normal_density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _t_tail(t: float, df: float) -> float:
    inner, outer = df / (df + t * t), t * t / (df + t * t)
    return _incomplete_beta(inner, outer, df / 2, 0.5) / 2


def _t_density(t: float, df: float) -> float:
    power = (df + 1) / 2 * math.log1p(t * t / df)
    return math.exp(-power - log_beta(df / 2, 0.5)) / math.sqrt(df)


def _incomplete_beta(x: float, y: float, a: float, b: float) -> float:
    """Give the regularised incomplete beta function I_x(a, b), for x + y = 1, both 0..1, and a, b > 0.

    Above the turning point of its fraction the mirror image 1 - I_y(b, a) is taken. ``y`` is asked for
    because 1 - x would round away a small t.
    """
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(y, x, b, a)
    if x == 0:
        return 0.0
    power = a * math.log(x) + b * math.log(y) - log_beta(a, b)
    return math.exp(power) / (a * _continued_fraction(x, a, b))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Give the continued fraction DLMF 8.17.22 by Lentz's method, to the step that no longer changes it.

    Below its turning point it takes about as many steps as the root of the greater shape.
    """
    fraction, upper, lower = 1.0, 1.0, 0.0
    for step in range(1, FRACTION_DEPTH):
        coefficient = _coefficient(step, x, a, b)
        lower = 1 / ((1 + coefficient * lower) or TINY)
        upper = (1 + coefficient / upper) or TINY
        fraction *= upper * lower
        if abs(upper * lower - 1) < 1e-16:
            break
    return fraction


def _coefficient(step: int, x: float, a: float, b: float) -> float:
    m = step // 2
    if step % 2:
        return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
    return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))


def log_beta(a: float, b: float) -> float:
    """Give the logarithm of the beta function, for a and b above 0."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

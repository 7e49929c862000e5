"""Quantiles of the normal and of Student's distribution, without scipy.

Both tails are convex above 0, so Newton's method, started at or below the quantile, climbs towards it and
never overshoots: the first step that does not climb is rounding, and ends it. Tests hold them to scipy within
1e-8, relatively.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

NEAR_NORMAL = 10_000.0
FRACTION_DEPTH = 200
MOST_STEPS = 2_000


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
    return math.exp(-power - _log_beta(df / 2, 0.5)) / math.sqrt(df)


def _incomplete_beta(x: float, y: float, a: float, b: float) -> float:
    """Give the regularised incomplete beta function I_x(a, b), for x + y = 1, both 0..1, and a, b > 0.

    The continued fraction DLMF 8.17.22, evaluated from its far end. It converges fast below its
    turning point; above it the mirror image 1 - I_y(b, a) is taken. ``y`` is asked for because 1 - x
    would round away a small t.
    """
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(y, x, b, a)
    if x == 0:
        return 0.0
    fraction = 1.0
    for step in range(FRACTION_DEPTH, 0, -1):
        fraction = 1 + _coefficient(step, x, a, b) / fraction
    return math.exp(a * math.log(x) + b * math.log(y) - _log_beta(a, b)) / (a * fraction)


def _coefficient(step: int, x: float, a: float, b: float) -> float:
    m = step // 2
    if step % 2:
        return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
    return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

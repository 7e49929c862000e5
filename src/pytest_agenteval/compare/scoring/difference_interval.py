"""Between which bounds the mean change of tasks like these lies, also where rare breaks were not seen.

Tasks that were not drawn may have broken wholly though none of the drawn ones did. So the lower end is worked
out with one more task, which fell by 1, and the upper end with one that rose by 1 (Gaffke 2005; Phan, Thomas
and Learned-Miller 2021). All tasks, this one too, then get random weights that add up to 1 (Dirichlet, all
shapes 1); the end is the quantile of their weighted mean.

For differences of -1, 0 and 1 each end is that of the exact sign test; where nothing changed in n tasks it is
that of the exact binomial (Clopper and Pearson): 1 - tail^(1/n). No other shape of differences is known in
which the interval holds the truth less often than it says.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from pytest_agenteval.compare.scoring.intervals import Interval

CLOSE = 1e-5
"""How near the ends are worked out: half of what five digits show."""

GRID = 1_000
MOST_DISTINCT = 1_000
"""Differences that are not alike, beyond which they are rounded to the grid."""

MOST_STEPS = 100


def difference_interval(differences: Sequence[float], level: float) -> Interval:
    """Give the interval of the mean difference, -1..1, of tasks like these; there is one task or more."""
    counts = Counter(differences)
    if len(counts) > MOST_DISTINCT:
        counts = Counter(round(difference * GRID) / GRID for difference in differences)
    tail = (1 - level) / 2
    low = _lower_end(counts, tail)
    high = -_lower_end({-difference: count for difference, count in counts.items()}, tail)
    return Interval(low, high, level)


def tasks_to_exclude(fall: float, level: float) -> int:
    """Give how many tasks, none of which changed, exclude a fall of the mean by ``fall``, 0..1 exclusive."""
    return math.ceil(math.log((1 - level) / 2) / math.log1p(-fall))


def _lower_end(counts: Mapping[float, int], tail: float) -> float:
    weighed = [*counts.items(), (-1.0, 1)]
    low, high = (
        -1.0,
        math.fsum(value * count for value, count in weighed) / sum(count for _, count in weighed),
    )
    while high - low > CLOSE:
        middle = (low + high) / 2
        if _share_below(weighed, middle) <= tail:
            low = middle
        else:
            high = middle
    return low


def _share_below(weighed: Sequence[tuple[float, int]], mean: float) -> float:
    """Give how likely the weighted mean is below ``mean``, which is between -1 and the mean of all values.

    That is how likely a sum of gamma variables, times the values less ``mean``, is below 0: by the
    saddlepoint approximation of Lugannani and Rice (1980). Ends are within 0.004 from 7 tasks on.
    """
    moved = [(value - mean, count) for value, count in weighed if value != mean]
    low, high = 1 / min(value for value, _ in moved), 0.0
    t = 0.0
    for _ in range(MOST_STEPS):
        shares = [(value / (1 - value * t), count) for value, count in moved]
        slope = math.fsum(count * share for share, count in shares)
        curvature = math.fsum(count * share * share for share, count in shares)
        low, high = (low, t) if slope > 0 else (t, high)
        following = t - slope / curvature
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - t) <= 1e-10 * abs(t):
            break
        t = following
    distance = -math.sqrt(max(0.0, 2 * math.fsum(count * math.log1p(-value * t) for value, count in moved)))
    if distance > -1e-4:
        return 0.5
    density = math.exp(-distance * distance / 2) / math.sqrt(2 * math.pi)
    below = math.erfc(-distance / math.sqrt(2)) / 2
    return below - density * (1 / (t * math.sqrt(curvature)) - 1 / distance)

"""How sure a mean or a difference is: intervals, the distributions behind them, and the bootstrap.

Two trials of a task share its difficulty, so a hundred trials of ten tasks say less than a hundred trials of
a hundred tasks. Hence tasks, not trials, are the units drawn (Miller 2024, "Adding Error Bars to Evals").

An interval of a difference also allows for rare breaks that no drawn task showed. So its lower end is worked
out with one more task, which fell by 1, and the upper end with one that rose by 1 (Gaffke 2005; Phan, Thomas
and Learned-Miller 2021). All tasks, this one too, then get random weights that add up to 1 (Dirichlet, all
shapes 1); the end is the quantile of their weighted mean. For differences of -1, 0 and 1 each end is that of
the exact sign test; where nothing changed in n tasks it is that of the exact binomial (Clopper and Pearson):
1 - tail^(1/n). No other shape of differences is known in which the interval holds the truth less often than
it says.

Quantiles need no scipy: tests hold them to it within 1e-8, relatively.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from random import Random
from statistics import NormalDist
from typing import Any, TypeVar

from pytest_agenteval.compare.scoring.aggregates import decided_scores, mean_score
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import UndefinedStatistic
from pytest_agenteval.text.formatting import NOT_KNOWN, format_ends

FRACTION_DEPTH = 50_000
MOST_STEPS = 2_000
TINY = 1e-300
NORMAL = NormalDist()


def t_quantile(p: float, df: float) -> float:
    """Give the number below which Student's t with ``df`` degrees of freedom lies with probability ``p``.

    0.5 < p < 1, df >= 1.
    """
    # t² / (df + t²) is a beta variable of the shapes 1/2 and df / 2.
    inner = _low_beta_quantile(2 * p - 1, 0.5, df / 2)
    return math.sqrt(df * inner / (1 - inner))


def beta_quantile(p: float, a: float, b: float) -> float:
    """Give the number below which a beta variable of shapes ``a`` and ``b`` lies with probability ``p``.

    0 < p < 1, a and b above 0.
    """
    return _low_beta_quantile(p, a, b) if p <= 0.5 else 1 - _low_beta_quantile(1 - p, b, a)


def beta_cdf(x: float, a: float, b: float) -> float:
    """Give the probability that a beta variable of shapes ``a`` and ``b`` is less than ``x``, 0..1."""
    return _incomplete_beta(x, 1 - x, a, b)


def _low_beta_quantile(p: float, a: float, b: float) -> float:
    """Solve log I_x(a, b) = log p for log x, by Newton's method.

    In logarithms the curve is straight near 0, where quantiles are tiny.
    """
    whole, low, high = log_beta(a, b), -math.inf, 0.0
    at = math.log(a / (a + b))
    for _ in range(MOST_STEPS):
        x, y = math.exp(at), -math.expm1(at)
        below = _incomplete_beta(x, y, a, b)
        low, high = (at, high) if below < p else (low, at)
        slope = math.exp(a * at + (b - 1) * math.log(y) - whole) / below if below > 0 else math.inf
        following = at - math.log(below / p) / slope if 0 < slope < math.inf else -math.inf
        # A step that leaves the bounds of the quantile is replaced by a halving.
        if not low <= following <= high:
            following = (low + high) / 2
        step, at = following - at, following
        if abs(step) <= 1e-13:
            break
    return math.exp(at)


def _incomplete_beta(x: float, y: float, a: float, b: float) -> float:
    """Give the regularised incomplete beta function I_x(a, b), for x + y = 1, both 0..1, and a, b > 0.

    ``y`` is an argument of its own because 1 - x would round away a small t.
    """
    # Above the turning point the fraction converges slowly: the mirror image is taken.
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
        m = step // 2
        if step % 2:
            coefficient = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            coefficient = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        # Lentz replaces a zero by a tiny number, for it is divided by.
        lower = 1 / ((1 + coefficient * lower) or TINY)
        upper = (1 + coefficient / upper) or TINY
        fraction *= upper * lower
        if abs(upper * lower - 1) < 1e-16:
            break
    return fraction


def log_beta(a: float, b: float) -> float:
    """Give the logarithm of the beta function, for a and b above 0."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def format_interval(interval: Interval | None) -> str:
    """Write an interval: ``0.52-0.90``, or ``-0.75..0.53`` where a dash would be taken for a minus.

    Ends round outwards to 0.00 and 1.00, for the figure of all tasks passed is 1.00 and lies in 0.95-1.00.
    """
    return NOT_KNOWN if interval is None else format_ends(interval.low, interval.high)


def interval_ends(interval: Interval | None) -> dict[str, Any]:
    """Give an interval as documents and pages have it: None at both ends where there is none."""
    return {"low": interval.low if interval else None, "high": interval.high if interval else None}


# For fewer tasks no interval is given: it would be correct and so wide (0.24-0.99, for instance) that it is
# useless.
FEWEST_TASKS = 5


class Interval(FrozenValue, frozen=True):
    """A confidence interval: ``low`` to ``high`` at ``level``."""

    low: float
    high: float
    level: float


class Estimate(FrozenValue, frozen=True):
    """The mean score of tasks, and how sure it is.

    ``mean`` is the mean of the tasks' own means, over ``tasks`` tasks with ``trials`` decided trials.
    ``interval`` is None when there are fewer than FEWEST_TASKS.
    """

    mean: float
    interval: Interval | None
    trials: int
    tasks: int


def estimate_of_tasks(scores: Iterable[Sequence[float | None]], level: float = 0.95) -> Estimate | None:
    """Give the mean of the tasks' mean scores with its ``beta_interval``, None if no trial is decided.

    ``scores`` holds the scores of each task's trials, 0..1 or None for undecided (left out). Every task
    weighs the same: where some have more decided trials than others, this is not the mean of the trials.
    """
    decided = [own for task in scores if (own := decided_scores(task))]
    means = [mean_score(own) or 0.0 for own in decided]
    mean = mean_score(means)
    if mean is None:
        return None
    interval = beta_interval(means, level) if len(means) >= FEWEST_TASKS else None
    return Estimate(mean, interval, sum(map(len, decided)), len(means))


def beta_interval(task_means: Sequence[float], level: float = 0.95) -> Interval | None:
    """Give the interval of the mean over tasks like these, None without any.

    ``task_means`` holds one mean score 0..1 for each task. Where every one is 0 or 1 this is Jeffreys'
    interval of a share; scores in between vary less, which narrows it. How often it holds the truth:
    ``python -m tests.extended.simulations intervals``.
    """
    mean = mean_score(task_means)
    if mean is None:
        return None
    squares = math.fsum((own - mean) ** 2 for own in task_means)
    return moment_interval(mean, squares, len(task_means), level)


def moment_interval(mean: float, squares: float, tasks: float, level: float = 0.95) -> Interval:
    """Give the interval of a mean 0..1 of ``tasks`` tasks; ``squares`` sums their squared distances from it.

    Half a task at 0 and half a task at 1 are added, as in Jeffreys' prior. Of all these let m be the mean and
    s the variance (divided by tasks + 1): the ends are quantiles of the beta distribution with the mean m and
    the variance s / (tasks + 2). They lie within 0..1 and always apart. ``tasks`` need not be whole: where
    tasks weigh differently, it is the number of tasks of equal weight that would say as much.
    """
    tail = (1 - level) / 2
    m = (tasks * mean + 0.5) / (tasks + 1)
    added = tasks * (mean - m) ** 2 + (m**2 + (1 - m) ** 2) / 2
    variance = (squares + added) / (tasks + 1) / (tasks + 2)
    # With unequal weights, scores may vary more than 0 and 1 with this mean: then it is as flat as the prior.
    k = max(1.0, m * (1 - m) / variance - 1)
    low, missing = beta_quantile(tail, m * k, (1 - m) * k), beta_quantile(tail, (1 - m) * k, m * k)
    return Interval(low, 1 - missing, level)


# How exactly the ends are computed: half of what five digits show.
CLOSE = 1e-5

GRID = 1_000
# With more different differences than this, they are rounded to the grid.
MOST_DISTINCT = 1_000


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
    # Clopper and Pearson: the tail has to be at least (1 - fall)^tasks.
    return math.ceil(math.log((1 - level) / 2) / math.log1p(-fall))


def _lower_end(counts: Mapping[float, int], tail: float) -> float:
    # The last one is the task that fell by 1, which no drawn task showed.
    weighed = [*counts.items(), (-1.0, 1)]
    whole = math.fsum(value * count for value, count in weighed)
    low, high = -1.0, whole / sum(count for _, count in weighed)
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
    # Between these bounds every 1 - value · t is above 0, as the logarithm below requires.
    low, high = 1 / min(value for value, _ in moved), 0.0
    t = 0.0
    for _ in range(100):
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
    # Here the two terms of the formula would both be huge, and cancel each other.
    if distance > -1e-4:
        return 0.5
    lead = 1 / (t * math.sqrt(curvature)) - 1 / distance
    return NORMAL.cdf(distance) - NORMAL.pdf(distance) * lead


T = TypeVar("T")

# Intervals hold what they promise from this many examples on, as simulations in
# ``tests/extended/simulations`` show.
FEWEST = 8


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

    Each draw takes as many examples as there are, with replacement, each with everything it holds: several
    scores of one example resemble each other. ``corners`` are made-up examples, as extreme as examples can be
    (``corner_scores``). They are in no value, but are drawn too, each half as often as an example: else
    examples that all agree would give an interval without width, although the next one may not agree.

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
    """Give a statistic of all that the examples hold, without an interval; ``reason`` says why."""
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

    (Hyndman and Fan 1996, type 7; numpy's default.)
    """
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
    # Four corners weigh as much as two examples.
    weights = list(accumulate([1.0] * len(examples) + [0.5] * len(corners)))
    for _ in range(how.draws):
        drawn = random.choices(pool, cum_weights=weights, k=len(examples))
        try:
            # A draw of one label only, for example, has no correlation: it is left out, and not taken for 0.
            yield statistic([observation for example in drawn for observation in example])
        except UndefinedStatistic:
            continue

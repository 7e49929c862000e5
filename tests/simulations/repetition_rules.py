"""Rules of how often tasks are repeated, and when a run may end: what ``adaptive`` compares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import fmean

from pytest_agenteval.compare.findings import difference
from pytest_agenteval.scoring.exact_tests import PairedScores, label_test, sign_flip_test
from pytest_agenteval.scoring.multiple_tests import tarone_holm

LEVEL = 0.025
BETS = (0.15, 0.3, 0.6, 1.0, 1.6)


@dataclass(frozen=True, slots=True)
class Rule:
    """When to look, at which levels, and what ends a run or a task's repetitions.

    ``levels`` are the suite's, ``bucket_levels`` those of all buckets together. A run whose suite has a p
    above ``futile`` ends, unless a bucket's p is at most ``futile_bucket`` (0: no bucket is asked).
    ``varied``: after the first look only tasks whose trials, old and new, are not all equal are repeated.
    ``stored``: repetitions of a baseline that is not run again. ``betting``: the level is that of a product
    of bets instead.
    """

    name: str
    looks: tuple[int, ...]
    levels: tuple[float, ...]
    bucket_levels: tuple[float, ...]
    futile: float = 1.0
    futile_bucket: float = 0.0
    varied: bool = False
    betting: bool = False
    stored: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run ends with: its verdicts, its trials a task (of the side that is repeated), its score."""

    suite: int
    bucket: int
    anything: bool
    trials: float
    score: float


def fixed(repetitions: int) -> Rule:
    """Give the rule of today."""
    return Rule(f"{repetitions} fixed", (repetitions,), (LEVEL,), (LEVEL,))


SHARED, SPENT = (0.008, 0.017), (0.004, 0.024)
"""Levels of two looks: the 2.5 % shared between them; and with what ends above .3 give back.

Where nothing has changed, that p is at most .004 at the first, or at most .3 there and .024 at the second,
has a probability of at most .0245, whatever the correlation of the two looks (both normal, integrated over
correlations from .05 to .999). Runs that go on above .3 for a bucket's sake add to it, as simulated.
"""

TWO_LOOKS = Rule("2, 6", (2, 6), SHARED, SHARED)
SPENDING = Rule("2, 6; ends above .3", (2, 6), SPENT, (0.004, 0.021), futile=0.3)
RULES = (
    TWO_LOOKS,
    SPENDING,
    replace(SPENDING, name="2, 6; ends above .3, buckets .05", futile_bucket=0.05),
    replace(SPENDING, name="2, 5; ends above .3, buckets .05", futile_bucket=0.05, looks=(2, 5)),
    replace(SPENDING, name="3, 8; ends above .3, buckets .05", futile_bucket=0.05, looks=(3, 8)),
    replace(SPENDING, name="2, 6 of varied; ends so", futile_bucket=0.05, varied=True),
    Rule("2 to 8, bets; no buckets", tuple(range(2, 9)), (LEVEL,) * 7, (0.0,) * 7, betting=True),
)


def ended(rule: Rule, tried: Sequence[PairedScores], sizes: Sequence[int], buckets: bool) -> Ending:
    """Play a rule on 8 trials a side and task; buckets are tested where they matter, once, in the end."""
    going = [True] * len(tried)
    repeated = [0] * len(tried)
    for look, level, bucket_level in zip(rule.looks, rule.levels, rule.bucket_levels, strict=True):
        repeated = [look if on else before for on, before in zip(going, repeated, strict=True)]
        pairs = [
            (old[: rule.stored or count], new[:count])
            for (old, new), count in zip(tried, repeated, strict=True)
        ]
        p = _bets(tried, look) if rule.betting else sign_flip_test(map(difference, pairs)).p
        futile = p > rule.futile and not _promising(pairs, sizes, rule)
        if p <= level or futile or look == rule.looks[-1]:
            suite = _direction(pairs) if p <= level else 0
            of_buckets = _bucket_verdicts(pairs, sizes, bucket_level) if buckets else [0]
            score = fmean(fmean(new) for _, new in pairs)
            return Ending(suite, of_buckets[0], bool(suite) or any(of_buckets), fmean(repeated), score)
        if rule.varied:
            going = [len({*old, *new}) > 1 for old, new in pairs]
    raise ValueError(f"rule {rule.name!r} has no look")


def _bucket_verdicts(pairs: Sequence[PairedScores], sizes: Sequence[int], level: float) -> list[int]:
    buckets = _by_bucket(pairs, sizes)
    family = tarone_holm([label_test(bucket) for bucket in buckets], level)
    return [
        _direction(bucket) if member.significant else 0
        for bucket, member in zip(buckets, family, strict=True)
    ]


def _promising(pairs: Sequence[PairedScores], sizes: Sequence[int], rule: Rule) -> bool:
    """Whether a bucket may become significant with more trials, if the rule asks."""
    if not rule.futile_bucket:
        return False
    return any(label_test(bucket).p <= rule.futile_bucket for bucket in _by_bucket(pairs, sizes))


def _by_bucket(pairs: Sequence[PairedScores], sizes: Sequence[int]) -> list[Sequence[PairedScores]]:
    return [pairs[end - size : end] for end, size in zip(accumulate(sizes), sizes, strict=True)]


def _direction(pairs: Sequence[PairedScores]) -> int:
    return 1 if sum(map(difference, pairs)) > 0 else -1


def _bets(tried: Sequence[PairedScores], look: int) -> float:
    """Bet on the signs of each repetition's differences; give 1 / the mean of what bets have become.

    A bet b becomes exp(b d) / cosh(b d) times itself, on average itself if either sign of d is as likely:
    so over repetitions of unchanged tasks, and one may stop at any time. Not where tasks moved: there the
    signs of a task's differences are alike.
    """
    gains = [
        math.fsum(
            bet * (after - before) - math.log(math.cosh(bet * (after - before)))
            for old, new in tried
            for before, after in zip(old[:look], new[:look], strict=True)
        )
        for size in BETS
        for bet in (size, -size)
    ]
    return 1 / max(1.0, fmean(math.exp(min(gain, 50)) for gain in gains))

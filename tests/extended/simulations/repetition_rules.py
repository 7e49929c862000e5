"""Rules of how often tasks are repeated, and when a run may end: what ``adaptive`` compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import fmean
from typing import NamedTuple

from pytest_agenteval.compare.scoring.exact_tests import PairedScores
from pytest_agenteval.compare.verdict import SuiteFindings, suite_findings
from pytest_agenteval.store.run_folder import Levels, RepetitionRule

RULES: Mapping[str, RepetitionRule] = {
    "2..6": RepetitionRule(2, 6),
    "2..5": RepetitionRule(2, 5),
    "3..8": RepetitionRule(3, 8),
}
"""Rules between other repetitions, at the levels of today.

Where nothing has changed, that p is at most .004 at the first look, or at most .3 there and .024 at the
second, has a probability of at most .0245, whatever the correlation of the two looks (both normal, integrated
over correlations from .05 to .999). Runs that go on above .3 for a bucket's sake add to it, as simulated.
"""


class Ending(NamedTuple):
    """What a run ends with: its verdicts, its trials a task (of the side that is repeated), its score.

    ``like_these`` is the verdict on tasks like these, ``suite`` that or else the one on these tasks.
    """

    suite: int
    like_these: int
    bucket: int
    anything: bool
    trials: int
    score: float


def fixed(repetitions: int) -> RepetitionRule:
    """Give the rule of a fixed number, at the plain levels."""
    return RepetitionRule(repetitions, repetitions, Levels(), Levels())


def ended(
    rule: RepetitionRule, tried: Sequence[PairedScores], sizes: Sequence[int], stored: int = 0
) -> Ending:
    """Play a rule on the trials of each task, by buckets of these sizes.

    ``stored`` is how often a baseline was tried that is not run again; 0 for one that is repeated as well.
    """
    first = _look(tried, sizes, rule.low, stored, rule.first_look)
    promising = any(bucket.p <= rule.promising for bucket in first.buckets.values())
    goes_on = not first.like_these.direction and (first.these.p <= rule.futile or promising)
    trials = rule.high if goes_on else rule.low
    last = _look(tried, sizes, trials, stored, rule.second_look) if goes_on else first
    suite = last.like_these.direction or last.these.direction
    directions = [bucket.direction for bucket in last.buckets.values()] or [0]
    score = fmean(fmean(new[:trials]) for _, new in tried)
    return Ending(
        suite, last.like_these.direction, directions[0], bool(suite) or any(directions), trials, score
    )


def _look(
    tried: Sequence[PairedScores], sizes: Sequence[int], repetitions: int, stored: int, levels: Levels
) -> SuiteFindings:
    pairs = [(old[: stored or repetitions], new[:repetitions]) for old, new in tried]
    ends = zip(accumulate(sizes), sizes, strict=True)
    return suite_findings({str(at): pairs[end - size : end] for at, (end, size) in enumerate(ends)}, levels)

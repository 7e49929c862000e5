"""Lines of inputs that stand in every trial's: the agent's own words around a task's, told once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from pytest_agenteval.loop.feedback.content import BucketFeedback, Section, TrialFeedback

FEWEST = 4
"""Trials of a suite below which nothing is taken for its own words."""

SAME = "(… lines as in the first input of this suite)"


def without_repeats(buckets: Sequence[BucketFeedback]) -> tuple[BucketFeedback, ...]:
    """Leave lines that all inputs of a suite have out of all but the first trial of it."""
    common = {bucket.suite: _common_lines(buckets, bucket.suite) for bucket in buckets}
    told: set[str] = set()
    return tuple(_of_bucket(bucket, common[bucket.suite], told) for bucket in buckets)


def _of_bucket(bucket: BucketFeedback, common: frozenset[str], told: set[str]) -> BucketFeedback:
    failing = []
    for trial in bucket.failing:
        failing.append(_shortened(trial, common) if bucket.suite in told else trial)
        told.add(bucket.suite)
    passing = bucket.passing and _shortened(bucket.passing, common)
    return replace(bucket, failing=tuple(failing), passing=passing)


def _common_lines(buckets: Sequence[BucketFeedback], suite: str) -> frozenset[str]:
    inputs = [lines for bucket in buckets if bucket.suite == suite for lines in _inputs(bucket)]
    counts = Counter(line for lines in inputs for line in set(lines))
    return frozenset(line for line, times in counts.items() if times == len(inputs) >= FEWEST)


def _inputs(bucket: BucketFeedback) -> Iterator[tuple[str, ...]]:
    for trial in (*bucket.failing, *filter(None, (bucket.passing,))):
        yield from (section.lines for section in trial.sections if section.kind == "input")


def _shortened(trial: TrialFeedback, common: frozenset[str]) -> TrialFeedback:
    return replace(trial, sections=tuple(_without(section, common) for section in trial.sections))


def _without(section: Section, common: frozenset[str]) -> Section:
    lines = [line for line in section.lines if line not in common]
    if section.kind != "input" or len(lines) == len(section.lines):
        return section
    return replace(section, lines=(SAME, *lines))

"""Lines of inputs that stood in an earlier one, as the agent's own words do and starting trees: told once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from pytest_agenteval.loop.feedback.content import BucketFeedback, Section, TrialFeedback
from pytest_agenteval.text.formatting import pluralize

FEWEST = 4
"""Lines in a row from which on they are not told again."""

Windows = set[tuple[str, ...]]
"""Every ``FEWEST`` lines in a row that inputs of a suite had so far."""


def without_repeats(buckets: Sequence[BucketFeedback]) -> tuple[BucketFeedback, ...]:
    """Say of lines that an earlier input of the suite has, in that order, how many they are."""
    told: dict[str, Windows] = {bucket.suite: set() for bucket in buckets}
    return tuple(_of_bucket(bucket, told[bucket.suite]) for bucket in buckets)


def _of_bucket(bucket: BucketFeedback, told: Windows) -> BucketFeedback:
    failing = tuple(_shortened(trial, told) for trial in bucket.failing)
    passing = _shortened(bucket.passing, told) if bucket.passing else None
    return replace(bucket, failing=failing, passing=passing)


def _shortened(trial: TrialFeedback, told: Windows) -> TrialFeedback:
    return replace(trial, sections=tuple(_without(section, told) for section in trial.sections))


def _without(section: Section, told: Windows) -> Section:
    if section.kind != "input":
        return section
    lines = tuple(_lines(section.lines, told))
    told.update(_windows(section.lines))
    return replace(section, lines=lines)


def _windows(lines: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(lines[at : at + FEWEST]) for at in range(len(lines) - FEWEST + 1)]


def _lines(lines: Sequence[str], told: Windows) -> Iterator[str]:
    starts = [at for at, window in enumerate(_windows(lines)) if window in told]
    repeated = {at + step for at in starts for step in range(FEWEST)}
    for is_repeated, group in groupby(range(len(lines)), repeated.__contains__):
        places = list(group)
        if is_repeated:
            yield f"(… {pluralize(len(places), 'line')} as in an input above)"
        else:
            yield from (lines[at] for at in places)

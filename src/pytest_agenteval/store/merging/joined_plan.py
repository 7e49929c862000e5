"""What joined runs set out to do together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.run_metadata import PlannedGroup, read_planned
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.store.runs import PLANNED, read_json

Group = tuple[str, str, str, str]
"""A suite, a model, a variant and a bucket."""


def joined_plan(runs: Sequence[Run]) -> tuple[PlannedGroup, ...]:
    """Give what the runs planned together: of shards what all of them did, also those that are not here.

    Of other runs it is their sum: no trial is in two of them.
    """
    shards = next((run.header.shards for run in runs if run.header.shards), None)
    if shards is not None:
        return shards.planned
    groups: dict[Group, list[PlannedGroup]] = {}
    for group in chain.from_iterable(map(_own_plan, runs)):
        groups.setdefault((group.suite, group.model, group.variant, group.bucket), []).append(group)
    shared = _tasks_in_several(runs)
    return tuple(
        PlannedGroup(
            *key,
            tasks=sum(group.tasks for group in parts) - shared[key],
            trials=sum(group.trials for group in parts),
            repetitions=min(group.repetitions for group in parts),
        )
        for key, parts in groups.items()
    )


def _own_plan(run: Run) -> tuple[PlannedGroup, ...]:
    """Give a run's plan as it is on disk: without repetitions that a look has added, which come in again."""
    path = run.folder / PLANNED
    return read_planned(read_json(path)) if path.is_file() and run.planned else run.planned


def _tasks_in_several(runs: Sequence[Run]) -> Counter[Group]:
    """Count the tasks that were tried in more runs than one, once for each run but one."""
    counts: Counter[tuple[Group, TrialKey]] = Counter()
    for run in runs:
        counts.update(set(_tasks(run)))
    shared: Counter[Group] = Counter()
    for (group, _), times in counts.items():
        shared[group] += times - 1
    return shared


def _tasks(run: Run) -> Iterator[tuple[Group, TrialKey]]:
    for entry in run.entries:
        key = entry.key
        yield (key.suite, key.model, key.variant, entry.bucket), key._replace(repetition=0)

"""What a run set out to do: without it nobody can say how many trials are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pytest_agenteval.records.trial import TrialKey
from pytest_agenteval.store.lines import VERSION


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """How many tasks and trials of one bucket are to be done with one model and variant.

    ``repetitions`` is that of the task which has fewest.
    """

    suite: str
    model: str
    variant: str
    bucket: str
    tasks: int
    trials: int
    repetitions: int


def planned_groups(trials: Iterable[tuple[TrialKey, str]]) -> tuple[PlannedGroup, ...]:
    """Count planned trials, given as pairs of key and bucket; groups come in order of appearance."""
    groups: dict[tuple[str, str, str, str], Counter[tuple[str, str]]] = {}
    for key, bucket in trials:
        group = (key.suite, key.model, key.variant, bucket)
        groups.setdefault(group, Counter())[key.task, key.agent] += 1
    return tuple(
        PlannedGroup(*group, len(tasks), tasks.total(), min(tasks.values()))
        for group, tasks in groups.items()
    )


def planned_json(groups: Iterable[PlannedGroup]) -> dict[str, Any]:
    """Give the groups as JSON values."""
    return {"v": VERSION, "groups": [asdict(group) for group in groups]}


def read_planned(data: Mapping[str, Any]) -> tuple[PlannedGroup, ...]:
    """Read what ``planned_json`` gave."""
    return tuple(PlannedGroup(**group) for group in data["groups"])

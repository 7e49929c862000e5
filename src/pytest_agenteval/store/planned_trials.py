"""Which trials a run sets out to do, each by its key: whoever goes on with it does these and no others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.file_writing import replace_json
from pytest_agenteval.store.json_lines import VERSION, check_version
from pytest_agenteval.store.runs import read_json
from pytest_agenteval.text.redaction import KNOWN_SECRETS

PLANNED_TRIALS = "planned-trials.json"

Owner = tuple[str, str, str, str]
"""A suite, an agent, a model and a variant."""


def write_planned_trials(folder: Path, keys: Iterable[TrialKey]) -> None:
    """Write down the trials of a run; every worker may, as all of them write the same."""
    groups: dict[Owner, dict[str, list[int]]] = {}
    for key in keys:
        owner = key.suite, key.agent, key.model, key.variant
        groups.setdefault(owner, {}).setdefault(key.task, []).append(key.repetition)
    lines = [
        {**dict(zip(("suite", "agent", "model", "variant"), owner, strict=True)), "tasks": _short(tasks)}
        for owner, tasks in groups.items()
    ]
    replace_json(folder / PLANNED_TRIALS, KNOWN_SECRETS.value({"v": VERSION, "groups": lines}))


def _short(tasks: dict[str, list[int]]) -> dict[str, Any]:
    """Give for each task how often it is tried; where repetitions do not count from 1, their numbers."""
    return {
        task: len(numbers) if sorted(numbers) == list(range(1, len(numbers) + 1)) else numbers
        for task, numbers in tasks.items()
    }


def read_planned_trials(folder: Path) -> frozenset[TrialKey] | None:
    """Read which trials a run sets out to do; None where nobody has written it down.

    Raises UsageMistake for a newer version's, ValueError or its like where it cannot be read.
    """
    path = folder / PLANNED_TRIALS
    if not path.is_file():
        return None
    data = read_json(path)
    check_version(data, path)
    return frozenset(
        TrialKey(group["suite"], task, group["agent"], group["model"], group["variant"], number)
        for group in data["groups"]
        for task, numbers in group["tasks"].items()
        for number in (numbers if isinstance(numbers, list) else range(1, numbers + 1))
    )

"""Which of the planned trials are run: by split, by sample, by how they ended last time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import get_args

from pytest_agenteval.errors import UsageMistake, nearest
from pytest_agenteval.records.plan import Plan, PlannedTask
from pytest_agenteval.records.trial import Ending, TrialKey
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.store.reader import read_run
from pytest_agenteval.store.runs import find_run

ENDINGS = (*get_args(Ending), "limited", "not_run")

Wanted = Callable[[Plan], bool]


def wanted(settings: Settings, tasks: Iterable[PlannedTask], runs: Path) -> list[Wanted]:
    """Give the questions a trial has to pass to be run, in the order in which they narrow the choice."""
    asked: list[Wanted] = []
    if settings.split != "all":
        asked.append(lambda plan: plan.task.split == settings.split)
    if settings.only:
        chosen = _ended(settings.only, runs)
        asked.append(chosen)
    if settings.sample is not None:
        split = settings.split
        keep = sample([task for task in tasks if split in ("all", task.split)], settings.sample, settings.seed)
        asked.append(lambda plan: (plan.task.suite, plan.task.id) in keep)
    return asked


def sample(tasks: Sequence[PlannedTask], size: int, seed: int) -> Collection[tuple[str, str]]:
    """Choose so many tasks of each bucket; the same seed chooses the same, whatever else is there.

    Each task has a place of its own in the order, so that a task that is added moves no other.
    """
    buckets: dict[tuple[str, str], dict[tuple[str, str], None]] = {}
    for task in tasks:
        buckets.setdefault((task.suite, task.bucket), {})[task.suite, task.id] = None
    return {
        name
        for names in buckets.values()
        for name in sorted(names, key=lambda name: _place(name, seed))[:size]
    }


def _place(name: tuple[str, str], seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0{name[0]}\0{name[1]}".encode()).digest()


def _ended(only: str, runs: Path) -> Wanted:
    """Read ``missed,errored`` or ``missed,errored@RUN``: trials that ended so in that run, else in the latest."""
    names, _, run = only.partition("@")
    endings = [name.strip() for name in names.split(",") if name.strip()]
    for name in endings:
        if name not in ENDINGS:
            hint = nearest(name, ENDINGS)
            raise UsageMistake(f"--agent-only: expected endings of {', '.join(ENDINGS)}; found {name!r}; {hint}")
    entries = read_run(find_run(runs, run or "latest")).entries
    ended = {entry.key: _names(entry.ending, entry.limit) for entry in entries}
    return lambda plan: bool(_of(ended, plan.key) & set(endings))


def _of(ended: dict[TrialKey, set[str]], key: TrialKey) -> set[str]:
    return ended.get(key, {"not_run"})


def _names(ending: str, limit: str) -> set[str]:
    return {ending, "limited"} if limit else {ending}

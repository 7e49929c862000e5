"""Which tasks of a very large run are in its page's list: the worst of each suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from msgspec.structs import replace

from pytest_agenteval.reports.html.index import NO_CHANGE, ReportIndex, TaskRow, TrialRow
from pytest_agenteval.reports.html.index_making import TrialSource

MOST_ROWS = 10_000
"""Trials from which on a page holds the worst alone: a browser searches no more rows at every letter."""


def keep_worst(
    index: ReportIndex, sources: Sequence[TrialSource]
) -> tuple[ReportIndex, Sequence[TrialSource], str]:
    """Give what of the trials is in the page, and a sentence where that is not all of them.

    Figures of suites and buckets stay those of all trials.
    """
    if len(index.trials) <= MOST_ROWS:
        return index, sources, ""
    tasks = [index.tasks[at] for at in _chosen(index)]
    kept = sorted(chain.from_iterable((*task.trials, *task.old) for task in tasks))
    places = {old: new for new, old in enumerate(kept)}
    moved = tuple(
        replace(
            task,
            trials=tuple(places[at] for at in task.trials),
            old=tuple(places[at] for at in task.old),
        )
        for task in tasks
    )
    trials = [index.trials[at] for at in kept]
    words = _words(len(tasks), len(index.tasks))
    return replace(index, tasks=moved, trials=trials), [sources[at] for at in kept], words


def _chosen(index: ReportIndex) -> list[int]:
    """Give the places of tasks that fit, in the page's order; suites share the room as equally as can be."""
    ranked = _worst_first(index)
    taken = [0] * len(index.suites)
    turns: list[tuple[int, int, int]] = []
    for place, at in enumerate(ranked):
        task = index.tasks[at]
        taken[task.suite] += len(task.trials) + len(task.old)
        turns.append((taken[task.suite], place, at))
    room = MOST_ROWS
    chosen: list[int] = []
    for _, _, at in sorted(turns):
        room -= len(index.tasks[at].trials) + len(index.tasks[at].old)
        if room < 0 and chosen:
            break
        chosen.append(at)
    return sorted(chosen)


def _worst_first(index: ReportIndex) -> list[int]:
    """Order the places of tasks; of those that are equally bad the first of each bucket come first."""
    equals: Counter[tuple[object, ...]] = Counter()
    keys: list[tuple[tuple[int, float], int]] = []
    for task in index.tasks:
        rank = _rank(task, index.trials)
        equals[task.suite, task.bucket, rank] += 1
        keys.append((rank, equals[task.suite, task.bucket, rank]))
    return sorted(range(len(keys)), key=keys.__getitem__)


def _rank(task: TaskRow, trials: Sequence[TrialRow]) -> tuple[int, float]:
    """Order tasks: what errored, what became worse, what became better, then the lowest score."""
    change = task.change or 0.0
    if any(trials[at].ending == "errored" for at in task.trials):
        return 0, 0.0
    if abs(change) > NO_CHANGE:
        return (1, change) if change < 0 else (2, -change)
    return 3, 2.0 if task.score is None else task.score


def _words(kept: int, of_all: int) -> str:
    return (
        f"The list and its filters hold the {kept:,} worst of {of_all:,} tasks; all figures of suites and "
        f"buckets are of all. The other {of_all - kept:,}: agenteval show NAME opens one, "
        "agenteval report RUN -o trials.csv (--rows trials) lists all."
    )

"""Which buckets and tasks of a capability suite are to be held to what they have reached, and which no more.

Passes count in mature runs only, misses in every run: what is promoted fails the next run that misses it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from pytest_agenteval.compare.scoring.broken_tasks import is_broken
from pytest_agenteval.compare.scoring.null_runs import pass_rates
from pytest_agenteval.loop.suite_history import SuiteHistory, SuiteRun, SuiteTask, trials_by_task
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.group_statistics import grades_lacking_judge
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.tasks.suite_spec import Regression
from pytest_agenteval.text.formatting import pluralize

STRAGGLER_TRIALS = 10
"""From so many trials on, a task that none passes is told: agent, task or grader may be the reason."""


MOST_NULL_MISSES = 0.05
"""The share of runs in which nothing changed that may have a miss, by which the passes needed are counted."""


class TaskGroup(FrozenValue, frozen=True):
    """A bucket with its tasks of today, or a single task."""

    name: str
    tasks: tuple[SuiteTask, ...]


class Standing(FrozenValue, frozen=True):
    """How far a group has come: all passed in ``in_a_row`` of the newest mature runs.

    ``trials`` of these runs passed, ``unproven`` of them without what only a judge decides. ``reason`` says
    what keeps the group from being promoted; it is empty where nothing does.
    """

    group: TaskGroup
    in_a_row: int
    trials: int
    unproven: int
    reason: str


class NullMisses(FrozenValue, frozen=True):
    """How often a run in which nothing changed has a miss in ``tasks`` of which no trial may miss.

    Each has ``passes`` or more in the mature runs. The ``chance`` is None where most tasks were tried once.
    With ``needed`` passes of each, and no miss, it would be at most 5 %; None where 100 would not do.
    """

    tasks: int
    passes: int
    chance: float | None
    needed: int | None


class Lapse(FrozenValue, frozen=True):
    """A group with trials that did not pass: how many of how many, and the newest run with one."""

    group: TaskGroup
    missed: int
    trials: int
    newest: str


def buckets_of(tasks: Iterable[SuiteTask]) -> tuple[TaskGroup, ...]:
    """Give the buckets of tasks, in order of appearance."""
    buckets: dict[str, list[SuiteTask]] = {}
    for task in tasks:
        buckets.setdefault(task.bucket, []).append(task)
    return tuple(TaskGroup(bucket, tuple(of_bucket)) for bucket, of_bucket in buckets.items())


def tasks_alone(tasks: Iterable[SuiteTask]) -> tuple[TaskGroup, ...]:
    """Give each task as a group of its own."""
    return tuple(TaskGroup(task.id, (task,)) for task in tasks)


def standing(group: TaskGroup, history: SuiteHistory) -> Standing:
    """Say how far a group has come, and what it lacks."""
    newest = _passed_in_a_row(group, history)
    passes = [entry for run in newest for entry in _trials(group, run)]
    return Standing(
        group,
        len(newest),
        len(passes),
        sum(bool(grades_lacking_judge(entry)) for entry in passes),
        _reason(group, history, len(newest)),
    )


def null_misses(
    held: Collection[str], tasks: Iterable[SuiteTask], history: SuiteHistory
) -> NullMisses | None:
    """Say how often a run misses in the tasks of these ids where nothing changed; None where none was tried.

    By all dev tasks in the mature runs (``PassRates``), for a run that repeats tasks as the newest does.
    """
    dev = {task.id for task in tasks if not task.is_held_out}
    trials = {task: own for task, own in trials_by_task(history.mature).items() if task in dev}
    counts = [(sum(map(_passed, trials[task])), len(trials[task])) for task in trials if task in held]
    if not counts:
        return None
    newest = trials_by_task(history.mature[:1])
    repetitions = max(1, round(sum(map(len, newest.values())) / len(newest)))
    rates = pass_rates([[*map(_passed, own)] for own in trials.values()])
    return NullMisses(
        len(counts),
        min(passed for passed, _ in counts),
        None if rates is None else rates.chance_of_a_miss(counts, repetitions),
        None if rates is None else rates.passes_needed(len(counts), repetitions, MOST_NULL_MISSES),
    )


def lapse(group: TaskGroup, runs: Sequence[SuiteRun]) -> Lapse | None:
    """Give the misses of a group in these runs, newest first; None where it has none."""
    trials = [entry for run in runs for entry in _trials(group, run)]
    missed = sum(entry.ending != "passed" for entry in trials)
    newest = next((run.name for run in runs if _misses(group, run)), "")
    return Lapse(group, missed, len(trials), newest) if missed else None


def _passed_in_a_row(group: TaskGroup, history: SuiteHistory) -> list[SuiteRun]:
    """Give the newest mature runs that passed the whole group, up to the first miss in any run."""
    dev = {task.id for task in group.tasks if not task.is_held_out}
    passed: list[SuiteRun] = []
    for run, immature in history.runs:
        if not dev or _misses(group, run) or not (immature or dev <= run.tasks):
            break
        if not immature:
            passed.append(run)
    return passed


def _reason(group: TaskGroup, history: SuiteHistory, in_a_row: int) -> str:
    if in_a_row == history.needed:
        return ""
    if all(task.is_held_out for task in group.tasks):
        return "no task of split dev"
    missed = lapse(group, [run for run, _ in history.runs])
    if missed:
        return f"{missed.missed} of {pluralize(missed.trials, 'trial')} missed, the newest in {missed.newest}"
    new = [
        task.id
        for task in group.tasks
        if not task.is_held_out and any(task.id not in run.tasks for run in history.mature)
    ]
    return f"new: {', '.join(new)}" if new else "too few mature runs"


def _trials(group: TaskGroup, run: SuiteRun) -> list[JournalEntry]:
    ids = {task.id for task in group.tasks}
    return [entry for entry in run.entries if entry.key.task in ids and entry.ending != "errored"]


def _misses(group: TaskGroup, run: SuiteRun) -> bool:
    return any(entry.ending != "passed" for entry in _trials(group, run))


def unpromoted(tasks: Sequence[SuiteTask], regression: Regression, *, single: bool) -> Iterator[TaskGroup]:
    """Give the buckets that are not promoted, or the ``single`` tasks of such buckets that are not."""
    if not single:
        yield from (bucket for bucket in buckets_of(tasks) if bucket.name not in regression.buckets)
        return
    for task in tasks_alone(tasks):
        if task.name not in regression.tasks and task.tasks[0].bucket not in regression.buckets:
            yield task


def promoted(tasks: Sequence[SuiteTask], regression: Regression) -> Iterator[TaskGroup]:
    """Give the buckets and the single tasks that are promoted, as far as the suite has them."""
    yield from (bucket for bucket in buckets_of(tasks) if bucket.name in regression.buckets)
    yield from (task for task in tasks_alone(tasks) if task.name in regression.tasks)


def stragglers(tasks: Iterable[SuiteTask], history: SuiteHistory) -> list[str]:
    """Name the tasks of which 10 trials or more of the mature runs ended, and none passed."""
    trials = trials_by_task(history.mature)
    return [
        task.id
        for task in tasks
        if len(own := trials.get(task.id, [])) >= STRAGGLER_TRIALS and not any(map(_passed, own))
    ]


def broken(tasks: Iterable[SuiteTask], history: SuiteHistory) -> list[str]:
    """Name the tasks that every trial of the mature runs before passed, and none of the newest.

    Only with 3 trials or more on either side.
    """
    new, old = trials_by_task(history.mature[:1]), trials_by_task(history.mature[1:])
    return [
        task.id
        for task in tasks
        if is_broken(
            [*map(_passed, old.get(task.id, []))],
            [*map(_passed, new.get(task.id, []))],
        )
    ]


def _passed(entry: JournalEntry) -> bool:
    return entry.ending == "passed"

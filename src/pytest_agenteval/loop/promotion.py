"""Which buckets and tasks of a capability suite must not miss any more, by the suite's runs, newest first.

A mature run carried out all that it planned, nothing of it errored, and it planned no part of the suite only.
Passes count in mature runs only, misses in every run: what is promoted fails the next run that misses it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count

from pytest_agenteval.compare.scoring.aggregates import is_broken
from pytest_agenteval.compare.scoring.power import pass_rates
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.group_statistics import grades_lacking_judge
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import RunHeader
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.suite_spec import Regression
from pytest_agenteval.text.formatting import pluralize

# A task without a pass in this many trials is listed: the reason may be the agent, the task or a grader.
STRAGGLER_TRIALS = 10

# The share of unchanged runs that may have a miss, from which the number of passes needed is computed.
MOST_NULL_MISSES = 0.05


class SuiteTask(FrozenValue, frozen=True):
    """A task as it stands in the suite's files today."""

    id: str
    bucket: str
    is_held_out: bool = False


class SuiteRun(FrozenValue, frozen=True):
    """What a run has of a suite with the models that count: the trials that ended, of so many planned."""

    name: str
    planned: int
    entries: tuple[JournalEntry, ...]

    @property
    def tasks(self) -> frozenset[str]:
        """The ids of the tasks with a trial that ended."""
        return frozenset(entry.key.task for entry in self.entries)

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.key.model for entry in self.entries))


class SuiteHistory(FrozenValue, frozen=True):
    """The newest runs of a suite, newest first, back to the one that is the ``needed``-th mature one.

    Each has the reason why it is not mature, which is empty where it is.
    """

    needed: int
    runs: tuple[tuple[SuiteRun, str], ...]

    @property
    def mature(self) -> tuple[SuiteRun, ...]:
        return tuple(run for run, reason in self.runs if not reason)


def counted_models(header: RunHeader, named: str = "") -> frozenset[str]:
    """Give the names of the models that count: the ``named`` one, or else all that are not offline."""
    # A run that grades stored trials again has no trials of its own.
    if header.regraded:
        return frozenset()
    # Nobody ships an offline model, so what it passes promises nothing.
    counted = (each for each in header.models if (each.name == named if named else not each.offline))
    return frozenset(model.name for model in counted)


def suite_run(run: Run, suite: str, models: Collection[str]) -> SuiteRun | None:
    """Give the part of a run that is of a suite with these models; None where it planned none of it."""
    entries = tuple(entry for entry in run.entries if entry.key.suite == suite and entry.key.model in models)
    groups = [group for group in run.planned if group.suite == suite and group.model in models]
    if not entries and not groups:
        return None
    return SuiteRun(run.folder.name, sum(group.trials for group in groups), entries)


def suite_history(runs: Iterable[SuiteRun], tasks: Iterable[SuiteTask], needed: int) -> SuiteHistory:
    """Read a suite's runs, newest first, until ``needed`` of them are mature; older ones are not read.

    ``tasks`` are today's. A run left tasks out if it lacks one of split dev that an older run has: a task
    that no older run has may be new.
    """
    dev = frozenset(task.id for task in tasks if not task.is_held_out)
    older, looked_at, mature = _OlderRuns(runs), list[tuple[SuiteRun, str]](), 0
    for place, run in enumerate(older.all()):
        reason = _immaturity(run) or _missing_tasks(run, dev, older, place)
        looked_at.append((run, reason))
        mature += not reason
        if mature == needed:
            break
    return SuiteHistory(needed, tuple(looked_at))


def _immaturity(run: SuiteRun) -> str:
    errored = sum(entry.ending == "errored" for entry in run.entries)
    if not run.planned:
        return "nobody knows how many trials were planned"
    # A task without a trial would look as if it had not missed.
    if len(run.entries) < run.planned:
        return f"{run.planned - len(run.entries)} of {run.planned} planned trials never ended"
    if errored:
        return f"{errored} of {len(run.entries)} trials errored"
    # The same trials must not count in two runs.
    taken_over = sum(entry.origin is not None and bool(entry.origin.run) for entry in run.entries)
    return f"{taken_over} of {len(run.entries)} trials taken over from another run" if taken_over else ""


def _missing_tasks(run: SuiteRun, dev: frozenset[str], older: _OlderRuns, place: int) -> str:
    missing = dev - run.tasks
    if missing == dev:
        return "no task of split dev"
    if missing and any(missing & earlier.tasks for earlier in older.all(place + 1)):
        return f"{len(dev) - len(missing)} of {len(dev)} tasks"
    return ""


class _OlderRuns:
    """Runs that are read only when they are looked at: one may be large, and few are needed."""

    def __init__(self, runs: Iterable[SuiteRun]) -> None:
        self._unread, self._read = iter(runs), list[SuiteRun]()

    def all(self, start: int = 0) -> Iterator[SuiteRun]:
        for place in count(start):
            while place >= len(self._read):
                run = next(self._unread, None)
                if run is None:
                    return
                self._read.append(run)
            yield self._read[place]


def _trials_by_task(runs: Sequence[SuiteRun]) -> dict[str, list[JournalEntry]]:
    trials: dict[str, list[JournalEntry]] = {}
    for run in runs:
        for entry in run.entries:
            if entry.ending != "errored":
                trials.setdefault(entry.key.task, []).append(entry)
    return trials


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


def standing(group: TaskGroup, history: SuiteHistory) -> Standing:
    dev = {task.id for task in group.tasks if not task.is_held_out}
    passed: list[SuiteRun] = []
    for run, immature in history.runs:
        # A miss in an immature run ends the series, and passes there do not lengthen it.
        if not dev or _misses(group, run) or not (immature or dev <= run.tasks):
            break
        if not immature:
            passed.append(run)
    passes = [entry for run in passed for entry in _trials(group, run)]
    return Standing(
        group,
        len(passed),
        len(passes),
        sum(bool(grades_lacking_judge(entry)) for entry in passes),
        _lacking_reason(group, history, len(passed)),
    )


def null_misses(
    held: Collection[str], tasks: Iterable[SuiteTask], history: SuiteHistory
) -> NullMisses | None:
    """Say how often a run where nothing changed misses in the tasks ``held``; None where none was tried.

    The rates are those of all dev tasks in the mature runs (``PassRates``); the run repeats tasks as the
    newest one does.
    """
    dev = {task.id for task in tasks if not task.is_held_out}
    # Other tasks of the suite show how much its trials scatter, which the few that never missed cannot.
    trials = {task: own for task, own in _trials_by_task(history.mature).items() if task in dev}
    counts = [(sum(map(_passed, trials[task])), len(trials[task])) for task in trials if task in held]
    if not counts:
        return None
    newest = _trials_by_task(history.mature[:1])
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


def _lacking_reason(group: TaskGroup, history: SuiteHistory, in_a_row: int) -> str:
    if in_a_row == history.needed:
        return ""
    if all(task.is_held_out for task in group.tasks):
        return "no task of split dev"
    # Misses count in every run, mature or not: what is promoted would have failed there.
    missed = lapse(group, [run for run, _ in history.runs])
    if missed:
        return f"{missed.missed} of {pluralize(missed.trials, 'trial')} missed, the newest in {missed.newest}"
    # A suite that grows does not start again: only the bucket of the new task waits.
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
    """Give the buckets that are not promoted, or with ``single`` the tasks of such buckets that are not."""
    if not single:
        yield from (bucket for bucket in buckets_of(tasks) if bucket.name not in regression.buckets)
        return
    for task in tasks:
        if task.id not in regression.tasks and task.bucket not in regression.buckets:
            yield TaskGroup(task.id, (task,))


def promoted(tasks: Sequence[SuiteTask], regression: Regression) -> Iterator[TaskGroup]:
    """Give the buckets and the single tasks that are promoted, as far as the suite has them."""
    yield from (bucket for bucket in buckets_of(tasks) if bucket.name in regression.buckets)
    yield from (TaskGroup(task.id, (task,)) for task in tasks if task.id in regression.tasks)


def stragglers(tasks: Iterable[SuiteTask], history: SuiteHistory) -> list[str]:
    """Name the tasks of which 10 trials or more of the mature runs ended, and none passed."""
    trials = _trials_by_task(history.mature)
    return [
        task.id
        for task in tasks
        if len(own := trials.get(task.id, [])) >= STRAGGLER_TRIALS and not any(map(_passed, own))
    ]


def newly_broken(tasks: Iterable[SuiteTask], history: SuiteHistory) -> list[str]:
    """Name the tasks that passed in every trial of the mature runs before, and in none of the newest.

    Only those with 3 trials or more on either side.
    """
    new, old = _trials_by_task(history.mature[:1]), _trials_by_task(history.mature[1:])
    return [
        task.id
        for task in tasks
        if is_broken([*map(_passed, old.get(task.id, []))], [*map(_passed, new.get(task.id, []))])
    ]


def _passed(entry: JournalEntry) -> bool:
    return entry.ending == "passed"

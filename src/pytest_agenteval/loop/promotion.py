"""Which buckets and tasks of a capability suite must not miss any more, by the suite's runs, newest first.

A mature run carried out all that it planned, nothing of it errored, and it planned no part of the suite only.
Passes count in mature runs only, misses in every run: what is promoted fails the next run that misses it.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from itertools import tee
from pathlib import Path

from pytest_agenteval.compare.scoring.aggregates import is_broken
from pytest_agenteval.compare.scoring.power import pass_rates
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.reports.group_statistics import grades_lacking_judge
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import RunHeader
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.load import PROMOTED_FILE, promoted_beside
from pytest_agenteval.tasks.suite_spec import Regression
from pytest_agenteval.text.errors import writing
from pytest_agenteval.text.formatting import pluralize

# A task without a pass in this many trials is listed: the reason may be the agent, the task or a grader.
STRAGGLER_TRIALS = 10

# The share of unchanged runs that may have a miss, from which the number of passes needed is computed.
MOST_NULL_MISSES = 0.05

_HEAD = "# Written by agenteval promote and demote: a miss of these buckets and tasks is a failure.\n"


class SuiteTask(FrozenValue, frozen=True):
    """A task as it stands in the suite's files today."""

    id: str
    bucket: str
    is_held_out: bool = False


class TaskGroup(FrozenValue, frozen=True):
    """A bucket with its tasks of today, or a single task."""

    name: str
    tasks: tuple[SuiteTask, ...]

    @property
    def dev(self) -> frozenset[str]:
        """The ids of the tasks of split dev."""
        return frozenset(task.id for task in self.tasks if not task.is_held_out)


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

    def trials(self, group: TaskGroup) -> list[JournalEntry]:
        """Give the trials of a group that did not error."""
        ids = {task.id for task in group.tasks}
        return [entry for entry in self.entries if entry.key.task in ids and entry.ending != "errored"]

    def misses(self, group: TaskGroup) -> bool:
        return not all(map(_passed, self.trials(group)))


class SuiteHistory(FrozenValue, frozen=True):
    """The newest runs of a suite, newest first, back to the one that is the ``needed``-th mature one.

    Each has the reason why it is not mature, which is empty where it is.
    """

    needed: int
    runs: tuple[tuple[SuiteRun, str], ...]

    @property
    def mature(self) -> tuple[SuiteRun, ...]:
        return tuple(run for run, reason in self.runs if not reason)


class GroupStanding(FrozenValue, frozen=True):
    """How far a bucket or a single task has come: all passed in ``runs_in_a_row`` of the newest mature runs.

    ``tasks`` of it are of split dev, ``held_out`` are not. ``trials`` of these runs passed, ``unproven`` of
    them without what only a judge decides. ``lacks`` says what keeps it from being promoted; empty: nothing.
    """

    name: str
    tasks: int
    held_out: int
    runs_in_a_row: int
    trials: int
    unproven: int
    lacks: str


class NullMisses(FrozenValue, frozen=True):
    """How often a run in which nothing changed has a miss in ``tasks`` of which no trial may miss.

    Each has ``passes`` or more in the mature runs. The ``chance`` is None where most tasks were tried once.
    With ``needed`` passes of each, and no miss, it would be at most 5 %; None where 100 would not do.
    """

    tasks: int
    passes: int
    chance: float | None
    needed: int | None


class UncountedRun(FrozenValue, frozen=True):
    """A run that is not mature, and why."""

    run: str
    why: str


class SuiteChange(FrozenValue, frozen=True):
    """How the file of promoted names changes: lines of a unified diff, if any; and whether it was written."""

    file: str
    diff: tuple[str, ...] = ()
    written: bool = False


class SuitePromotion(FrozenValue, frozen=True):
    """What of a suite may be promoted, by the ``needed`` newest mature runs with ``models``.

    ``buckets`` and ``tasks`` are those that may, or now are; ``change`` is that of the file that names them.
    ``null_misses`` says how often that fails a run in which nothing changed, ``null_misses_in_all`` how often
    with what was promoted before; both are null where there is none. ``offline_models`` would count if one
    was named. Stragglers never passed; broken ones no longer do.
    """

    suite: str
    kind: str
    needed: int
    runs: tuple[str, ...]
    models: tuple[str, ...]
    not_counted: tuple[UncountedRun, ...]
    offline_models: tuple[str, ...]
    groups: tuple[GroupStanding, ...]
    buckets: tuple[str, ...]
    tasks: tuple[str, ...]
    stragglers: tuple[str, ...]
    broken: tuple[str, ...]
    null_misses: NullMisses | None
    null_misses_in_all: NullMisses | None
    change: SuiteChange


class PromotionDocument(Document, frozen=True, kw_only=True):
    """What may be promoted in each suite, and with ``--write`` was."""

    suites: tuple[SuitePromotion, ...]


class GroupLapse(FrozenValue, frozen=True):
    """A promoted bucket or task, of which ``missed`` of ``trials`` in the last runs did not pass."""

    name: str
    missed: int
    trials: int
    newest: str


class SuiteDemotion(FrozenValue, frozen=True):
    """What a suite has promoted, with its misses in the last ``runs``; and how the file of that changes.

    ``demoted`` are the names that were to be moved back, and ``change`` is that of the file that names them;
    without names neither is there. ``offline_models`` would count if one was named.
    """

    suite: str
    promoted: tuple[str, ...]
    runs: tuple[str, ...]
    lapses: tuple[GroupLapse, ...]
    offline_models: tuple[str, ...]
    demoted: tuple[str, ...]
    change: SuiteChange | None


class DemotionDocument(Document, frozen=True, kw_only=True):
    """What is promoted in each suite and has missed since, or what was moved back."""

    suites: tuple[SuiteDemotion, ...]


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
    dev = TaskGroup("", tuple(tasks)).dev
    # A run is read only when it is looked at: one may be large, and few are needed.
    (unread,) = tee(runs, 1)
    looked_at, mature = list[tuple[SuiteRun, str]](), 0
    for run in unread:
        reason, missing = _immaturity(run), dev - run.tasks
        if not reason and missing == dev:
            reason = "no task of split dev"
        elif not reason and missing and any(missing & older.tasks for older in copy(unread)):
            reason = f"{len(dev) - len(missing)} of {pluralize(len(dev), 'task')}"
        looked_at.append((run, reason))
        mature += not reason
        if mature == needed:
            break
    return SuiteHistory(needed, tuple(looked_at))


def _immaturity(run: SuiteRun) -> str:
    errored = sum(entry.ending == "errored" for entry in run.entries)
    if not run.planned:
        return "the number of planned trials is unknown"
    # A task without a trial would look as if it had not missed.
    if len(run.entries) < run.planned:
        return f"{run.planned - len(run.entries)} of {pluralize(run.planned, 'planned trial')} never ended"
    trials = pluralize(len(run.entries), "trial")
    if errored:
        return f"{errored} of {trials} errored"
    # The same trials must not count in two runs.
    taken_over = sum(entry.origin is not None and bool(entry.origin.run) for entry in run.entries)
    return f"{taken_over} of {trials} reused from another run" if taken_over else ""


def _trials_by_task(runs: Sequence[SuiteRun]) -> dict[str, list[bool]]:
    """Give for each task whether each of its trials passed; those that errored are left out."""
    trials: dict[str, list[bool]] = {}
    for run in runs:
        for entry in run.entries:
            if entry.ending != "errored":
                trials.setdefault(entry.key.task, []).append(_passed(entry))
    return trials


def _passed(entry: JournalEntry) -> bool:
    return entry.ending == "passed"


def buckets_of(tasks: Iterable[SuiteTask]) -> tuple[TaskGroup, ...]:
    """Give the buckets of tasks, in order of appearance."""
    buckets: dict[str, list[SuiteTask]] = {}
    for task in tasks:
        buckets.setdefault(task.bucket, []).append(task)
    return tuple(TaskGroup(bucket, tuple(of_bucket)) for bucket, of_bucket in buckets.items())


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


def standing(group: TaskGroup, history: SuiteHistory) -> GroupStanding:
    """Say how far a group has come, and what it lacks."""
    passed: list[SuiteRun] = []
    for run, immature in history.runs:
        # A miss in an immature run ends the series, and passes there do not lengthen it.
        if not group.dev or run.misses(group) or not (immature or group.dev <= run.tasks):
            break
        if not immature:
            passed.append(run)
    passes = [entry for run in passed for entry in run.trials(group)]
    return GroupStanding(
        name=group.name,
        tasks=len(group.dev),
        held_out=len(group.tasks) - len(group.dev),
        runs_in_a_row=len(passed),
        trials=len(passes),
        unproven=sum(bool(grades_lacking_judge(entry)) for entry in passes),
        lacks=_lacking_reason(group, history, len(passed)),
    )


def _lacking_reason(group: TaskGroup, history: SuiteHistory, in_a_row: int) -> str:
    if in_a_row == history.needed:
        return ""
    if not group.dev:
        return "no task of split dev"
    # Misses count in every run, mature or not: what is promoted would have failed there.
    missed = lapse(group, [run for run, _ in history.runs])
    if missed:
        return f"{missed.missed} of {pluralize(missed.trials, 'trial')} missed, the newest in {missed.newest}"
    # A suite that grows does not start again: only the bucket of the new task waits.
    dev = (task.id for task in group.tasks if task.id in group.dev)
    new = [task for task in dev if any(task not in run.tasks for run in history.mature)]
    return f"new tasks: {', '.join(new)}" if new else "too few mature runs"


def lapse(group: TaskGroup, runs: Sequence[SuiteRun]) -> GroupLapse | None:
    """Give the misses of a group in these runs, newest first; None where it has none."""
    trials = [entry for run in runs for entry in run.trials(group)]
    missed = sum(not _passed(entry) for entry in trials)
    newest = next((run.name for run in runs if run.misses(group)), "")
    return GroupLapse(group.name, missed, len(trials), newest) if missed else None


def null_misses(
    held: Collection[str], tasks: Iterable[SuiteTask], history: SuiteHistory
) -> NullMisses | None:
    """Say how often a run where nothing changed misses in the tasks ``held``; None where none was tried.

    The rates are those of all dev tasks in the mature runs (``PassRates``); the run repeats tasks as the
    newest one does.
    """
    dev = TaskGroup("", tuple(tasks)).dev
    # Other tasks of the suite show how much its trials scatter, which the few that never missed cannot.
    trials = {task: own for task, own in _trials_by_task(history.mature).items() if task in dev}
    counts = [(sum(own), len(own)) for task, own in trials.items() if task in held]
    if not counts:
        return None
    newest = _trials_by_task(history.mature[:1])
    repetitions = max(1, round(sum(map(len, newest.values())) / len(newest)))
    rates = pass_rates(list(trials.values()))
    return NullMisses(
        len(counts),
        min(passed for passed, _ in counts),
        None if rates is None else rates.chance_of_a_miss(counts, repetitions),
        None if rates is None else rates.passes_needed(len(counts), repetitions, MOST_NULL_MISSES),
    )


def stragglers(tasks: Iterable[SuiteTask], history: SuiteHistory) -> list[str]:
    """Name the tasks of which 10 trials or more of the mature runs ended, and none passed."""
    trials = _trials_by_task(history.mature)
    ended = {task.id: trials.get(task.id, []) for task in tasks}
    return [task for task, own in ended.items() if len(own) >= STRAGGLER_TRIALS and not any(own)]


def newly_broken(tasks: Iterable[SuiteTask], history: SuiteHistory) -> list[str]:
    """Name the tasks that passed in every trial of the mature runs before, and in none of the newest.

    Only those with 3 trials or more on either side.
    """
    new, old = _trials_by_task(history.mature[:1]), _trials_by_task(history.mature[1:])
    return [task.id for task in tasks if is_broken(old.get(task.id, []), new.get(task.id, []))]


def change_promoted(suite_file: Path, names: Regression, write: bool) -> SuiteChange:
    """Compute the change of the file beside a suite's that promotes these names, and with ``write`` make it.

    Raises UsageMistake where the file cannot be written.
    """
    file = suite_file.with_name(PROMOTED_FILE)
    name = short_path(file)
    if names == promoted_beside(suite_file):
        return SuiteChange(name)
    before, after = file.read_text(encoding="utf-8") if file.is_file() else "", _promoted_text(names)
    if write:
        with writing(name):
            if after:
                file.write_text(after, encoding="utf-8", newline="\n")
            else:
                file.unlink()
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="")
    return SuiteChange(name, tuple(lines), write)


def _promoted_text(names: Regression) -> str:
    """Give the text of the file that promotes these names; empty where there are none."""
    import yaml

    lists = {key: list(names_of) for key in ("buckets", "tasks") if (names_of := getattr(names, key))}
    # Our reader takes a text in quotes for what it is, and YAML's own words are quoted by this one.
    return _HEAD + yaml.safe_dump(lists, allow_unicode=True, sort_keys=False, width=1_000) if lists else ""

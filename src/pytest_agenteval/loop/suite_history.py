"""The runs of a suite, newest first: which of them are mature, and why the others are not.

A mature run carried out all that it planned, nothing of it errored, and it planned no part of the suite only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import RunHeader
from pytest_agenteval.store.run_reader import Run


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
        """The names of the models, in the order of the trials."""
        return tuple(dict.fromkeys(entry.key.model for entry in self.entries))


class SuiteHistory(FrozenValue, frozen=True):
    """The newest runs of a suite, newest first, back to the one that is the ``needed``-th mature one.

    Each has the reason why it is not mature, which is empty where it is.
    """

    needed: int
    runs: tuple[tuple[SuiteRun, str], ...]

    @property
    def mature(self) -> tuple[SuiteRun, ...]:
        """The mature runs, at most ``needed``."""
        return tuple(run for run, reason in self.runs if not reason)


def counted_models(header: RunHeader, named: str = "") -> frozenset[str]:
    """Give the names of the run's models that count: the ``named`` one, or else all that are not offline.

    A run that grades stored trials again has none: its trials are another run's.
    """
    if header.regraded:
        return frozenset()
    return frozenset(
        model.name for model in header.models if (model.name == named if named else not model.offline)
    )


def suite_run(run: Run, suite: str, models: Collection[str]) -> SuiteRun | None:
    """Give what a run has of a suite with these models; None where it planned nothing of it."""
    entries = tuple(entry for entry in run.entries if entry.key.suite == suite and entry.key.model in models)
    groups = [group for group in run.planned if group.suite == suite and group.model in models]
    if not entries and not groups:
        return None
    return SuiteRun(run.folder.name, sum(group.trials for group in groups), entries)


def suite_history(runs: Iterable[SuiteRun], tasks: Iterable[SuiteTask], needed: int) -> SuiteHistory:
    """Look back over a suite's runs, newest first, until so many are mature; older ones are not read.

    ``tasks`` are today's. A run left tasks out if it lacks one of split dev that an older run has: one that
    no older run has may have been written since.
    """
    dev = frozenset(task.id for task in tasks if not task.is_held_out)
    older, looked_at, mature = _Older(runs), list[tuple[SuiteRun, str]](), 0
    for place, run in enumerate(older.all()):
        reason = _immaturity(run) or _left_out(run, dev, older, place)
        looked_at.append((run, reason))
        mature += not reason
        if mature == needed:
            break
    return SuiteHistory(needed, tuple(looked_at))


def _immaturity(run: SuiteRun) -> str:
    errored = sum(entry.ending == "errored" for entry in run.entries)
    if not run.planned:
        return "nobody knows how many trials were planned"
    if len(run.entries) < run.planned:
        return f"{run.planned - len(run.entries)} of {run.planned} planned trials never ended"
    if errored:
        return f"{errored} of {len(run.entries)} trials errored"
    taken_over = sum(entry.origin is not None and bool(entry.origin.run) for entry in run.entries)
    return f"{taken_over} of {len(run.entries)} trials taken over from another run" if taken_over else ""


def _left_out(run: SuiteRun, dev: frozenset[str], older: _Older, place: int) -> str:
    missing = dev - run.tasks
    if missing == dev:
        return "no task of split dev"
    if missing and any(missing & earlier.tasks for earlier in older.all(place + 1)):
        return f"{len(dev) - len(missing)} of {len(dev)} tasks"
    return ""


class _Older:
    """Runs that are read when they are first looked at."""

    def __init__(self, runs: Iterable[SuiteRun]) -> None:
        self._unread, self._read = iter(runs), list[SuiteRun]()

    def all(self, start: int = 0) -> Iterator[SuiteRun]:
        """Give the runs from one place on."""
        place = start
        while place < len(self._read) or self._reads_on():
            if place < len(self._read):
                yield self._read[place]
                place += 1

    def _reads_on(self) -> bool:
        run = next(self._unread, None)
        if run is not None:
            self._read.append(run)
        return run is not None


def trials_by_task(runs: Sequence[SuiteRun]) -> dict[str, list[JournalEntry]]:
    """Give the trials of each task that have not errored, in the order of the runs."""
    trials: dict[str, list[JournalEntry]] = {}
    for run in runs:
        for entry in run.entries:
            if entry.ending != "errored":
                trials.setdefault(entry.key.task, []).append(entry)
    return trials

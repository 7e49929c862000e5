"""The run as this process writes it down and reads it back, with what dead workers have written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_agenteval.engine.jobs import NotRun, TrialObserver
from pytest_agenteval.records.plan import Plan, TrialKey
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.planning.parametrization import PlannedItem
from pytest_agenteval.session.run_signals import DEAD_WORKERS
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_documents import Group
from pytest_agenteval.store.run_reader import Run, load_run

if TYPE_CHECKING:
    from pytest_agenteval.session.run_info import RunInfo


def note_dead_worker(folder: Path, worker: str) -> None:
    """Note, for the other workers, that one has died."""
    with suppress(OSError), (folder / DEAD_WORKERS).open("a", encoding="utf-8", newline="\n") as names:
        names.write(f"{worker}\n")


def dead_processes(info: RunInfo) -> Iterator[str]:
    """Give the workers that died in this pytest, by their names in journals: ``gw0-PID``."""
    names, since = info.folder / DEAD_WORKERS, datetime.fromisoformat(info.resumed_at or info.started_at)
    for worker in names.read_text(encoding="utf-8").split() if names.exists() else ():
        for journal in info.folder.glob(f"journal-{worker}-*.jsonl"):
            # An older journal belongs to a worker of the same name, before the run was resumed.
            if journal.stat().st_mtime >= since.timestamp():
                yield journal.stem.removeprefix("journal-")


def group_of_item(item: PlannedItem) -> Group:
    return item.task.suite, item.case.model.name, item.case.variant.name


class RunJournal(TrialObserver):
    """Writes down each trial that begins or ends, before anybody else learns of it.

    In a worker it also gives trials that dead workers had finished before they could report.
    """

    def __init__(
        self, config: pytest.Config, folder: Path, earlier_attempts: Callable[[TrialKey], int]
    ) -> None:
        worker = getattr(config, "workerinput", {}).get("workerid", "main")
        process = f"{worker}-{os.getpid()}"
        self._folder, self._earlier_attempts = folder, earlier_attempts
        self._writer = JournalWriter(folder, process)
        self._transcripts = str(folder / f"transcripts-{process}.jsonl")
        self._dead_workers = folder / DEAD_WORKERS if hasattr(config, "workerinput") else None
        self._dead_workers_read: frozenset[str] = frozenset()
        self._run: Run | None = None
        self._inherited: dict[TrialKey, JournalEntry] = {}

    def started(self, plans: Sequence[Plan]) -> None:
        self._writer.started(plans)

    def finished(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """Write down how these trials ended; return them as they are written."""
        return self._writer.finished(trials)

    def not_run(self, plan: Plan, why: NotRun) -> None:
        self._writer.not_run(plan, why.cause, why.reason)

    def inherited_entry(self, key: TrialKey) -> JournalEntry | None:
        """Give the entry of a trial that a dead worker finished: it is paid for, and does not run again."""
        if self._dead_workers is not None and self._dead_workers.exists():
            names = frozenset(self._dead_workers.read_text(encoding="utf-8").split())
            if names != self._dead_workers_read:
                self._dead_workers_read, self._run = names, load_run(self._folder)
                # transcripts-gw0-PID.jsonl; a worker that takes the place of a dead one has another name
                self._inherited = {
                    entry.key: entry
                    for entry in self._run.entries
                    if entry.location.file.split("-")[1] in names
                }
        entry = self._inherited.get(key)
        # A resumed run has workers of the same names as before; ``ReusePlan`` decides about the trials of
        # those.
        return None if entry is None or entry.attempt <= self._earlier_attempts(key) else entry

    def inherited(self, key: TrialKey) -> Trial | None:
        """Give the whole trial, if a dead worker has finished it."""
        entry = self.inherited_entry(key)
        return None if entry is None or self._run is None else self._run.trial_if_readable(entry)

    def transcripts(self, trial: Trial) -> str:
        """Give the file that holds the transcript of a trial of this run."""
        entry = self.inherited_entry(trial.key)
        if entry is not None and entry.attempt == trial.attempt:
            return str(self._folder / entry.location.file)
        return self._transcripts

    def close(self) -> None:
        """Close the files; each line was flushed when it was written."""
        self._writer.close()

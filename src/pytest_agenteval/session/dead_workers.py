"""Trials that a worker finished before it died: given out by those who take over its items."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run, load_run

DEAD_WORKERS = "lost"
"""The file in a run's folder that names the workers that have died."""


class DeadWorkerTrials:
    """What workers of this run that are dead have written down; elsewhere nobody dies."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._folder = folder
        self._word = folder / DEAD_WORKERS if hasattr(config, "workerinput") else None
        self._read: frozenset[str] = frozenset()
        self._run: Run | None = None
        self._entries: dict[TrialKey, JournalEntry] = {}

    def entry(self, key: TrialKey) -> JournalEntry | None:
        """Give how the trial ended, if a worker finished it and died before it could report."""
        if self._word is not None and self._word.exists():
            lost = frozenset(self._word.read_text(encoding="utf-8").split())
            if lost != self._read:
                self._read = lost
                self._run = load_run(self._folder)
                self._entries = {entry.key: entry for entry in _written_by(lost, self._run)}
        return self._entries.get(key)

    def trial(self, key: TrialKey) -> Trial | None:
        """Give the whole trial, if a worker finished it and died before it could report."""
        entry = self.entry(key)
        return None if entry is None or self._run is None else self._run.trial_if_readable(entry)

    def transcripts(self, entry: JournalEntry) -> str:
        """Give the file that the trial's transcript stands in."""
        return str(self._folder / entry.place.file)


def _written_by(lost: frozenset[str], run: Run) -> Iterator[JournalEntry]:
    for entry in run.entries:
        # transcripts-gw0-PID.jsonl; a worker that takes the place of a dead one has another name
        if entry.place.file.split("-")[1] in lost:
            yield entry


def note_dead_worker(folder: Path, worker: str) -> None:
    """Note, for the workers that are left, that one has died."""
    with suppress(OSError), (folder / DEAD_WORKERS).open("a", encoding="utf-8", newline="\n") as word:
        word.write(f"{worker}\n")


def forget_dead_workers(folder: Path) -> None:
    """Leave nothing of it in the run's folder."""
    with suppress(OSError):
        (folder / DEAD_WORKERS).unlink(missing_ok=True)

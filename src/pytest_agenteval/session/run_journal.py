"""The run as this process writes it down: every trial that begins and ends, and where its transcript lies."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_agenteval.records.plan import Plan, TrialKey
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.dead_workers import DeadWorkerTrials
from pytest_agenteval.session.progress_line import TrialTotals
from pytest_agenteval.store.journal_writer import JournalWriter


class RunJournal:
    """Writes down what begins and ends before anyone else learns of it, and counts what it took.

    It also gives what workers have written down that died before they could report.
    """

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        process = process_name(config)
        self._writer = JournalWriter(folder, process)
        self._transcripts = str(folder / f"transcripts-{process}.jsonl")
        self._dead_workers = DeadWorkerTrials(config, folder)
        self.totals = TrialTotals()

    def started(self, plans: Sequence[Plan]) -> None:
        """These trials begin now."""
        self._writer.started(plans)

    def finished(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """These trials have ended; gives them as they are written down."""
        written = self._writer.finished(trials)
        for trial in written:
            self.totals.add(trial)
        return written

    def is_inherited(self, key: TrialKey) -> bool:
        """Whether a worker that is dead has finished the trial: it is paid for, and not begun again."""
        return self._dead_workers.entry(key) is not None

    def inherited(self, key: TrialKey) -> Trial | None:
        """Give the trial that a worker finished before it died."""
        return self._dead_workers.trial(key)

    def transcripts(self, trial: Trial) -> str:
        """Give the file that holds the transcript of a trial that was given out."""
        entry = self._dead_workers.entry(trial.key)
        if entry is not None and entry.attempt == trial.attempt:
            return self._dead_workers.transcripts(entry)
        return self._transcripts

    def close(self) -> None:
        """Close the files; every line of theirs was flushed when it was written."""
        self._writer.close()


def process_name(config: pytest.Config) -> str:
    """Name this process among those of the run: ``main``, or the xdist worker's name, with its pid."""
    worker = getattr(config, "workerinput", {}).get("workerid", "main")
    return f"{worker}-{os.getpid()}"

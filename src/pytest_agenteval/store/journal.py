"""The journal of one process: what was begun, what finished, with transcripts beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pytest_agenteval.canonical import digest_text
from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.appended import AppendedFile
from pytest_agenteval.store.journal_lines import finished_line, started_line
from pytest_agenteval.store.lines import as_bytes
from pytest_agenteval.store.transcript_write import transcript_line


class JournalWriter:
    """Writes what one process does into a run's folder; ``process`` must be its own.

    Texts are written before the transcripts that refer to them, and those before the journal: a crash never
    leaves a journal line whose transcript is missing. Files are opened at the first line. One thread at a
    time.
    """

    def __init__(self, folder: Path, process: str) -> None:
        if not process or set(process) & set("/\\"):
            raise UsageMistake(f"a process of a run needs a name without slashes, not {process!r}")
        self._journal = AppendedFile(folder / f"journal-{process}.jsonl")
        self._transcripts = AppendedFile(folder / f"transcripts-{process}.jsonl")
        self._texts = AppendedFile(folder / f"texts-{process}.jsonl")
        self._stored: set[str] = set()
        self._waiting: dict[str, str] = {}

    def started(self, plans: Sequence[Plan]) -> None:
        """Write that trials were begun, in one write."""
        if plans:
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self._journal.append(b"".join([as_bytes(started_line(plan, at)) for plan in plans]))

    def finished(self, trials: Sequence[Trial]) -> None:
        """Write how trials ended, in one write for each file."""
        if not trials:
            return
        lines = [as_bytes(transcript_line(trial, self._keep)) for trial in trials]
        self._write_texts()
        offset = self._transcripts.append(b"".join(lines))
        ended = []
        for trial, line in zip(trials, lines, strict=True):
            ended.append(as_bytes(finished_line(trial, offset, len(line))))
            offset += len(line)
        self._journal.append(b"".join(ended))

    def close(self) -> None:
        """Close the files."""
        for file in (self._texts, self._transcripts, self._journal):
            file.close()

    def _keep(self, text: str, known: str) -> str:
        digest = known or digest_text(text)
        if digest not in self._stored:
            self._waiting[digest] = text
        return digest

    def _write_texts(self) -> None:
        if not self._waiting:
            return
        lines = [as_bytes({"d": digest, "t": text}) for digest, text in self._waiting.items()]
        self._texts.append(b"".join(lines))
        self._stored.update(self._waiting)
        self._waiting = {}

"""The journal of one process: what was begun, what finished, with transcripts beside it."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.canonical import digest_text
from pytest_agenteval.errors import UsageMistake, exception_text
from pytest_agenteval.records.evidence import Outcome
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.file_writing import AppendedFile
from pytest_agenteval.store.journal_codec import finished_line, started_line
from pytest_agenteval.store.json_lines import encode_line
from pytest_agenteval.store.transcript_writer import transcript_line

MOST_TOLD = 2000
FRAMES = 10


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
            self._journal.append(b"".join([encode_line(started_line(plan, at)) for plan in plans]))

    def finished(self, trials: Sequence[Trial]) -> tuple[Trial, ...]:
        """Write how trials ended, in one write for each file; give the trials as they were written.

        A trial that cannot be written is written as one that broke: no other trial is harmed.
        """
        if not trials:
            return ()
        # The order is a promise to readers: what a line refers to is on disk before the line is.
        written = [self._writable(trial) for trial in trials]
        self._write_texts()
        offset = self._transcripts.append(b"".join([line for _, line in written]))
        ended = []
        for trial, line in written:
            ended.append(encode_line(finished_line(trial, offset, len(line))))
            offset += len(line)
        self._journal.append(b"".join(ended))
        return tuple(trial for trial, _ in written)

    def _writable(self, trial: Trial) -> tuple[Trial, bytes]:
        """Give the trial, or what can be said of it, with its transcript line."""
        waiting = dict(self._waiting)
        try:
            encode_line(finished_line(trial, 0, 0))
            return trial, encode_line(transcript_line(trial, self._keep))
        except Exception as raised:  # somebody's value: too deep to be walked, or unable to say what it is
            self._waiting = waiting
            broken = _unwritable_trial(trial, raised)
            return broken, encode_line(transcript_line(broken, self._keep))

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
        lines = [encode_line({"d": digest, "t": text}) for digest, text in self._waiting.items()]
        self._texts.append(b"".join(lines))
        self._stored.update(self._waiting)
        self._waiting = {}


def _unwritable_trial(trial: Trial, raised: Exception) -> Trial:
    """Give what can be said for certain of a trial that cannot be written down."""
    told = f"the trial could not be written down: {type(raised).__name__}: {exception_text(raised)}"
    return replace(
        trial,
        ending="errored",
        score=None,
        grades=(),
        transcript=Transcript(usage=trial.usage),
        outcome=Outcome(),
        cause="unwritable",
        message=told[:MOST_TOLD],
        traceback="".join(traceback.format_exception(raised, limit=-FRAMES)),
        output="",
        log="",
    )

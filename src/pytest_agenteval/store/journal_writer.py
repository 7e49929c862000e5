"""The journal of one process, and its transcripts: all of a trial that the journal line does not hold."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Outcome
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import finished_line, not_run_line, started_line, with_location
from pytest_agenteval.store.record_files import AppendedFile, add_checksum, encode_line
from pytest_agenteval.store.transcript_lines import transcript_line
from pytest_agenteval.text.errors import UsageMistake, exception_text
from pytest_agenteval.text.json_values import text_digest


class JournalWriter:
    """Writes what one process does into a run's folder; no other process may use the name ``process``.

    Texts are written before the transcripts that refer to them, and those before the journal: a crash never
    leaves a journal line whose transcript is missing. Files are opened when the first line is written. Only
    one thread may use it at a time.
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
        """Write that trials started, in one write."""
        if plans:
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            lines = [add_checksum(encode_line(started_line(plan, at))) for plan in plans]
            self._journal.append(b"".join(lines))

    def not_run(self, plan: Plan, cause: str, reason: str) -> None:
        self._journal.append(add_checksum(encode_line(not_run_line(plan, cause, reason))))

    def finished(self, trials: Sequence[Trial]) -> tuple[Trial, ...]:
        """Write how trials ended, in one write for each file; return the trials as they were written.

        A trial that cannot be written is written as errored, so that no other trial is lost.
        """
        if not trials:
            return ()
        lines = [self._writable(trial) for trial in trials]
        # The order is a promise to readers: what a line refers to is on disk before the line is.
        if self._waiting:
            texts = self._waiting.items()
            texts_lines = [add_checksum(encode_line({"d": digest, "t": text})) for digest, text in texts]
            self._texts.append(b"".join(texts_lines))
            # Only now: texts of a write that failed are written again with the next batch.
            self._stored.update(self._waiting)
            self._waiting = {}
        offset = self._transcripts.append(b"".join([transcript for _, _, transcript in lines]))
        ended = []
        for _, line, transcript in lines:
            ended.append(with_location(line, offset, len(transcript)))
            offset += len(transcript)
        self._journal.append(b"".join(ended))
        return tuple(trial for trial, _, _ in lines)

    def _writable(self, trial: Trial) -> tuple[Trial, bytes, bytes]:
        """Return the trial, or what can be written of it, with its journal line and its transcript."""
        # Restored if the trial cannot be encoded: its texts would be written for nothing.
        waiting = dict(self._waiting)
        try:
            return self._encode(trial)
        # A value of an agent or a grader may be nested too deeply, or raise when it is turned into text.
        except Exception as raised:
            self._waiting = waiting
            reason = f"{type(raised).__name__}: {exception_text(raised)}"
            broken = replace(
                trial,
                ending="errored",
                score=None,
                grades=(),
                transcript=Transcript(usage=trial.usage),
                outcome=Outcome(),
                cause="unwritable",
                message=f"the trial could not be stored: {reason}"[:2000],
                traceback="".join(traceback.format_exception(raised, limit=-10)),
                output="",
                log="",
            )
            return self._encode(broken)

    def _encode(self, trial: Trial) -> tuple[Trial, bytes, bytes]:
        transcript = encode_line(transcript_line(trial, self._keep))
        return trial, encode_line(finished_line(trial)), add_checksum(transcript)

    def close(self) -> None:
        for file in (self._texts, self._transcripts, self._journal):
            file.close()

    def _keep(self, text: str, known_digest: str) -> str:
        digest = known_digest or text_digest(text)
        if digest not in self._stored:
            self._waiting[digest] = text
        return digest

"""The journal of one process, and its transcripts: all of a trial that the journal line does not hold."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.tool_spec import tools_text
from pytest_agenteval.records.transcript import Ask, Event, Message, ToolCall, Transcript
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import (
    SHORT_MESSAGE,
    SHORT_RATIONALE,
    SHORT_TRACEBACK,
    finished_line,
    not_run_line,
    started_line,
    with_location,
)
from pytest_agenteval.store.record_files import (
    VERSION,
    AppendedFile,
    Line,
    add,
    add_checksum,
    encode_line,
    if_too_long,
    usage_line,
)
from pytest_agenteval.text.errors import UsageMistake, exception_text
from pytest_agenteval.text.json_values import text_digest

# A longer text is stored once, beside the transcripts, and the line refers to it by its digest.
INLINE_CHARS = 1024
# Stores a text and returns its digest. If that is already known, it is the second argument.
Keep = Callable[[str, str], str]


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
                message=f"the trial could not be written down: {reason}"[:2000],
                traceback="".join(traceback.format_exception(raised, limit=-10)),
                output="",
                log="",
            )
            return self._encode(broken)

    def _encode(self, trial: Trial) -> tuple[Trial, bytes, bytes]:
        transcript = encode_line(_transcript_line(trial, self._keep))
        return trial, encode_line(finished_line(trial)), add_checksum(transcript)

    def close(self) -> None:
        for file in (self._texts, self._transcripts, self._journal):
            file.close()

    def _keep(self, text: str, known_digest: str) -> str:
        digest = known_digest or text_digest(text)
        if digest not in self._stored:
            self._waiting[digest] = text
        return digest


def _transcript_line(trial: Trial, keep: Keep) -> Line:
    """Build the line of a transcript; long texts and files go to ``keep``."""
    transcript, outcome = trial.transcript, trial.outcome
    line: Line = {"v": VERSION, "trial": (*trial.key, trial.attempt)}
    add(line, messages=[_message(message, keep) for message in transcript.messages])
    add(line, calls=[_call(call, keep) for call in transcript.calls])
    add(line, asks=[_ask(ask) for ask in transcript.asks])
    add(line, events=[_event(event) for event in transcript.events])
    if transcript.tools:
        # Trials with the same tools refer to one stored text.
        line["tools"] = {"d": keep(tools_text(transcript.tools), "")}
    add(line, answer=_text(outcome.answer.text, keep), state=outcome.answer.state)
    before, after = outcome.before, outcome.after
    if before.files or after.files:
        add(line, before={path: _file(file, keep) for path, file in before.files.items()})
        add(line, after=_changes(before, after, keep))
    rest = [_rest(grade) for grade in trial.grades]
    add(line, grades=rest if any(rest) else (), message=if_too_long(trial.message, SHORT_MESSAGE))
    add(line, traceback=if_too_long(trial.traceback, SHORT_TRACEBACK))
    add(line, output=trial.output, log=trial.log, workspace=trial.workspace)
    return line


def _message(message: Message, keep: Keep) -> Line:
    line: Line = {"role": message.role, "content": _text(message.content, keep)}
    if message.calls:
        line["calls"] = [_call(call, keep) for call in message.calls]
    add(line, turn=message.turn, seeded=message.seeded, call_id=message.call_id)
    if message.phase != 1:
        line["phase"] = message.phase
    return line


def _call(call: ToolCall, keep: Keep) -> Line:
    line: Line = {"id": call.id, "turn": call.turn, "index": call.index, "tool": call.tool}
    add(line, args=call.args)
    # Written by hand: an empty text, 0 or false is a value here, which ``add`` would leave out.
    if call.raw_args is not None:
        line["raw_args"] = call.raw_args
    if isinstance(call.result, str) and len(call.result) > INLINE_CHARS:
        line["result_text"] = keep(call.result, "")
    elif call.result is not None:
        line["result"] = call.result
    if call.error is not None:
        line["error"] = {"type": call.error.type, "message": call.error.message}
    add(line, started=call.started, ended=call.ended)
    if call.by != "agent":
        line["by"] = call.by
    if call.tape != "none":
        line["tape"] = call.tape
    return line


def _ask(ask: Ask) -> Line:
    line: Line = {"turn": ask.turn, "started": ask.started, "ended": ask.ended}
    add(line, usage=usage_line(ask.usage), reasoning=ask.reasoning, model=ask.model)
    if ask.finish != "stop":
        line["finish"] = ask.finish
    if ask.first_token_s is not None:
        line["first_token_s"] = ask.first_token_s
    return line


def _event(event: Event) -> Line:
    line: Line = {"at": event.at, "kind": event.kind, "text": event.text}
    add(line, details=event.details)
    return line


def _text(text: str, keep: Keep) -> str | Line:
    return text if len(text) <= INLINE_CHARS else {"d": keep(text, "")}


def _changes(before: Tree, after: Tree, keep: Keep) -> Line:
    """Return the files that were added or changed, and null for those that were deleted."""
    # No workspace was made, as for most trials: the comparison below is not needed.
    if before is after:
        return {}
    old, new = before.files, after.files
    changed: Line = {path: _file(file, keep) for path, file in new.items() if old.get(path) != file}
    changed.update((path, None) for path in old if path not in new)
    return changed


def _file(file: FileText, keep: Keep) -> Line:
    if file.text is None:
        return {"d": file.digest, "size": file.size, "why": file.why}
    keep(file.text, file.digest)
    return {"d": file.digest, "size": file.size}


def _rest(grade: Grade) -> Line:
    line: Line = {}
    if grade.checks:
        line["checks"] = [_check(check) for check in grade.checks]
    add(line, rationale=if_too_long(grade.rationale, SHORT_RATIONALE), details=grade.details)
    return line


def _check(check: Check) -> Line:
    line: Line = {"claim": check.claim, "passed": check.passed}
    add(line, expected=check.expected, found=check.found)
    return line

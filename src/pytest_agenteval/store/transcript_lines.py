"""The line of a transcript: all of a trial that its journal line does not hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from pytest_agenteval.records.evidence import Answer, Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.record import NOTHING, Record, from_builtins, same_fields
from pytest_agenteval.records.tool_spec import ToolSpec, tools_text
from pytest_agenteval.records.transcript import OTHER_ROLES, Ask, Event, Message, ToolCall, Transcript, Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import SHORT_MESSAGE, SHORT_RATIONALE, SHORT_TRACEBACK, JournalEntry
from pytest_agenteval.store.record_files import (
    VERSION,
    Line,
    UsageLine,
    if_too_long,
    present,
    read_intact_line,
    usage_line,
)
from pytest_agenteval.text.errors import TranscriptLost

# A longer text is stored once, beside the transcripts, and the line refers to it by its digest.
INLINE_CHARS = 1024
# Stores a text and returns its digest. If that is already known, it is the second argument.
Keep = Callable[[str, str], str]
# Returns the text that was stored under a digest.
TextOf = Callable[[str], str]


def transcript_line(trial: Trial, keep: Keep) -> Line:
    """Build the line of a transcript; long texts and files go to ``keep``."""
    transcript, outcome = trial.transcript, trial.outcome
    before, after = outcome.before.files, outcome.after.files
    changes: Line = {}
    # Where no workspace was made, as for most trials, both are one object.
    if before is not after:
        changed = {path: file for path, file in after.items() if before.get(path) != file}
        changes = {path: _file_line(file, keep) for path, file in changed.items()}
        changes |= dict.fromkeys(path for path in before if path not in after)
    grades = [_grade_line(grade) for grade in trial.grades]
    return {"v": VERSION, "trial": (*trial.key, trial.attempt)} | present(
        messages=[_message_line(message, keep) for message in transcript.messages],
        calls=[_call_line(call, keep) for call in transcript.calls],
        asks=[_sparse(ask) | {"usage": usage_line(ask.usage)} for ask in transcript.asks],
        events=[*map(_sparse, transcript.events)],
        # Trials with the same tools refer to one stored text.
        tools=transcript.tools and {"d": keep(tools_text(transcript.tools), "")},
        answer=_text_line(outcome.answer.text, keep),
        state=outcome.answer.state,
        before={path: _file_line(file, keep) for path, file in before.items()},
        after=changes,
        grades=grades if any(grades) else (),
        message=if_too_long(trial.message, SHORT_MESSAGE),
        traceback=if_too_long(trial.traceback, SHORT_TRACEBACK),
        output=trial.output,
        log=trial.log,
        workspace=trial.workspace,
    )


@cache
def _defaults(kind: type[Record]) -> Mapping[str, Any]:
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


def _sparse(record: Record) -> Line:
    """Give the fields of a record that differ from their defaults."""
    defaults = _defaults(type(record)).items()
    return {name: value for name, default in defaults if (value := getattr(record, name)) != default}


def _message_line(message: Message, keep: Keep) -> Line:
    line = _sparse(message) | {"content": _text_line(message.content, keep)}
    if message.calls:
        line["calls"] = [_call_line(call, keep) for call in message.calls]
    return line


def _call_line(call: ToolCall, keep: Keep) -> Line:
    line = _sparse(call)
    if not call.args:
        del line["args"]
    if isinstance(call.result, str) and len(call.result) > INLINE_CHARS:
        del line["result"]
        line["result_text"] = keep(call.result, "")
    return line


def _text_line(text: str, keep: Keep) -> str | Line:
    return text if len(text) <= INLINE_CHARS else {"d": keep(text, "")}


def _file_line(file: FileText, keep: Keep) -> Line:
    if file.text is None:
        return {"d": file.digest, "size": file.size, "why": file.why}
    keep(file.text, file.digest)
    return {"d": file.digest, "size": file.size}


def _grade_line(grade: Grade) -> Line:
    rationale = if_too_long(grade.rationale, SHORT_RATIONALE)
    return present(checks=[*map(_sparse, grade.checks)], rationale=rationale, details=grade.details)


# What a trial has from its journal entry, and the texts that a transcript line may hold.
_OF_ENTRY = {*Trial.__struct_fields__}.intersection(JournalEntry.__struct_fields__) - {"grades"}
_TEXTS = ("message", "traceback", "output", "log", "workspace")


def read_trial(entry: JournalEntry, line: Line, text_of: TextOf) -> Trial:
    """Make a trial of its journal entry and its transcript line.

    Raises ValueError, with its place, for a value of a wrong type: the file was edited, and readers of a
    trial rely on types.
    """
    # The transcript has message and traceback only if the journal line had to cut them.
    texts = {name: line[name] for name in _TEXTS if name in line}
    trial = Trial(
        **same_fields(entry, _OF_ENTRY) | texts,
        grades=_read_grades(entry, line),
        transcript=_read_transcript(entry, line, text_of),
        outcome=_read_outcome(line, text_of),
    )
    _typed(tuple[str, ...], (trial.message, trial.traceback, trial.output, trial.log), "texts")
    return trial


def _read_transcript(entry: JournalEntry, line: Line, text_of: TextOf) -> Transcript:
    messages = []
    for each in line.get("messages", ()):
        message = _record_fields(each, Message)
        # A stored transcript may hold roles of other providers, such as ``developer``.
        message["role"] = OTHER_ROLES.get(each["role"], each["role"])
        message["content"] = _read_text(each["content"], text_of)
        message["calls"] = [_read_call(call, text_of) for call in each.get("calls", ())]
        messages.append(message)
    calls = [_read_call(call, text_of) for call in line.get("calls", ())]
    events, stored = [_record_fields(event, Event) for event in line.get("events", ())], line.get("tools")
    return Transcript(
        _typed(tuple[Message, ...], messages, "messages"),
        _typed(tuple[ToolCall, ...], calls, "calls"),
        tuple(_read_ask(ask) for ask in line.get("asks", ())),
        _typed(tuple[Event, ...], events, "events"),
        entry.usage,
        () if stored is None else tuple(map(ToolSpec.from_json, json.loads(text_of(stored["d"])))),
    )


def _record_fields(line: Line, kind: type[Record]) -> Line:
    """Give the keys that the record has: a newer version may write more."""
    return {name: line[name] for name in kind.__struct_fields__ if name in line}


def _typed(kind: Any, value: Any, place: str) -> Any:
    try:
        return from_builtins(kind, value)
    except msgspec.ValidationError as problem:
        raise ValueError(str(problem).replace("`$", f"`{place}")) from None


def _read_call(line: Line, text_of: TextOf) -> Line:
    call = {"args": NOTHING, **_record_fields(line, ToolCall)}
    if "result_text" in line:
        call["result"] = text_of(line["result_text"])
    return call


def _read_ask(line: Line) -> Ask:
    usage: Usage = _typed(UsageLine, line.get("usage", {}), "usage").usage
    ask: Ask = _typed(Ask, {**_record_fields(line, Ask), "usage": {}}, "asks")
    return replace(ask, usage=usage)


def _read_outcome(line: Line, text_of: TextOf) -> Outcome:
    answer = {"text": _read_text(line.get("answer", ""), text_of), "state": line.get("state", NOTHING)}
    files = {path: _read_file(file, text_of) for path, file in line.get("before", {}).items()}
    before = after = Tree(files) if files else Tree()
    # Most trials change no file: then one tree stands for before and after.
    if changes := line.get("after", {}):
        kept = {path: file for path, file in files.items() if path not in changes}
        new = {path: _read_file(file, text_of) for path, file in changes.items() if file is not None}
        after = Tree(dict(sorted((kept | new).items())))
    return Outcome(_typed(Answer, answer, "answer"), before, after)


def _read_file(line: Line, text_of: TextOf) -> FileText:
    why = line.get("why")
    return FileText(line["d"], line["size"], text_of(line["d"]) if why is None else None, why or "")


def _read_text(value: str | Line, text_of: TextOf) -> str:
    return value if isinstance(value, str) else text_of(value["d"])


def _read_grades(entry: JournalEntry, line: Line) -> tuple[Grade, ...]:
    rest: Iterable[Line] = line.get("grades") or [{}] * len(entry.grades)
    return tuple(
        _read_grade(grade, more) if more else grade for grade, more in zip(entry.grades, rest, strict=True)
    )


def _read_grade(grade: Grade, more: Line) -> Grade:
    details = more.get("details", NOTHING)
    if "undecided" in details:
        # Earlier versions wrote the reason for no score here as well as into the journal.
        details = {name: value for name, value in details.items() if name != "undecided"} or NOTHING
    checks = [_record_fields(check, Check) for check in more.get("checks", ())]
    return replace(
        grade,
        rationale=_typed(str, more.get("rationale", grade.rationale), "rationale"),
        checks=_typed(tuple[Check, ...], checks, "checks"),
        details=details,
    )


class TextIndex:
    """Finds texts by digest; the files are searched when the first text is needed.

    Only places stay in memory, not texts. Where a text is missing, what was added to the files since then is
    searched: the run may be going on.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[str, tuple[Path, int]] = {}
        self._searched: dict[Path, int] = {}

    def text(self, digest: str) -> str:
        """Return a text; raises TranscriptLost if it is missing."""
        if digest not in self._places:
            for path in sorted(self._folder.glob("texts-*.jsonl")):
                self._search(path)
        if digest not in self._places:
            raise TranscriptLost(
                f"{self._folder}: the text {digest} is missing or damaged: was a texts-*.jsonl changed?"
            )
        path, offset = self._places[digest]
        with path.open("rb") as file:
            file.seek(offset)
            text: str = read_intact_line(file.readline())["t"]
        return text

    def _search(self, path: Path) -> None:
        """Note the places of texts that were added to a file; an OSError leaves them for the next call."""
        offset = self._searched.get(path, 0)
        with path.open("rb") as file:
            file.seek(offset)
            for raw in file:
                # A crash may have left half a line.
                with suppress(ValueError, KeyError, TypeError):
                    # Each process stores its own texts, so a text may be in several files.
                    self._places.setdefault(read_intact_line(raw)["d"], (path, offset))
                offset += len(raw)
                # The end of half a line may still be written: it is read again.
                if raw.endswith(b"\n"):
                    self._searched[path] = offset

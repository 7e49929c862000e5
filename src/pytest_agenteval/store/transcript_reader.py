"""A trial, read back from its journal entry, its transcript line and the long texts beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pytest_agenteval.records.evidence import Answer, Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.record import NOTHING, from_builtins
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import (
    OTHER_ROLES,
    Ask,
    Event,
    Message,
    ToolCall,
    ToolError,
    Transcript,
)
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.record_files import Line, read_intact_line, stored_usage
from pytest_agenteval.text.errors import TranscriptLost

# Returns the text that was stored under a digest.
TextOf = Callable[[str], str]


def read_trial(entry: JournalEntry, line: Line, text_of: TextOf) -> Trial:
    return Trial(
        entry.key,
        entry.attempt,
        entry.ending,
        entry.score,
        _grades(entry, line),
        _transcript(entry, line, text_of),
        _outcome(line, text_of),
        entry.digests,
        entry.kind,
        entry.bucket,
        entry.tags,
        entry.file,
        entry.limit,
        entry.cause,
        # The transcript has message and traceback only if the journal line had to cut them.
        line.get("message", entry.message),
        line.get("traceback", entry.traceback),
        entry.started_at,
        entry.seconds,
        entry.tool_tape,
        entry.chat_tape,
        line.get("output", ""),
        line.get("log", ""),
        line.get("workspace", ""),
        entry.label,
        entry.acted,
        entry.split,
        entry.paid,
        entry.origin,
        entry.uncharged_seconds,
    )


def check_types(trial: Trial) -> None:
    """Raise ValueError, with its place, for a value of a wrong type: the file was edited.

    Readers of a trial rely on types: an unknown role would break each export in its own way.
    """
    transcript, outcome = trial.transcript, trial.outcome
    parts = {
        "messages": (transcript.messages, tuple[Message, ...]),
        "calls": (transcript.calls, tuple[ToolCall, ...]),
        "events": (transcript.events, tuple[Event, ...]),
        "answer": (outcome.answer, Answer),
        "grades": (trial.grades, tuple[Grade, ...]),
        "texts": ((trial.message, trial.traceback, trial.output, trial.log), tuple[str, ...]),
    }
    for name, (part, kind) in parts.items():
        try:
            from_builtins(kind, msgspec.to_builtins(part))
        except msgspec.ValidationError as problem:
            raise ValueError(str(problem).replace("`$", f"`{name}")) from None


def _transcript(entry: JournalEntry, line: Line, text_of: TextOf) -> Transcript:
    events = line.get("events", ())
    stored = line.get("tools")
    return Transcript(
        tuple(_message(message, text_of) for message in line.get("messages", ())),
        tuple(_call(call, text_of) for call in line.get("calls", ())),
        tuple(_ask(ask) for ask in line.get("asks", ())),
        tuple(Event(e["at"], e["kind"], e["text"], e.get("details", NOTHING)) for e in events),
        entry.usage,
        () if stored is None else tuple(map(ToolSpec.from_json, json.loads(text_of(stored["d"])))),
    )


def _message(line: Line, text_of: TextOf) -> Message:
    get = line.get
    return Message(
        # A stored transcript may hold roles of other providers, such as ``developer``.
        OTHER_ROLES.get(line["role"], line["role"]),
        _text(line["content"], text_of),
        tuple(_call(call, text_of) for call in get("calls", ())),
        get("turn", 0),
        get("seeded", False),
        get("phase", 1),
        get("call_id", ""),
    )


def _call(line: Line, text_of: TextOf) -> ToolCall:
    get = line.get
    stored, error = get("result_text"), get("error")
    return ToolCall(
        line["id"],
        line["turn"],
        line["index"],
        line["tool"],
        get("args", NOTHING),
        get("raw_args"),
        get("result") if stored is None else text_of(stored),
        None if error is None else ToolError(error["type"], error["message"]),
        get("started", 0.0),
        get("ended", 0.0),
        get("by", "agent"),
        get("tape", "none"),
    )


def _ask(line: Line) -> Ask:
    get = line.get
    return Ask(
        line["turn"],
        line["started"],
        line["ended"],
        stored_usage(get("usage", {})),
        get("finish", "stop"),
        get("first_token_s"),
        get("reasoning", ""),
        get("model", ""),
    )


def _outcome(line: Line, text_of: TextOf) -> Outcome:
    answer = Answer(_text(line.get("answer", ""), text_of), line.get("state", NOTHING))
    files = {path: _file(file, text_of) for path, file in line.get("before", {}).items()}
    before = Tree(files) if files else Tree()
    changes = line.get("after", {})
    # Most trials change no file: then one tree stands for before and after.
    if not changes:
        return Outcome(answer, before, before)
    after = dict(files)
    for path, file in changes.items():
        if file is None:
            del after[path]
        else:
            after[path] = _file(file, text_of)
    return Outcome(answer, before, Tree(dict(sorted(after.items()))))


def _file(line: Line, text_of: TextOf) -> FileText:
    if "why" in line:
        return FileText(line["d"], line["size"], None, line["why"])
    return FileText(line["d"], line["size"], text_of(line["d"]))


def _text(value: str | Line, text_of: TextOf) -> str:
    return value if isinstance(value, str) else text_of(value["d"])


def _grades(entry: JournalEntry, line: Line) -> tuple[Grade, ...]:
    rest = line.get("grades")
    if rest is None:
        return entry.grades
    return tuple(_grade(grade, more) for grade, more in zip(entry.grades, rest, strict=True))


def _grade(grade: Grade, more: Line) -> Grade:
    details = more.get("details", NOTHING)
    if "undecided" in details:
        # Earlier versions wrote the reason for no score here as well as into the journal.
        details = {name: value for name, value in details.items() if name != "undecided"} or NOTHING
    return replace(
        grade,
        rationale=more.get("rationale", grade.rationale),
        checks=tuple(
            Check(check["claim"], check["passed"], check.get("expected", ""), check.get("found", ""))
            for check in more.get("checks", ())
        ),
        details=details,
    )


class TextIndex:
    """Finds texts by digest; the files are searched when the first text is needed.

    Only places stay in memory, not texts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[str, tuple[Path, int]] | None = None

    def text(self, digest: str) -> str:
        """Return a text; raises TranscriptLost if it is missing."""
        if self._places is None:
            places: dict[str, tuple[Path, int]] = {}
            for path in sorted(self._folder.glob("texts-*.jsonl")):
                offset = 0
                with path.open("rb") as file:
                    for raw in file:
                        # A crash may have left half a line.
                        with suppress(ValueError, KeyError, TypeError):
                            # Each process stores its own texts, so a text may be in several files.
                            places.setdefault(read_intact_line(raw)["d"], (path, offset))
                        offset += len(raw)
            # Only when all files were read: if one cannot be opened now, the next call reads them again.
            self._places = places
        if digest not in self._places:
            raise TranscriptLost(
                f"{self._folder}: the text {digest} is missing or damaged: was a texts-*.jsonl changed?"
            )
        path, offset = self._places[digest]
        with path.open("rb") as file:
            file.seek(offset)
            text: str = read_intact_line(file.readline())["t"]
        return text

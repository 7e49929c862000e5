"""Notes on the trials of a run, in its folder: which of them a person has looked at, and comments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from pytest_agenteval.processes.files import file_lock
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import Record
from pytest_agenteval.store.record_files import (
    VERSION,
    AppendedFile,
    add_checksum,
    check_version,
    encode_line,
    is_intact,
    read_line,
)
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS

NOTES = "notes.jsonl"
DAMAGED_NOTE = "damaged since it was written, as its checksum shows"


class Note(Record, frozen=True):
    """A person's comment on an attempt of a trial.

    ``looked_at`` is when they last looked at it, as ``2026-11-28T09:30:00Z``, or empty. A note without that
    and without a ``comment`` is empty: it was taken away.
    """

    looked_at: str = ""
    comment: str = ""
    attempt: int = 1

    def __bool__(self) -> bool:
        return bool(self.looked_at or self.comment)


NO_NOTE = Note()


class _NoteLine(Note, frozen=True, kw_only=True, forbid_unknown_fields=False):
    suite: str
    task: str
    agent: str
    model: str
    variant: str = ""
    repetition: int


def read_notes(folder: Path, unreadable: list[str] | None = None) -> Mapping[TrialKey, Note]:
    """Read the last note of each trial; ``unreadable`` gets a text for each line that cannot be read.

    The file is only ever appended to. A note that was taken away is there, and is empty.
    """
    problems = [] if unreadable is None else unreadable
    notes: dict[TrialKey, Note] = {}
    try:
        raws = (folder / NOTES).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return notes
    except OSError as refused:
        problems.append(f"{NOTES}: left out: {refused.strerror}")
        return notes
    for number, raw in enumerate(raws, 1):
        try:
            if raw.strip():
                line = _read_line(raw)
                key = TrialKey(line.suite, line.task, line.agent, line.model, line.variant, line.repetition)
                notes[key] = Note(line.looked_at, line.comment, line.attempt)
        except (ValueError, UsageMistake) as broken:
            problems.append(f"{NOTES}:{number}: left out: {broken}")
    return notes


def _read_line(raw: bytes) -> _NoteLine:
    if is_intact(raw) is False:
        raise ValueError(DAMAGED_NOTE)
    try:
        line: Any = read_line(raw)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict):
        raise ValueError("half a line, which a crash left behind, or no JSON object")
    check_version(line, "this line")
    try:
        return msgspec.convert(line, _NoteLine)
    except msgspec.ValidationError as problem:
        raise ValueError(f"no line of notes: {problem}") from None


def change_notes(
    folder: Path, change: Callable[[Mapping[TrialKey, Note]], Mapping[TrialKey, Note]]
) -> dict[TrialKey, Note]:
    """Let ``change`` make new notes, knowing all that there are, while no other process writes any.

    Returns the new notes as they were written, without secrets. Raises UsageMistake if the folder cannot be
    written to.
    """
    path, after, lines = folder / NOTES, dict[TrialKey, Note](), list[bytes]()
    try:
        with file_lock(path):
            before = read_notes(folder)
            for key, note in change(before).items():
                after[key] = replace(note, comment=KNOWN_SECRETS.text(note.comment))
                if after[key] != before.get(key, NO_NOTE):
                    line = {"v": VERSION, **key._asdict(), **after[key].to_json()}
                    lines.append(add_checksum(encode_line(line)))
            if lines:
                _append(path, b"".join(lines))
    except OSError as refused:
        raise UsageMistake(f"{path}: notes cannot be written there ({refused.strerror})") from None
    return after


def write_notes(
    folder: Path,
    attempts: Mapping[TrialKey, int],
    *,
    looked_at: bool | None = True,
    comment: str | None = None,
) -> dict[TrialKey, Note]:
    """Mark these attempts of trials as looked at just now, or as not looked at, and write a comment on each.

    None leaves a mark or a comment as it is. Returns and raises as ``change_notes`` does.
    """

    def written(before: Mapping[TrialKey, Note]) -> Mapping[TrialKey, Note]:
        notes = {}
        for key, attempt in attempts.items():
            own = before.get(key, NO_NOTE)
            words = own.comment if comment is None else comment
            seen = Note(_now() if looked_at else "", words, attempt)
            notes[key] = replace(own, comment=words) if looked_at is None else seen
        return notes

    return change_notes(folder, written)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def copy_notes(source: Path, target: Path) -> None:
    """Add the lines of a run's notes to those of another run, which has the same trials."""
    if (source / NOTES).is_file():
        _append(target / NOTES, (source / NOTES).read_bytes())


def _append(path: Path, lines: bytes) -> None:
    # If the process is killed meanwhile, half a line is left, and the next writer begins a new one.
    with closing(AppendedFile(path)) as file:
        file.append(lines)

"""Notes on the trials of a run, in its folder: which of them a person has looked at, and comments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
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
    """What a person says about an attempt of a trial.

    ``looked_at`` is when they last looked at it, as ``2026-11-28T09:30:00Z``, or empty. A note without that
    and without a ``comment`` is no note.
    """

    looked_at: str = ""
    comment: str = ""
    attempt: int = 1

    def __bool__(self) -> bool:
        return bool(self.looked_at or self.comment)


NO_NOTE = Note()


class _NoteLine(msgspec.Struct, frozen=True):
    suite: str
    task: str
    agent: str
    model: str
    repetition: int
    variant: str = ""
    attempt: int = 1
    looked_at: str = ""
    comment: str = ""

    @property
    def key(self) -> TrialKey:
        return TrialKey(self.suite, self.task, self.agent, self.model, self.variant, self.repetition)


def now() -> str:
    """Return the time as notes hold it: seconds of UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_notes(folder: Path, odd: list[str] | None = None) -> Mapping[TrialKey, Note]:
    """Read the notes of a run, by trial; ``odd`` gets a text for each line that cannot be read.

    The file is only ever appended to, and the last line of a trial holds its note.
    """
    problems = [] if odd is None else odd
    notes: dict[TrialKey, Note] = {}
    for line in _read_lines(folder / NOTES, problems):
        notes[line.key] = Note(line.looked_at, line.comment, line.attempt)
    return {key: note for key, note in notes.items() if note}


def write_note(folder: Path, key: TrialKey, note: Note) -> Note:
    """Make this the note of a trial, and return it as it was written, without secrets.

    An empty note takes the trial's note away. Raises UsageMistake if the folder cannot be written to.
    """
    return change_notes(folder, [key], lambda key, before: note)[key]


def mark_looked_at(folder: Path, key: TrialKey, attempt: int = 1, comment: str = "") -> Note:
    """Mark an attempt of a trial as looked at just now; an earlier comment stays where none is given.

    Raises as ``write_note`` does.
    """

    def mark(key: TrialKey, before: Note) -> Note:
        return Note(now(), comment or before.comment, attempt)

    return change_notes(folder, [key], mark)[key]


def change_notes(
    folder: Path, keys: Iterable[TrialKey], change: Callable[[TrialKey, Note], Note]
) -> dict[TrialKey, Note]:
    """Let ``change`` make the new note of each trial of its present one, while no other process writes any.

    Returns the new notes as they were written. Raises UsageMistake if the folder cannot be written to.
    """
    path, after, lines = folder / NOTES, dict[TrialKey, Note](), []
    with _as_usage_mistakes(path), file_lock(path):
        before = read_notes(folder)
        for key in keys:
            own = before.get(key, NO_NOTE)
            note = change(key, own)
            after[key] = note = replace(note, comment=KNOWN_SECRETS.text(note.comment))
            if note != own:
                lines.append(_note_line(key, note))
        if lines:
            _append(path, b"".join(lines))
    return after


def copy_notes(source: Path, target: Path) -> None:
    """Add the lines of a run's notes to those of another run, which has the same trials."""
    if (source / NOTES).is_file():
        _append(target / NOTES, (source / NOTES).read_bytes())


def _append(path: Path, lines: bytes) -> None:
    # If the process is killed meanwhile, half a line is left, and the next writer begins a new one.
    with closing(AppendedFile(path)) as file:
        file.append(lines)


def _note_line(key: TrialKey, note: Note) -> bytes:
    return add_checksum(encode_line({"v": VERSION, **key._asdict(), **note.to_json()}))


def _read_lines(path: Path, problems: list[str]) -> Iterator[_NoteLine]:
    try:
        raws = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return
    except OSError as refused:
        problems.append(f"{path.name}: left out: {refused.strerror}")
        return
    for number, raw in enumerate(raws, 1):
        if raw.strip():
            try:
                yield _read_note_line(raw, path.name)
            except (ValueError, TypeError, RecursionError, UsageMistake) as broken:
                why = str(broken).removeprefix(f"{path.name}: ")
                problems.append(f"{path.name}:{number}: left out: {why}")


def _read_note_line(raw: bytes, where: str) -> _NoteLine:
    if is_intact(raw) is False:
        raise ValueError(DAMAGED_NOTE)
    try:
        line: Any = read_line(raw)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise ValueError("half a line, which a crash left behind, or no JSON object")
    check_version(line, where)
    try:
        return msgspec.convert(line, _NoteLine)
    except msgspec.ValidationError as problem:
        raise ValueError(f"no line of notes: {problem}") from None


@contextmanager
def _as_usage_mistakes(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as refused:
        raise UsageMistake(f"{path}: notes cannot be kept there ({refused.strerror})") from None

"""What a long journal says in a form that is read at once: derived from it, and never believed against it.

``index-<process>.bin`` stands beside ``journal-<process>.jsonl``. Whoever reads the journal writes it; who
deletes it loses nothing but time.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from pytest_agenteval import __version__
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.records.trial import Digests, Origin, TapeCounts
from pytest_agenteval.store.file_writing import replacing
from pytest_agenteval.store.journal_entry import JournalEntry, TranscriptLocation
from pytest_agenteval.store.packed_columns import Unpackable, decode, encode, pack, unpack

WORTH_BYTES = 256 * 1024
"""Bytes of a journal beyond its index that are worth a new index: shorter ones are read as quickly."""

CHUNK = 1 << 20

KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (JournalEntry, TrialKey, TranscriptLocation, Grade, Digests, Usage, TapeCounts, Origin)
}


class JournalIndex(FrozenValue, frozen=True):
    """The first ``end`` bytes of a journal, which are ``lines`` whole lines.

    ``entries`` are the finished attempts, in the order of their keys and then of their lines;
    ``first_starts`` counts the lines that say a trial was begun for the first time. ``others`` are all other
    lines, as they stand there, with their numbers.
    """

    end: int = 0
    lines: int = 0
    first_starts: int = 0
    entries: Sequence[JournalEntry] = ()
    others: Sequence[tuple[int, bytes]] = ()


NO_INDEX = JournalIndex()


class _Head(msgspec.Struct, frozen=True):
    """The first line of an index: who wrote it, of which bytes of which journal, and what follows.

    ``checksum`` is of these bytes, ``own_checksum`` of what follows. ``modified`` is when the journal was
    written to last, in nanoseconds.
    """

    by: str
    journal: str
    end: int
    modified: int
    checksum: int
    lines: int
    first_starts: int
    entries: int
    packed: int
    own_checksum: int


_read_head = msgspec.json.Decoder(_Head).decode
_write_head = msgspec.json.Encoder().encode


def _author() -> str:
    """Name the code that reads lines: what another version made of them may be something else."""
    fields = [(name, getattr(kind, "__struct_fields__", None)) for name, kind in KINDS.items()]
    return f"{__version__}-{zlib.crc32(repr(fields).encode()):08x}"


BY = _author()


def index_path(journal: Path) -> Path:
    """Give where the index of a journal stands."""
    name = journal.name.removeprefix("journal-").removesuffix(".jsonl")
    return journal.with_name(f"index-{name}.bin")


def read_index(journal: Path) -> JournalIndex:
    """Give the index of a journal; an empty one where there is none, or none that is of its bytes."""
    try:
        # The journal first: what it grows by meanwhile is read behind the index.
        state = journal.stat()
        written = index_path(journal).read_bytes()
        first, _, rest = written.partition(b"\n")
        head = _read_head(first)
        if not (_is_sound(head, rest) and _holds(head, journal, state)):
            return NO_INDEX
    except (OSError, ValueError, msgspec.DecodeError):
        return NO_INDEX
    entries = unpack(rest[: head.packed], head.entries, KINDS)
    others = [(number, raw) for number, raw in decode(rest[head.packed :])]
    return JournalIndex(head.end, head.lines, head.first_starts, entries, others)


def _is_sound(head: _Head, rest: bytes) -> bool:
    """Whether an index was written by this very code, and is as it was written."""
    return head.by == BY and zlib.crc32(rest) == head.own_checksum


def _holds(head: _Head, journal: Path, state: os.stat_result) -> bool:
    """Whether this is the journal that the index is of, and still begins with the same bytes.

    Where it was neither copied nor written to, its size and time say so.
    """
    if head.journal != journal.name:  # which is where the names of transcripts' files come from
        return False
    if (state.st_size, state.st_mtime_ns) == (head.end, head.modified):
        return True
    return state.st_size >= head.end and _checksum(journal, head.end) == head.checksum


def is_worth_writing(read: JournalIndex, end: int) -> bool:
    """Whether so much stands behind an index that a new one saves time."""
    return end - read.end >= WORTH_BYTES


def write_index(journal: Path, index: JournalIndex, state: os.stat_result) -> None:
    """Write the index of a journal beside it; where that cannot be, the next reader does without.

    ``state`` is the journal's from before it was read.
    """
    with suppress(OSError, Unpackable):
        entries = sorted(index.entries, key=lambda entry: entry.key)
        packed = pack(entries, KINDS) if entries else b""
        body = packed + encode(index.others)
        head = _Head(
            by=BY,
            journal=journal.name,
            end=index.end,
            modified=state.st_mtime_ns,
            checksum=_checksum(journal, index.end),
            lines=index.lines,
            first_starts=index.first_starts,
            entries=len(entries),
            packed=len(packed),
            own_checksum=zlib.crc32(body),
        )
        with replacing(index_path(journal)) as beside:
            beside.write_bytes(_write_head(head) + b"\n" + body)


def _checksum(path: Path, end: int) -> int:
    found, left = 0, end
    with path.open("rb") as file:
        while left and (data := file.read(min(CHUNK, left))):
            found, left = zlib.crc32(data, found), left - len(data)
    return found

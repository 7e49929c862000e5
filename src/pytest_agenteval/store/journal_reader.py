"""A journal read back: from its lines, or from the index that is written beside a large one.

The index holds the entries in columns; a value that repeats is stored only once.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, repeat
from math import copysign
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from pytest_agenteval import __version__
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.records.trial import Digests, Origin, TapeCounts
from pytest_agenteval.store.journal_entry import (
    JournalEntry,
    NotRunTrial,
    StartedAttempt,
    TranscriptLocation,
    check_keys,
    read_finished,
    read_not_run,
    read_started,
)
from pytest_agenteval.store.record_files import (
    DAMAGED,
    VERSION,
    Line,
    check_version,
    encode_line,
    is_intact,
    read_line,
    replacing,
)

SCALARS = frozenset({str, int, float, bool, type(None)})
# A column is written as a table if each of its values occurs at least this often on average.
FEW = 4

LISTS: Mapping[str, type] = {"tuple": tuple, "list": list}
# What lists and maps are turned into when they are read. All empty maps become one object.
SHAPES: Mapping[str, Callable[[Any], Any]] = {**LISTS, "map": lambda value: value or NOTHING}

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode


class Unpackable(ValueError):
    """A value that cannot be stored exactly: a whole number of more than 64 bits, half a surrogate pair."""


# The form in which a column is written, and its contents.
PackedColumn = tuple[str, Any]


def pack(values: Sequence[Any], kinds: Mapping[str, type]) -> bytes:
    """Encode values as columns; raises Unpackable if they would not come back as they are.

    ``kinds`` are the named tuples and structs that the values may be made of.
    """
    try:
        return encode(_column(values, {kind: name for name, kind in kinds.items()}))
    except (OverflowError, UnicodeEncodeError, TypeError) as problem:
        raise Unpackable(str(problem)) from problem


def _column(values: Sequence[Any], names: Mapping[type, str]) -> PackedColumn:
    types = set(map(type, values))
    if len(types) == 1 and (kind := next(iter(types))) in names:
        # If all values are one object, only that object is written.
        distinct = values[:1] if len(set(map(id, values))) == 1 else values
        fields = distinct if issubclass(kind, tuple) else map(msgspec.structs.astuple, distinct)
        return "each", (names[kind], [_column(column, names) for column in zip(*fields, strict=True)])
    # Records of which some are missing, such as ``paid``: first which are there, then those.
    if type(None) in types and types - {type(None)} <= {*names}:
        there = [value is not None for value in values]
        some = [value for value in values if value is not None]
        return "some", (_column(there, names), len(some), _column(some, names))
    inner = {type(item) for value in values for item in value} if types == {tuple} else set()
    # Tuples of records, such as grades: first how many each value has, then all of them in one column.
    if inner and inner <= {*names}:
        flat = [item for value in values for item in value]
        return "rows", (_column(list(map(len, values)), names), len(flat), _column(flat, names))
    return _scalars(values, types) if types <= SCALARS else _plain(values)


def _scalars(values: Sequence[Any], types: set[type]) -> PackedColumn:
    # Each with its type: 1, 1.0 and true are equal, but not the same figure in a report.
    keys = values if len(types) == 1 else list(zip(map(type, values), values, strict=True))
    distinct = dict.fromkeys(keys)
    if len(distinct) * FEW > len(values) and len(distinct) > 1:
        return "list", list(values)
    # -0.0 equals 0.0, so a table would turn one into the other.
    if float in types and any(value == 0 and copysign(1, value) < 0 for value in values if value is not None):
        return "list", list(values)
    table = list(distinct) if len(types) == 1 else [value for _, value in distinct]
    return _table(table, keys, {value: at for at, value in enumerate(distinct)})


def _plain(values: Sequence[Any]) -> PackedColumn:
    """Encode lists and maps of scalars; two count as equal if their encoded bytes are."""
    for value in values:
        inner = value.values() if isinstance(value, dict) else value
        if not {*map(type, inner)} <= SCALARS:
            raise Unpackable(f"a list or a map of scalars was expected, not {value!r:.80}")
    shape = next((name for name, kind in LISTS.items() if type(values[0]) is kind), "map")
    # Lists and maps cannot be keys, and compared by value 1 would equal 1.0.
    keys = list(map(encode, values))
    distinct = dict(zip(keys, values, strict=True))
    where = {text: at for at, text in enumerate(distinct)}
    return shape, _table(list(distinct.values()), keys, where)


def _table(table: Sequence[Any], keys: Sequence[Any], where: Mapping[Any, int]) -> PackedColumn:
    return ("same", table[0]) if len(table) == 1 else ("table", (table, [where[value] for value in keys]))


def _values(column: Sequence[Any], kinds: Mapping[str, type]) -> Iterable[Any]:
    """Return the values of a column.

    If all are the same, the iterator never ends: the caller knows how many it needs.
    """
    way, parts = column
    if way == "same":
        return repeat(parts)
    if way == "list":
        return list(parts)
    if way == "table":
        return map(parts[0].__getitem__, parts[1])
    if way == "each":
        kind = kinds[parts[0]]
        columns = parts[1]
        fields = [_values(column, kinds) for column in columns]
        # The constructor of a named tuple is Python code, and slower than that of a tuple. ``zip`` is not
        # strict, as a column of one repeated value never ends.
        is_tuple = issubclass(kind, tuple)
        made = map(partial(tuple.__new__, kind), zip(*fields)) if is_tuple else map(kind, *fields)  # noqa: B905
        return repeat(next(made)) if all(map(_is_same, columns)) else made
    if way == "rows":
        lengths, count, items = parts
        flat = islice(_values(items, kinds), count)
        if _is_same(lengths):
            # One iterator several times: each step takes that many items from it.
            return zip(*[flat] * lengths[1], strict=True)
        return (tuple(islice(flat, length)) for length in _values(lengths, kinds))
    if way == "some":
        present, count, items = parts
        some = islice(_values(items, kinds), count)
        return (next(some) if there else None for there in _values(present, kinds))
    shape, (inner, values) = SHAPES[way], parts
    if inner == "same":
        return repeat(shape(values))
    return map(list(map(shape, values[0])).__getitem__, values[1])


def _is_same(column: Sequence[Any]) -> bool:
    way, parts = column
    if way == "each":
        return all(map(_is_same, parts[1]))
    return way == "same" or (way in SHAPES and parts[0] == "same")


# A journal that grew by this many bytes beyond its index gets a new index. Less is read as quickly without.
WORTH_BYTES = 256 * 1024

CHUNK = 1 << 20

KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (JournalEntry, TrialKey, TranscriptLocation, Grade, Digests, Usage, TapeCounts, Origin)
}


class JournalIndex(FrozenValue, frozen=True):
    """The first ``end`` bytes of a journal, which are ``lines`` whole lines.

    ``entries`` are the finished attempts, ordered by key and then by line. ``first_starts`` counts the lines
    of trials that started for the first time. ``others`` are all other lines as raw bytes, with their
    numbers.
    """

    end: int = 0
    lines: int = 0
    first_starts: int = 0
    entries: Sequence[JournalEntry] = ()
    others: Sequence[tuple[int, bytes]] = ()


NO_INDEX = JournalIndex()


class _Head(msgspec.Struct, frozen=True):
    """The first line of an index: who wrote it, which bytes of which journal it covers, and what follows.

    ``checksum`` is of these bytes, ``own_checksum`` of what follows. ``modified`` is when the journal was
    last written to, in nanoseconds.
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


def _author() -> str:
    """Identify the code that reads lines: its version and the fields of its records."""
    fields = [(name, getattr(kind, "__struct_fields__", None)) for name, kind in KINDS.items()]
    return f"{__version__}-{zlib.crc32(repr(fields).encode()):08x}"


BY = _author()


def index_path(journal: Path) -> Path:
    name = journal.name.removeprefix("journal-").removesuffix(".jsonl")
    return journal.with_name(f"index-{name}.bin")


def _read_index(journal: Path) -> JournalIndex:
    """Return a journal's index; an empty one if there is none, or if it is not of the journal's bytes."""
    try:
        # The journal's state first: lines that are added meanwhile are read after those of the index.
        state = journal.stat()
        written = index_path(journal).read_bytes()
        first, _, rest = written.partition(b"\n")
        head = msgspec.json.decode(first, type=_Head)
        # Another version may have read the lines differently.
        sound = head.by == BY and zlib.crc32(rest) == head.own_checksum
        if not (sound and _holds(head, journal, state)):
            return NO_INDEX
    except (OSError, ValueError, msgspec.DecodeError):
        return NO_INDEX
    entries = list(islice(_values(decode(rest[: head.packed]), KINDS), head.entries))
    others = [(number, raw) for number, raw in decode(rest[head.packed :])]
    return JournalIndex(head.end, head.lines, head.first_starts, entries, others)


def _holds(head: _Head, journal: Path, state: os.stat_result) -> bool:
    """Whether the index is of this journal, whose first bytes are still the same.

    If the journal was neither copied nor written to since, its size and modification time are enough.
    """
    # The names of transcript files come from the journal's name, and a merge gives its files new names.
    if head.journal != journal.name:
        return False
    if (state.st_size, state.st_mtime_ns) == (head.end, head.modified):
        return True
    return state.st_size >= head.end and _checksum(journal, head.end) == head.checksum


def _write_index(journal: Path, index: JournalIndex, state: os.stat_result) -> None:
    """Write the index of a journal beside it; if that fails, the next reader does without.

    ``state`` is the journal's from before it was read.
    """
    # An index only saves time, so a failure to write one is no error.
    with suppress(OSError, Unpackable):
        entries = sorted(index.entries, key=lambda entry: entry.key)
        packed = pack(entries, KINDS) if entries else b""
        body = packed + encode(index.others)
        head = _Head(
            by=BY,
            journal=journal.name,
            end=index.end,
            # From before the journal was read: if lines were added since, the next reader compares checksums.
            modified=state.st_mtime_ns,
            checksum=_checksum(journal, index.end),
            lines=index.lines,
            first_starts=index.first_starts,
            entries=len(entries),
            packed=len(packed),
            own_checksum=zlib.crc32(body),
        )
        with replacing(index_path(journal)) as beside:
            beside.write_bytes(msgspec.json.encode(head) + b"\n" + body)


def _checksum(path: Path, end: int) -> int:
    found, left = 0, end
    with path.open("rb") as file:
        while left and (data := file.read(min(CHUNK, left))):
            found, left = zlib.crc32(data, found), left - len(data)
    return found


# How a line begins that says that a trial started for the first time. Half the lines of most runs do.
FIRST_START = encode_line({"v": VERSION, "kind": "started", "attempt": 1})[:-2] + b","

HALF = "half a line, which a crash left behind, or no JSON object"


class Journal:
    """All journal lines of a run, merged."""

    def __init__(self) -> None:
        self._finished: dict[TrialKey, list[JournalEntry]] = {}
        self._started: dict[TrialKey, list[int]] = {}
        self._not_run: dict[TrialKey, NotRunTrial] = {}
        self._paths: list[Path] = []
        self._first_starts = 0
        self._first_ends = 0
        self.odd: list[str] = []

    def read(self, path: Path) -> None:
        """Add one process's journal; the lines that its index holds are not read again."""
        self._paths.append(path)
        state, index = path.stat(), _read_index(path)
        self._first_starts += index.first_starts
        for indexed in index.entries:
            self._take_entry(indexed)
        for number, raw in index.others:
            self._take_raw(path, number, raw)
        end, number, first_starts = index.end, index.lines, index.first_starts
        entries, others = [*index.entries], [*index.others]
        for raw in _raw_lines(path, index.end):
            whole, is_first = raw.endswith(b"\n"), _is_first_start(raw)
            entry = None
            # First starts are half of all lines, and say nothing new if the trial ended: ``settle`` parses
            # them.
            if not is_first:
                entry = self._take_raw(path, number + 1, raw)
            # Another process is writing this line, or a crash left it: it is in no index.
            if not whole:
                break
            end, number, first_starts = end + len(raw), number + 1, first_starts + is_first
            if entry is not None:
                entries.append(entry)
            elif not is_first:
                others.append((number, raw))
        self._first_starts += first_starts - index.first_starts
        # A pipe is read to its end, but gets no index.
        if end - index.end >= WORTH_BYTES and path.is_file():
            _write_index(path, JournalIndex(end, number, first_starts, entries, others), state)

    def _take_raw(self, path: Path, number: int, raw: bytes) -> JournalEntry | None:
        """Add a line and return the finished attempt that it holds, if any; note an unreadable line."""
        intact, line = is_intact(raw), _parse_line(raw)
        # A newer version may calculate checksums in another way, so only the first line may be of one despite
        # a wrong checksum. Further down, such a line is damage.
        version = line.get("v") if line is not None and (intact is not False or number == 1) else None
        if line is not None and isinstance(version, int) and version > VERSION:
            check_version(line, f"{path}:{number}")
        if intact is False or line is None:
            if raw.strip():
                self._note(path, number, HALF if line is None else DAMAGED)
            return None
        try:
            if intact is None:
                check_keys(line)
            # ``JournalWriter`` names both files after the process.
            return self._take(line, path.name.replace("journal-", "transcripts-", 1))
        except ValueError as problem:
            self._note(path, number, f"holds {problem}")
            return None

    def _take(self, line: Line, transcripts: str) -> JournalEntry | None:
        kind = line.get("kind")
        if kind == "started":
            key, attempt = read_started(line)
            self._started.setdefault(key, []).append(attempt)
        elif kind == "finished":
            return self._take_entry(read_finished(line, transcripts))
        elif kind == "not_run":
            held_back = read_not_run(line)
            self._not_run[held_back.key] = held_back
        else:
            kinds = "started, finished or not_run"
            raise ValueError(f"the kind {kind!r}, and not {kinds}" if kind else "no key 'kind'")
        return None

    def _take_entry(self, entry: JournalEntry) -> JournalEntry:
        attempts = self._finished.setdefault(entry.key, [])
        # The same line twice: what the attempt used was paid only once.
        if attempts and entry in attempts:
            raise ValueError("the same line once more")
        # A trial that was taken over as it is never started in this run, so it has no first start.
        if entry.attempt == 1 and (entry.origin is None or entry.origin.regraded):
            self._first_ends += 1
        attempts.append(entry)
        return entry

    def _note(self, path: Path, number: int, what: str) -> None:
        self.odd.append(f"{path.name}:{number}: left out: {what}")

    def settle(self) -> None:
        """Parse the first starts, unless as many first attempts ended: then they say nothing new."""
        if self._first_starts == self._first_ends:
            return
        for path in self._paths:
            seen: set[bytes] = set()
            for number, raw in enumerate(_raw_lines(path), start=1):
                # A line that stands there twice is one start.
                if _is_first_start(raw) and raw not in seen:
                    seen.add(raw)
                    line = _parse_line(raw)
                    try:
                        if line is not None and is_intact(raw) is None:
                            check_keys(line)
                        key, attempt = read_started({} if line is None else line)
                    except ValueError as problem:
                        self._note(path, number, HALF if line is None else f"holds {problem}")
                    else:
                        self._started.setdefault(key, []).append(attempt)

    def entries(self) -> tuple[JournalEntry, ...]:
        """Return the last finished attempt of each trial, sorted by key."""
        finished, started = self._finished, self._started
        return tuple(
            # Most trials have one attempt, and nothing else to work out.
            attempts[0]
            if len(attempts := finished[key]) == attempts[0].attempt == 1 and key not in started
            else self._last(attempts)
            for key in sorted(finished)
        )

    def begun(self) -> tuple[StartedAttempt, ...]:
        """Return the attempts that started after the last one that finished."""
        return tuple(
            StartedAttempt(key, attempt)
            for key in sorted(self._started)
            for attempt in sorted(set(self._started[key]))
            if attempt > max((entry.attempt for entry in self._finished.get(key, ())), default=0)
        )

    def not_run(self) -> tuple[NotRunTrial, ...]:
        """Return the trials that were held back and have never finished, sorted by key."""
        return tuple(self._not_run[key] for key in sorted(self._not_run) if key not in self._finished)

    def _last(self, attempts: list[JournalEntry]) -> JournalEntry:
        # ``max`` returns the first of equals: reversed, so that of two lines of one attempt, as a full disk
        # can leave them, the later one counts.
        last = max(reversed(attempts), key=lambda entry: (entry.attempt, entry.started_at))
        started = self._started.get(last.key, ())
        attempts_made = max(last.attempt, len(attempts), len(started), *started)
        if attempts_made == 1:
            return last
        # An attempt that only took over an earlier one, with new grades or none, used nothing itself.
        known = {_source(last)} if last.origin is not None else set()
        before = []
        for entry in attempts:
            is_again = entry.origin is not None and not entry.origin.run
            if entry is last or is_again or _source(entry) in known:
                continue
            if entry.origin is not None:
                known.add(_source(entry))
            before.append(entry)
        attempts_made -= len(attempts) - 1 - len(before)
        earlier, seconds = tuple(entry.usage for entry in before), sum(entry.seconds for entry in before)
        return replace(last, attempts=attempts_made, earlier=earlier, earlier_seconds=seconds)


def _source(entry: JournalEntry) -> tuple[str, int]:
    """Return the run (empty: this one) and the attempt in which the agent acted."""
    return (entry.origin.run, entry.origin.attempt) if entry.origin is not None else ("", entry.attempt)


def _raw_lines(path: Path, start: int = 0) -> Iterator[bytes]:
    with path.open("rb") as file:
        # A pipe cannot be read from a place within it; as it has no index, it is always read from its start.
        if start:
            file.seek(start)
        yield from file


def _is_first_start(raw: bytes) -> bool:
    return raw.startswith(FIRST_START) and raw.endswith(b"}\n") and is_intact(raw) is not False


def _parse_line(raw: bytes) -> Line | None:
    try:
        line = read_line(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None

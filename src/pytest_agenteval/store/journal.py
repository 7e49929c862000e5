"""The journals of a run, merged: which attempts of each trial finished, and which were only begun."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.journal_codec import check_keys, read_finished, read_not_run, read_started
from pytest_agenteval.store.journal_entry import JournalEntry, NotRunTrial, StartedAttempt
from pytest_agenteval.store.journal_index import JournalIndex, is_worth_writing, read_index, write_index
from pytest_agenteval.store.json_lines import (
    DAMAGED,
    VERSION,
    Line,
    check_version,
    encode_line,
    is_intact,
    read_line,
)

FIRST_START = encode_line({"v": VERSION, "kind": "started", "attempt": 1})[:-2] + b","
"""How the line begins that says a trial was begun for the first time: half of all lines of most runs."""

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
        """Add one process's journal; what its index says of it is not read again."""
        self._paths.append(path)
        state, index = path.stat(), read_index(path)
        self._first_starts += index.first_starts
        for entry in index.entries:
            self._take_entry(entry)
        for number, raw in index.others:
            self._take_raw(path, number, raw)
        grown = self._read_behind(path, index)
        if is_worth_writing(index, grown.end) and path.is_file():
            write_index(path, grown, state)

    def _read_behind(self, path: Path, index: JournalIndex) -> JournalIndex:
        """Add the lines that an index knows nothing of, and give one that knows them too."""
        end, number, first_starts = index.end, index.lines, index.first_starts
        entries, others = [*index.entries], [*index.others]
        for raw in _raw_lines(path, index.end):
            whole, is_first = raw.endswith(b"\n"), _is_first_start(raw)
            entry = None
            if not is_first:  # half of all lines are, and as a rule they say nothing new
                entry = self._take_raw(path, number + 1, raw)
            if not whole:  # somebody is writing it, or a crash left it
                break
            end, number, first_starts = end + len(raw), number + 1, first_starts + is_first
            if entry is not None:
                entries.append(entry)
            elif not is_first:
                others.append((number, raw))
        self._first_starts += first_starts - index.first_starts
        return JournalIndex(end, number, first_starts, entries, others)

    def _take_raw(self, path: Path, number: int, raw: bytes) -> JournalEntry | None:
        """Add a line, and give the finished attempt that it tells of; what is no such line is noted."""
        intact, line = is_intact(raw), _parse_line(raw)
        # A newer version's checksums may be others; in the midst of a file a newer version is only damage.
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
            return self._take(line, path.name.replace("journal-", "transcripts-", 1))
        except ValueError as odd:
            self._note(path, number, f"holds {odd}")
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
        if attempts and entry in attempts:  # a line that stands there twice: what it took was paid once
            raise ValueError("the same line once more")
        if entry.attempt == 1 and not _is_reused(entry):
            self._first_ends += 1
        attempts.append(entry)
        return entry

    def _note(self, path: Path, number: int, what: str) -> None:
        self.odd.append(f"{path.name}:{number}: left out: {what}")

    def settle(self) -> None:
        """Look at the first starts, which say nothing new where as many first attempts ended."""
        if self._first_starts == self._first_ends:
            return
        for path in self._paths:
            seen: set[bytes] = set()
            for number, raw in enumerate(_raw_lines(path), start=1):
                if _is_first_start(raw) and raw not in seen:
                    seen.add(raw)
                    self._take_start(path, number, raw)

    def _take_start(self, path: Path, number: int, raw: bytes) -> None:
        line = _parse_line(raw)
        try:
            if line is not None and is_intact(raw) is None:
                check_keys(line)
            key, attempt = read_started({} if line is None else line)
        except ValueError as odd:
            self._note(path, number, HALF if line is None else f"holds {odd}")
        else:
            self._started.setdefault(key, []).append(attempt)

    def entries(self) -> tuple[JournalEntry, ...]:
        """Give the last finished attempt of each trial."""
        finished, started = self._finished, self._started
        return tuple(
            # Of most trials there is one attempt, of which nothing else is to be said.
            attempts[0]
            if len(attempts := finished[key]) == attempts[0].attempt == 1 and key not in started
            else self._last(attempts)
            for key in sorted(finished)
        )

    def begun(self) -> tuple[StartedAttempt, ...]:
        """Give the attempts that were begun after the last one that finished."""
        return tuple(
            StartedAttempt(key, attempt)
            for key in sorted(self._started)
            for attempt in sorted(set(self._started[key]))
            if attempt > max((entry.attempt for entry in self._finished.get(key, ())), default=0)
        )

    def not_run(self) -> tuple[NotRunTrial, ...]:
        """Give the trials that were held back and have never finished, sorted by key."""
        return tuple(self._not_run[key] for key in sorted(self._not_run) if key not in self._finished)

    def _last(self, attempts: list[JournalEntry]) -> JournalEntry:
        # reversed: of two lines of one attempt, as a full disk can leave them, the later one holds.
        last = max(reversed(attempts), key=lambda entry: (entry.attempt, entry.started_at))
        started = self._started.get(last.key, ())
        begun = max(last.attempt, len(attempts), len(started), *started)
        if begun == 1:
            return last
        before = _own_attempts(last, attempts)
        begun -= len(attempts) - 1 - len(before)
        earlier, seconds = tuple(entry.usage for entry in before), sum(entry.seconds for entry in before)
        return replace(last, attempts=begun, earlier=earlier, earlier_seconds=seconds)


def _own_attempts(last: JournalEntry, attempts: list[JournalEntry]) -> list[JournalEntry]:
    """Give the attempts, the last one left out, that were carried out for themselves.

    One that only took over an earlier one of them, with new grades or none, took nothing.
    """
    known = {_source(last)} if last.origin is not None else set()
    others = []
    for entry in attempts:
        is_again = entry.origin is not None and not entry.origin.run
        if entry is last or is_again or _source(entry) in known:
            continue
        if entry.origin is not None:
            known.add(_source(entry))
        others.append(entry)
    return others


def _source(entry: JournalEntry) -> tuple[str, int]:
    """Name the run, empty for this one, and the attempt in which an agent acted."""
    return (entry.origin.run, entry.origin.attempt) if entry.origin is not None else ("", entry.attempt)


def _is_reused(entry: JournalEntry) -> bool:
    """Whether a trial was taken over as it is: it never began here."""
    return entry.origin is not None and not entry.origin.regraded


def _raw_lines(path: Path, start: int = 0) -> Iterator[bytes]:
    with path.open("rb") as file:
        if start:  # what is no plain file cannot be read from a place within it, and has no index
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

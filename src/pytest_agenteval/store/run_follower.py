"""A run or a journal that is still being written: only what was added to its files is read."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from itertools import count
from pathlib import Path
from threading import Lock

from pytest_agenteval.processes.startup import garbage_collection_paused
from pytest_agenteval.records.transcript import NO_USAGE, Usage
from pytest_agenteval.store.journal_entry import FinishedLine, JournalLine, StartedAttempt, read_journal_line
from pytest_agenteval.store.journal_reader import MOST_READ, Journal
from pytest_agenteval.store.notes import NOTES
from pytest_agenteval.store.run_documents import EXTRA, LOOKS
from pytest_agenteval.store.run_folder import HEADER, PLANNED, RunHeader
from pytest_agenteval.store.run_reader import JOURNALS, Run, RunDocuments, read_documents, run_of
from pytest_agenteval.store.transcript_lines import TextIndex

FileState = tuple[int, int, int]


class RunFollower:
    """Gives a run as ``load_run`` would read it now, each time from what it knows and from what is new.

    Processes may start and write at any time: workers of xdist, and those of a run that is resumed.
    ``version`` is another number after each change that was seen, and differs from that of any other follower
    of this process. Several threads may use it.
    """

    _versions = count(1)

    def __init__(self, folder: Path) -> None:
        self.folder, self.version = folder, 0
        self._lock = Lock()
        self._parts: dict[str, _JournalPart] = {}
        self._states: dict[str, FileState] = {}
        self._documents: RunDocuments | None = None
        self._texts = TextIndex(folder)
        self._run: Run | None = None

    @property
    def is_there(self) -> bool:
        """Whether the folder is still that of a run."""
        return (self.folder / HEADER).is_file()

    def run(self) -> Run:
        """Read what is new, and give the run: the same object where nothing is.

        Raises UsageMistake where the folder is no run, or no longer one.
        """
        # Everything that is made here stays, so looking for garbage would find none.
        with self._lock, garbage_collection_paused():
            are_new = [self._read_documents(), self._read_journals()]
            if self._run is None or self._documents is None or any(are_new):
                documents = self._documents or read_documents(self.folder)
                self._run = self._made(documents)
                self.version = next(self._versions)
            return self._run

    def _read_documents(self) -> bool:
        """Read header, plan, looks and notes again where one of them was written; whether they were."""
        # Before they are read: what is written meanwhile makes a difference next time.
        states: dict[str, FileState] = {}
        for name in (HEADER, PLANNED, EXTRA, LOOKS, NOTES):
            with suppress(FileNotFoundError):
                state = (self.folder / name).stat()
                states[name] = state.st_ino, state.st_size, state.st_mtime_ns
        if self._documents is not None and states == self._states:
            return False
        self._documents = None
        self._documents, self._states = read_documents(self.folder), states
        return True

    def _read_journals(self) -> bool:
        """Read what was added to the journals; whether anything was."""
        is_new, parts = False, {}
        for path in sorted(self.folder.glob(JOURNALS)):
            parts[path.name] = self._parts.get(path.name) or _JournalPart(path)
            is_new |= parts[path.name].read()
        is_new |= parts.keys() != self._parts.keys()
        self._parts = parts
        return is_new

    def _made(self, documents: RunDocuments) -> Run:
        journals = [part.journal for part in self._parts.values()]
        run = run_of(self.folder, documents, Journal.joined(journals), self._texts)
        # Else it would read the journals of processes that died.
        run.lost = self._lost(documents.header, run.begun)
        return run

    def _lost(self, header: RunHeader, begun: tuple[StartedAttempt, ...]) -> tuple[StartedAttempt, ...]:
        unfinished, lost = set(begun), list[StartedAttempt]()
        for process in header.died:
            part = self._parts.get(f"journal-{process}.jsonl")
            lost += unfinished.intersection(part.journal.merged()[1]) if part else ()
        return tuple(sorted(lost))


class _JournalPart:
    """The journal of one process, as far as it was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._forget()

    def _forget(self) -> None:
        self._whole, self._number = Journal(), 1
        self._file, self._size, self._half = 0, 0, b""

    @property
    def journal(self) -> Journal:
        """All lines of the file; the last one may be half written, or what a crash left of it."""
        if not self._half:
            return self._whole
        # Its end may still come, and then it is another line.
        journal = Journal.joined([self._whole])
        journal.add(self._path, self._number, [self._half])
        return journal

    def read(self) -> bool:
        """Read what was added; whether anything was."""
        state = self._path.stat()
        # A file that was exchanged or cut is read anew.
        is_new = state.st_ino != self._file or state.st_size < self._size
        if is_new:
            self._forget()
            self._file = state.st_ino
        if state.st_size > self._size:
            is_new = True
            with self._path.open("rb") as file:
                file.seek(self._size)
                while added := file.read(MOST_READ):
                    self._add(added)
        return is_new

    def _add(self, added: bytes) -> None:
        whole, newline, half = (self._half + added).rpartition(b"\n")
        raws = BytesIO(whole + newline).readlines()
        self._whole.add(self._path, self._number, raws)
        # Only now: a line of a newer version is refused each time.
        self._number += len(raws)
        self._size, self._half = self._size + len(added), half


JOURNAL = re.compile(r"journal-(?P<worker>[^-]+)-.+\.jsonl")


class JournalTail:
    """Reads what was added to the journals of a run's folder, including those of workers that start later."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[str, int] = {}

    def news(self) -> Iterator[tuple[str, list[JournalLine]]]:
        """Yield the name of each process (``main``, or an xdist worker's) with its new lines.

        A half-written line is returned once it is whole; a line that cannot be read is left out.
        """
        for name in sorted(os.listdir(self._folder)):
            match = JOURNAL.fullmatch(name)
            data = self._new_lines(name) if match is not None else b""
            if match is not None and data:
                yield match["worker"], list(_lines(data.splitlines(keepends=True), self._folder / name))

    def _new_lines(self, name: str) -> bytes:
        path, offset = self._folder / name, self._offsets.get(name, 0)
        fresh = path.stat().st_size - offset
        if fresh <= 0:
            return b""
        with path.open("rb") as journal:
            journal.seek(offset)
            # The offset stays before a half-written line, and the next call reads it again.
            whole, newline, _ = journal.read(min(fresh, MOST_READ)).rpartition(b"\n")
        self._offsets[name] = offset + len(whole) + len(newline)
        return whole + newline


def paid_so_far(folder: Path, offline: Collection[str] = ()) -> Usage:
    """Add up what was paid for all finished attempts in a run's folder.

    As in ``Journal``, a damaged line is left out, and a line that stands there twice counts once. Models that
    ``offline`` names cost nothing: an agent's usage of one is left out if its cost is 0.
    """
    paid = NO_USAGE
    for file in sorted(folder.glob("journal-*.jsonl")):
        with file.open("rb") as journal:
            for line in _lines(dict.fromkeys(journal), file):
                if isinstance(line, FinishedLine):
                    paid = paid + _paid(line, offline)
    return paid


def _lines(raws: Iterable[bytes], path: Path) -> Iterator[JournalLine]:
    for number, raw in enumerate(raws, start=1):
        # A line that a crash cut: the run's report names it.
        with suppress(ValueError):
            yield read_journal_line(raw, path, number)


def _paid(line: FinishedLine, offline: Collection[str]) -> Usage:
    if line.paid is not None:
        return line.paid.usage
    used, others = line.usage.usage, line.judging.usage + line.simulating.usage
    # An agent with an offline model may call real models by itself; then it has a cost.
    return others if line.model in offline and used.cost_usd == 0 else used + others

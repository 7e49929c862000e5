"""A journal that is still being written: finished trials, usage, money spent."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pytest_agenteval.records.transcript import NO_USAGE, Usage
from pytest_agenteval.store.journal_entry import FinishedLine, JournalLine, read_journal_line

# How many bytes of a journal are read at a time.
MOST_READ = 4 * 1024 * 1024

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

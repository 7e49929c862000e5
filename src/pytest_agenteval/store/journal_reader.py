"""The journals of a run, read back and merged: the last attempt of each trial."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.journal_entry import (
    FinishedLine,
    JournalEntry,
    JournalLine,
    NotRunTrial,
    StartedAttempt,
    StartedLine,
    read_journal_line,
)


class _Start(NamedTuple):
    attempt: int
    at: str
    journal: str


class Journal:
    """All journal lines of a run, merged."""

    def __init__(self) -> None:
        self._finished: dict[TrialKey, list[JournalEntry]] = {}
        self._starts: dict[TrialKey, tuple[_Start, ...]] = {}
        self._not_run: dict[TrialKey, NotRunTrial] = {}
        self.odd: list[str] = []

    def read(self, path: Path) -> None:
        """Add one process's journal; name in ``odd`` the lines that cannot be read."""
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                try:
                    self._add(read_journal_line(raw, path, number), path.name)
                except ValueError as problem:
                    if raw.strip():
                        self.odd.append(f"{path.name}:{number}: left out: {problem}")

    def _add(self, line: JournalLine, journal: str) -> None:
        key = line.key
        if isinstance(line, FinishedLine):
            entry, attempts = line.entry(key, journal), self._finished.get(key)
            if attempts is None:
                self._finished[key] = [entry]
            # What the attempt used was paid only once.
            elif entry in attempts:
                raise ValueError("holds the same line once more")
            else:
                attempts.append(entry)
        elif isinstance(line, StartedLine):
            start = _Start(line.attempt, line.at, journal)
            # A line that stands there twice is one start.
            if start not in (starts := self._starts.get(key, ())):
                self._starts[key] = (*starts, start)
        else:
            self._not_run[key] = NotRunTrial(key, line.cause, line.reason)

    def entries(self) -> tuple[JournalEntry, ...]:
        """Return the last finished attempt of each trial, sorted by key."""
        return tuple([self._last(self._finished[key]) for key in sorted(self._finished)])

    def begun(self) -> tuple[StartedAttempt, ...]:
        """Return the attempts that started after the last one that finished."""
        return tuple(
            StartedAttempt(key, attempt)
            for key, starts in sorted(self._starts.items())
            for attempt in sorted({start.attempt for start in starts})
            if attempt > max([entry.attempt for entry in self._finished.get(key, ())], default=0)
        )

    def not_run(self) -> tuple[NotRunTrial, ...]:
        """Return the trials that were held back and have never finished, sorted by key."""
        return tuple(self._not_run[key] for key in sorted(self._not_run) if key not in self._finished)

    def _last(self, attempts: list[JournalEntry]) -> JournalEntry:
        starts = self._starts.get(attempts[0].key, ())
        # Most trials have one attempt, and nothing else to work out.
        if len(attempts) == attempts[0].attempt == 1 and (
            not starts or starts[-1].attempt == len(starts) == 1
        ):
            return attempts[0]
        # ``max`` returns the first of equals: reversed, so that of two lines of one attempt, as a full disk
        # can leave them, the later one counts.
        last = max(reversed(attempts), key=lambda entry: (entry.attempt, entry.started_at))
        numbers = [start.attempt for start in starts]
        attempts_made = max(last.attempt, len(attempts), len(starts), *numbers)
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

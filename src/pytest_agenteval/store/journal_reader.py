"""The journals of a run, read back and merged: the last attempt of each trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import NamedTuple, Self

from msgspec.structs import replace

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.journal_entry import (
    FinishedLine,
    JournalEntry,
    NotRunLine,
    NotRunTrial,
    StartedAttempt,
    StartedLine,
    read_journal_lines,
)

# How many bytes of a journal are read at a time.
MOST_READ = 4 * 1024 * 1024

_KEY = attrgetter(*TrialKey._fields)
_ATTEMPT = attrgetter("attempt")


class _Start(NamedTuple):
    attempt: int
    at: str
    journal: str


class Journal:
    """All journal lines of a run, merged."""

    def __init__(self) -> None:
        # The first ended attempt of each trial, and those after it, which few trials have.
        self._finished: dict[TrialKey, JournalEntry] = {}
        self._later: dict[TrialKey, list[JournalEntry]] = {}
        self._started: dict[str, list[StartedLine]] = {}
        self._not_run: dict[TrialKey, NotRunTrial] = {}
        self.odd: list[str] = []

    def read(self, path: Path, of_task: Callable[[str], bool] | None = None) -> None:
        """Add one process's journal; name in ``odd`` the lines that cannot be read.

        ``of_task`` says which tasks are needed: those of others may be missing.
        """
        number = 1
        with path.open("rb") as file:
            while raws := file.readlines(MOST_READ):
                self.add(path, number, raws, of_task)
                number += len(raws)

    def add(
        self, path: Path, first: int, raws: Sequence[bytes], of_task: Callable[[str], bool] | None = None
    ) -> None:
        """Add lines of one process's journal, from number ``first`` on; a journal's lines come in order."""
        # ``JournalWriter`` names both files after the process.
        transcripts = path.name.replace("journal-", "transcripts-", 1)
        started = self._started.setdefault(path.name, [])
        for at, line in enumerate(read_journal_lines(raws, path, first, of_task)):
            if isinstance(line, FinishedLine):
                key = line.key
                entry = line.entry(key, transcripts)
                if self._finished.setdefault(key, entry) is not entry:
                    self._add_later(entry, f"{path.name}:{first + at}")
            elif isinstance(line, StartedLine):
                started.append(line)
            elif isinstance(line, NotRunLine):
                self._not_run[line.key] = NotRunTrial(line.key, line.cause, line.reason)
            elif line is not None and raws[at].strip():
                self.odd.append(f"{path.name}:{first + at}: left out: {line}")

    @classmethod
    def joined(cls, journals: Iterable[Journal]) -> Self:
        """Merge journals of single processes, in the order of their files' names; these stay as they are.

        It is as if one journal had read all files, since lines of two files are never equal: each names the
        file of its transcript.
        """
        whole = cls()
        for part in journals:
            shared = whole._finished.keys() & part._finished.keys()
            for key in shared:
                later = whole._later.setdefault(key, [])
                later += (part._finished[key], *part._later.get(key, ()))
            whole._later |= {key: [*later] for key, later in part._later.items() if key not in shared}
            earlier = {key: whole._finished[key] for key in shared}
            whole._finished |= part._finished
            whole._finished |= earlier
            for name, lines in part._started.items():
                whole._started.setdefault(name, []).extend(lines)
            whole._not_run |= part._not_run
            whole.odd += part.odd
        return whole

    def _add_later(self, entry: JournalEntry, where: str) -> None:
        later = self._later.setdefault(entry.key, [])
        # What the attempt used was paid only once.
        if entry in (self._finished[entry.key], *later):
            self.odd.append(f"{where}: left out: holds the same line once more")
        else:
            later.append(entry)

    def merged(self) -> tuple[tuple[JournalEntry, ...], tuple[StartedAttempt, ...]]:
        """Return the last finished attempt of each trial, and the attempts that started after it, by key."""
        finished, later, starts = self._finished, self._later, self._repeated_starts()
        entries = [
            # Most trials have one attempt, and nothing else to work out.
            entry
            if entry.attempt == 1 and key not in starts and key not in later
            else _last_attempt([entry, *later.get(key, ())], starts.get(key, ()))
            for key, entry in sorted(finished.items(), key=itemgetter(0))
        ]
        begun = [
            StartedAttempt(line.key, 1)
            for lines in self._started.values()
            for line, key in zip(lines, map(_KEY, lines), strict=True)
            if key not in finished and key not in starts
        ]
        for key, of_trial in starts.items():
            ended = [finished[key], *later.get(key, ())] if key in finished else []
            last = max(map(_ATTEMPT, ended), default=0)
            attempts = {start.attempt for start in of_trial}
            begun += [StartedAttempt(key, attempt) for attempt in attempts if attempt > last]
        return tuple(entries), tuple(sorted(begun))

    def _repeated_starts(self) -> dict[TrialKey, set[_Start]]:
        """Return the starts of all trials but those with one start, which is that of the first attempt."""
        lines = [*chain.from_iterable(self._started.values())]
        keys = [*map(_KEY, lines)]
        # Most runs have none of them, which is seen without looking at each line.
        if len({*keys}) == len(keys) and {*map(_ATTEMPT, lines)} <= {1}:
            return {}
        counts = Counter(keys)
        starts: dict[TrialKey, set[_Start]] = {}
        for journal, of_journal in self._started.items():
            for line in of_journal:
                if line.attempt != 1 or counts[_KEY(line)] > 1:
                    # A line that stands there twice is one start.
                    starts.setdefault(line.key, set()).add(_Start(line.attempt, line.at, journal))
        return starts

    def not_run(self) -> tuple[NotRunTrial, ...]:
        """Return the trials that were held back and have never finished, sorted by key."""
        return tuple(self._not_run[key] for key in sorted(self._not_run) if key not in self._finished)


def _last_attempt(attempts: list[JournalEntry], starts: Collection[_Start]) -> JournalEntry:
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
    return replace(
        last,
        attempts=attempts_made,
        earlier=tuple(entry.usage for entry in before),
        earlier_seconds=sum(entry.seconds for entry in before),
        earlier_spans=tuple(entry.span for entry in before if entry.origin is None),
    )


def _source(entry: JournalEntry) -> tuple[str, int]:
    """Return the run (empty: this one) and the attempt in which the agent acted."""
    return (entry.origin.run, entry.origin.attempt) if entry.origin is not None else ("", entry.attempt)

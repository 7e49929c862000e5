"""Stored trials as a document for programs: all that ``agenteval show`` can show of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, overload

from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.records.trial import Ending
from pytest_agenteval.reports.explanations import short_reason
from pytest_agenteval.reports.trial.trial_view import TrialView, trial_view
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run

SourceT = TypeVar("SourceT")
ItemT = TypeVar("ItemT")
Side: TypeAlias = tuple[Run, JournalEntry]
"""A trial in the run that holds it."""


class StoredTrial(FrozenValue, frozen=True):
    """A trial in its run; ``transcript`` is the file, the first byte and the length of what is known of it.

    ``trial`` is null where that is lost, and what stands beside it is all that the journal knows.
    """

    run: str
    transcript: str
    name: str
    ending: Ending
    score: float | None
    reason: str
    trial: TrialView | None


class ShownTrial(StoredTrial, frozen=True):
    """A trial; ``old`` is the same one of the other run that was named, null where none was."""

    old: StoredTrial | None


class TrialsDocument(Document, frozen=True, kw_only=True):
    """The trials that were meant, the worst first where an ending was named."""

    trials: Sequence[ShownTrial]


class LazySequence(Sequence[ItemT], Generic[SourceT, ItemT]):
    """A sequence whose items are made when they are looked at: all transcripts would not fit into memory."""

    def __init__(self, sources: Sequence[SourceT], make: Callable[[SourceT], ItemT]) -> None:
        self._sources: Sequence[SourceT] = sources
        self._make = make

    def __len__(self) -> int:
        return len(self._sources)

    @overload
    def __getitem__(self, at: int) -> ItemT: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[ItemT]: ...
    def __getitem__(self, at: int | slice) -> ItemT | Sequence[ItemT]:
        if isinstance(at, slice):
            return LazySequence(self._sources[at], self._make)
        return self._make(self._sources[at])


def trials_document(sides: Sequence[tuple[Side | None, Side]]) -> TrialsDocument:
    """Give trials, old and new, each read when it is looked at; None for an old one that nobody asked for."""
    return TrialsDocument(trials=LazySequence(sides, _trial_document))


def _trial_document(sides: tuple[Side | None, Side]) -> ShownTrial:
    old, new = sides
    return ShownTrial(**_facts(*new), old=StoredTrial(**_facts(*old)) if old else None)


def _facts(run: Run, entry: JournalEntry) -> dict[str, Any]:
    trial = run.trial_if_readable(entry)
    return {
        "run": run.folder.name,
        "transcript": str(run.folder / str(entry.location)),
        "name": entry.key.label,
        "ending": entry.ending,
        "score": entry.score,
        "reason": short_reason(entry),
        "trial": trial_view(trial) if trial else None,
    }

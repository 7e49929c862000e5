"""The kinds of rows that there are of a stored run, and the rows of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.rows.columns import Column
from pytest_agenteval.store.rows.run_columns import RUNS
from pytest_agenteval.store.rows.transcript_columns import CALLS, MESSAGES
from pytest_agenteval.store.rows.trial_columns import GRADES, TRIALS, TrialSource
from pytest_agenteval.store.run_metadata import PlannedGroup, RunHeader
from pytest_agenteval.text.errors import UsageMistake, did_you_mean

Row = tuple[Any, ...]
"""The values of one row, in the order of its kind's columns."""


class RowSource(Protocol):
    """A stored run, as far as rows are made of it."""

    folder: Path
    header: RunHeader
    planned: tuple[PlannedGroup, ...]
    entries: tuple[JournalEntry, ...]

    @property
    def name(self) -> str:
        """What the run is called."""

    def trial_if_readable(self, entry: JournalEntry) -> Trial | None:
        """Read the whole record of a trial, None where it cannot be read."""


class RowKind(FrozenValue, frozen=True):
    """One kind of rows: its columns, and what each row of a run is made of.

    Where ``transcripts`` are read, one is in memory at a time.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    sources: Callable[[RowSource], Iterable[object]]
    transcripts: bool = False

    def rows(self, runs: Iterable[RowSource]) -> Iterator[Row]:
        """Give the rows of runs, run by run, in the order of their trials' keys."""
        steps = [(column.value, column.read) for column in self.columns]  # half of a row's time is looking up
        for run in runs:
            for source in self.sources(run):
                yield tuple([None if (value := get(source)) is None else read(value) for get, read in steps])


def row_kind(name: str) -> RowKind:
    """Give the kind of rows of a name; raises UsageMistake for one that there is not."""
    if name not in ROW_KINDS:
        hint = did_you_mean(name, ROW_KINDS)
        raise UsageMistake(
            f"rows: expected one of {', '.join(ROW_KINDS)}; found {name!r}{f': {hint}' if hint else ''}"
        )
    return ROW_KINDS[name]


def _trials(run: RowSource) -> Iterator[TrialSource]:
    for entry in run.entries:
        yield TrialSource(run.name, entry)


def _grades(run: RowSource) -> Iterator[TrialSource]:
    for entry in run.entries:
        yield from _parts(run, entry, entry.grades)


def _calls(run: RowSource) -> Iterator[TrialSource]:
    for entry in run.entries:
        trial = run.trial_if_readable(entry)
        yield from _parts(run, entry, trial.transcript.calls if trial else ())


def _messages(run: RowSource) -> Iterator[TrialSource]:
    for entry in run.entries:
        trial = run.trial_if_readable(entry)
        yield from _parts(run, entry, trial.transcript.messages if trial else ())


def _parts(run: RowSource, entry: JournalEntry, parts: Iterable[object]) -> Iterator[TrialSource]:
    for position, part in enumerate(parts, 1):
        yield TrialSource(run.name, entry, part, position)


ROW_KINDS: Mapping[str, RowKind] = {
    kind.name: kind
    for kind in (
        RowKind("runs", "one row for each run", RUNS, lambda run: [run]),
        RowKind("trials", "one row for each trial: its last finished attempt", TRIALS, _trials),
        RowKind("grades", "one row for each grade of a trial", GRADES, _grades),
        RowKind("calls", "one row for each tool call of a trial, with its result", CALLS, _calls, True),
        RowKind("messages", "one row for each message of a trial", MESSAGES, _messages, True),
    )
}
"""What is offered as rows, by name."""

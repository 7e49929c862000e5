"""The runs that are to be joined: found by name or below a folder, each once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from pytest_agenteval.store.journal_entry import JournalEntry, TranscriptLocation
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.store.runs import HEADER, LATEST, find_run
from pytest_agenteval.text.errors import UsageMistake

NOWHERE = TranscriptLocation("", 0, 0)


class Parts(NamedTuple):
    """The runs that are joined; ``repeated`` are those that hold nothing that another has not."""

    runs: tuple[Run, ...]
    repeated: tuple[Run, ...]


def find_parts(names: Iterable[str], results: Path) -> Parts:
    """Find runs by what they are called, or all that lie below a folder that is none, and read them.

    Raises UsageMistake where there is none, or one cannot be read.
    """
    folders = dict.fromkeys(folder.resolve() for name in names for folder in _folders(name, results))
    here = Path.cwd().resolve()
    runs = [
        load_run(folder.relative_to(here) if folder.is_relative_to(here) else folder) for folder in folders
    ]
    names = Counter(run.name for run in runs)
    for run in runs:
        if names[run.name] > 1:  # each job of a matrix may have called its run alike
            run.header = replace(run.header, name=str(run.folder))
    return _without_repeated(sorted(runs, key=_place))


def _folders(name: str, results: Path) -> list[Path]:
    if not Path(name).is_dir() or (Path(name) / HEADER).is_file():
        return [find_run(results, name)]
    found = sorted(_runs_below(Path(name)))
    if not found:
        raise UsageMistake(f"{name}: expected a run, or a folder with runs below it; found none there")
    return found


def _runs_below(folder: Path) -> Iterator[Path]:
    """Give the folders of runs, but not what lies within one, nor a copy that stands for the latest."""
    for place, folders, files in os.walk(folder):
        if HEADER in files:
            folders.clear()
            if Path(place).name != LATEST:
                yield Path(place)


def _place(run: Run) -> tuple[tuple[int, ...], str, str]:
    shards = run.header.shards
    return (shards.numbers if shards else (), run.header.started_at, run.name)


def _without_repeated(runs: Sequence[Run]) -> Parts:
    kept: list[Run] = []
    repeated: list[Run] = []
    for run in sorted(runs, key=lambda each: (len(_place(each)[0]), len(each.entries)), reverse=True):
        (repeated if any(_holds(other, run) for other in kept) else kept).append(run)
    return Parts(tuple(run for run in runs if run in kept), tuple(repeated))


def _holds(whole: Run, run: Run) -> bool:
    """Whether a run has all that another has: it is a copy, or was made of it."""
    mine, others = run.header.shards, whole.header.shards
    if mine is not None and not (others is not None and set(mine.numbers) <= set(others.numbers)):
        return False
    if not run.entries and mine is None:
        return False
    known = {entry.key: entry for entry in whole.entries}
    return all(are_equal(entry, known.get(entry.key)) for entry in run.entries)


def are_equal(entry: JournalEntry, other: JournalEntry | None) -> bool:
    """Whether two runs say the same of a trial, wherever its transcript stands."""
    return other is not None and replace(entry, location=NOWHERE) == replace(other, location=NOWHERE)

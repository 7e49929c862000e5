"""A long journal's index changes how long reading takes, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec.structs import replace

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.journal_reader import KINDS, index_path
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.record_files import CHECKSUM_BYTES, add_checksum
from pytest_agenteval.store.run_folder import RunHeader, new_run
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import UsageMistake

from .samples import FULL, plan, trial

MANY = 400
"""Trials of a journal that is long enough for an index."""


def trials(first: int, count: int) -> list[Trial]:
    """Give trials of which every third is told at length."""
    names = [f"t{number:04d}" for number in range(first, first + count)]
    samples = [replace(FULL, key=FULL.key._replace(task=name)) for name in names[::3]]
    rest = [trial(name) for name in names if name not in names[::3]]
    return [*rest, *samples]


def write(folder: Path, process: str, written: list[Trial]) -> Path:
    """Write trials into a run's folder as a process of its own does, and give its journal."""
    writer = JournalWriter(folder, process)
    writer.started([plan(each.key.task, attempt=each.attempt) for each in written])
    writer.finished(written)
    writer.close()
    return folder / f"journal-{process}.jsonl"


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a long journal that was read once, with what is odd about it."""
    folder = new_run(tmp_path_factory.mktemp("long"), RunHeader("2026-11-21T09:30:15+00:00"))
    journal = write(folder, "main", trials(0, MANY))
    with journal.open("ab") as file:
        file.write(b'{"v": 1, "kind": "started", "atte\n\n{"v": 1, "kind": "paused"}\n')
    load_run(folder)
    assert index_path(journal).is_file()
    return folder


@pytest.fixture
def journal(long_run: Path, tmp_path: Path) -> Path:
    """A copy of its journal, whose index still holds."""
    return shutil.copytree(long_run, tmp_path / "run") / "journal-main.jsonl"


def without_index(folder: Path) -> Run:
    """Read a run as it is without any index."""
    for index in folder.glob("index-*"):
        index.unlink()
    return load_run(folder)


def contents(run: Run) -> str:
    """Give all that was read, told so that 1 is not 1.0."""
    return repr((run.entries, run.begun, run.not_run, run.odd))


def test_what_stands_in_the_index_is_not_read_again(journal: Path) -> None:
    """The journal's own bytes could be anything as long as its size and time say that it is the same."""
    folder, state = journal.parent, journal.stat()
    whole = contents(load_run(folder))
    kept = journal.read_bytes()
    journal.write_bytes(b" " * len(kept))
    os.utime(journal, ns=(state.st_atime_ns, state.st_mtime_ns))

    by_index = contents(load_run(folder))

    journal.write_bytes(kept)
    assert whole == by_index == contents(without_index(folder))
    assert by_index.count("JournalEntry(") == MANY
    assert by_index.count("left out") == 2


def test_a_short_journal_has_no_index(tmp_path: Path) -> None:
    """It would save nothing, and every run's folder would hold one more file."""
    folder = new_run(tmp_path, RunHeader("2026-11-21T09:30:15+00:00"))
    journal = write(folder, "main", trials(0, 9))

    assert len(load_run(folder).entries) == 9
    assert not index_path(journal).exists()


@pytest.mark.parametrize("more", [3, MANY])
def test_a_journal_that_grew_is_read_from_where_the_index_ends(journal: Path, more: int) -> None:
    """Of a run that was resumed, or that goes on: new trials, second attempts, a line that is half there."""
    write(journal.parent, "main", [*trials(MANY, more), *[trial(f"t000{at}", attempt=2) for at in (1, 2)]])
    with journal.open("ab") as file:
        file.write(b'{"v": 1, "kind": "fin')

    grown = load_run(journal.parent)

    assert len(grown.entries) == MANY + more
    assert [entry.key.task for entry in grown.entries if entry.attempts == 2] == ["t0001", "t0002"]
    assert len(grown.odd) == 3
    assert contents(grown) == contents(load_run(journal.parent)) == contents(without_index(journal.parent))


def test_a_journal_that_was_changed_is_believed_and_its_index_is_not(journal: Path) -> None:
    """Whatever was changed in it, and also where it is as long as before."""
    lines = journal.read_bytes().replace(b'"task":"t0001"', b'"task":"t1001"').splitlines(keepends=True)
    changed = [
        add_checksum(line[: -CHECKSUM_BYTES - 1] + b"}\n") if b"t1001" in line else line for line in lines
    ]
    journal.write_bytes(b"".join(changed))

    changed = load_run(journal.parent)

    assert {entry.key.task for entry in changed.entries} > {"t1001", "t0002"}
    assert "t0001" not in contents(changed)


@pytest.mark.parametrize("damage", ["cut", "other", "not one", "author", "gone", "folder"])
def test_an_index_that_is_damaged_or_of_another_version_is_made_anew(journal: Path, damage: str) -> None:
    """It says nothing that the journal does not say."""
    index, whole = index_path(journal), contents(load_run(journal.parent))
    good = index.read_bytes()
    index.unlink()
    if damage == "folder":  # where nothing can be written
        index.mkdir()
    elif damage != "gone":
        head, _, rest = good.partition(b"\n")
        bad = {
            "cut": good[:-9],
            "other": head + b"\n" + rest[:-1] + bytes([rest[-1] ^ 1]),
            "not one": b"\x00\xff",
            "author": head.replace(b'"by":"', b'"by":"0.0.0-') + b"\n" + rest,
        }
        index.write_bytes(bad[damage])

    assert contents(load_run(journal.parent)) == whole
    assert damage == "folder" or index.read_bytes() == good


def test_a_journal_under_another_name_refers_to_the_transcripts_of_that_name(journal: Path) -> None:
    """As where the runs of shards are put together: an index that came along is that of another file."""
    other = journal.with_name("journal-second.jsonl")
    for name in ("journal", "transcripts", "texts"):
        shutil.move(journal.with_name(f"{name}-main.jsonl"), journal.with_name(f"{name}-second.jsonl"))
    shutil.move(index_path(journal), index_path(other))

    run = load_run(journal.parent)

    assert {entry.location.file for entry in run.entries} == {"transcripts-second.jsonl"}
    assert run.trial(run.entries[7]).key == run.entries[7].key


def test_a_line_of_a_newer_version_is_refused_behind_an_index_too(journal: Path) -> None:
    """By its number in the whole journal; and no index is written that knows it."""
    lines = journal.read_bytes().count(b"\n")
    with journal.open("ab") as file:
        file.write(b'{"v": 99, "kind": "finished"}\n')

    for _ in range(2):
        with pytest.raises(UsageMistake, match=rf"main\.jsonl:{lines + 1}: written in format 99"):
            load_run(journal.parent)


def test_an_index_can_hold_whatever_an_entry_may_hold() -> None:
    """A kind of value that it does not know would leave every journal with such a value without one."""
    known = {kind for field in msgspec.structs.fields(JournalEntry) for kind in _records_in(field.type)}

    assert known <= {*KINDS.values()}


def _records_in(annotation: Any) -> Iterator[type]:
    """Give the records and named tuples that a value of this type may be or hold."""
    for inner in get_args(annotation):
        yield from _records_in(inner)
    if isinstance(annotation, type) and (
        hasattr(annotation, "__struct_fields__") or hasattr(annotation, "_fields")
    ):
        yield annotation
        for hint in get_type_hints(annotation).values():
            yield from _records_in(hint) if annotation is not Grade else ()  # its checks stand in transcripts


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("message", "half a pair: \ud83d"),
        ("score", 1),
        ("score", -0.0),
        ("seconds", 10**30),
        ("paid", Usage(3)),
    ],
)
def test_figures_and_texts_come_out_of_an_index_as_they_went_in(
    journal: Path, key: str, value: object
) -> None:
    """A whole number stays one; what an index cannot hold keeps the journal from having one."""
    index_path(journal).unlink()
    strange = [replace(trial(f"s{number}"), **{key: value}) for number in range(2)]
    write(journal.parent, "main", strange)

    first, again = load_run(journal.parent), load_run(journal.parent)

    assert contents(first) == contents(again) == contents(without_index(journal.parent))
    found = [repr(getattr(entry, key)) for entry in again.entries if entry.key.task.startswith("s")]
    assert found == [repr(value)] * 2

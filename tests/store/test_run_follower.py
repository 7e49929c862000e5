"""A run that is followed while it is written is, at every moment, the run that ``load_run`` would read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_agenteval.records.trial import Origin
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.notes import Note
from pytest_agenteval.store.run_folder import (
    PlannedGroup,
    Resumption,
    RunHeader,
    change_header,
    end_run,
    new_run,
    write_planned,
)
from pytest_agenteval.store.run_follower import RunFollower
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import UsageMistake
from tests.journals import write_note

from .samples import FULL, LONG, key, plan, trial

HEADER = RunHeader("2026-11-21T09:30:15+00:00")
PROCESSES = ("main-1", "gw0-2", "gw1-3", "main-9")


def content(run: Run) -> tuple[Any, ...]:
    """Give everything that a run has at hand."""
    return (
        *(run.folder, run.header, run.planned, run.entries, run.begun),
        *(run.odd, run.looks, run.not_run, run.lost, run.never_ended),
    )


def assert_is_followed(follower: RunFollower) -> Run:
    """Hold what the follower gives to what is read anew."""
    run = follower.run()
    assert content(run) == content(load_run(follower.folder))
    return run


Step = tuple[str, int, int, int]
STEPS = st.tuples(
    st.sampled_from(("finished", "started", "again", "errored", "not run", "same", "junk", "half")),
    st.integers(0, 1),
    st.just(1) | st.integers(1, 2),
    st.integers(1, 3),
)


def written_by(process: str, steps: Sequence[Step]) -> bytes:
    """Give the journal that a process writes in these steps, with what crashes and others leave in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journal, writer = folder / f"journal-{process}.jsonl", JournalWriter(folder, process)
        for what, task, repetition, attempt in steps:
            planned = plan(f"t{task}", repetition, attempt)
            some = trial(f"t{task}", repetition, attempt=attempt, started_at=f"2026-11-21T09:30:{task:02}Z")
            if what == "started":
                writer.started([planned])
            elif what == "not run":
                writer.not_run(planned, "budget", f"nothing is left for {task}")
            elif what == "same" and journal.exists():
                with journal.open("ab") as file:
                    file.write(journal.read_bytes().splitlines(keepends=True)[-1])
            elif what in ("junk", "half"):
                with journal.open("ab") as file:
                    file.write(b"\r\n\n[]\n" if what == "junk" else b'{"v": 1, "kind": "fin\r')
                writer.close()
            elif what == "finished":
                writer.finished([some])
            elif what == "errored":
                writer.finished([replace(some, ending="errored", score=None, cause="provider")])
            elif what == "again":
                writer.finished([replace(some, origin=Origin("", 1, True), seconds=2.0)])
        writer.close()
        return journal.read_bytes() if journal.exists() else b""


@settings(parent=settings(), max_examples=60)
@given(
    st.lists(st.lists(STEPS, max_size=8), min_size=1, max_size=len(PROCESSES)),
    st.lists(st.tuples(st.integers(0, len(PROCESSES) - 1), st.integers(1, 400)), max_size=12),
)
def test_after_every_write_it_is_the_run_that_would_be_read(
    steps: list[list[Step]], writes: list[tuple[int, int]]
) -> None:
    """Bytes of any process come in any portions: half lines, lines twice, attempts in several journals."""
    waiting = {name: written_by(name, mine) for name, mine in zip(PROCESSES, steps, strict=False)}
    with tempfile.TemporaryDirectory() as root:
        folder = new_run(Path(root), replace(HEADER, died=("gw0-2",)))
        follower = RunFollower(folder)
        assert_is_followed(follower)
        rest = [(place, len(waiting.get(name, b""))) for place, name in enumerate(PROCESSES)]
        for place, count in (*writes, *rest):
            name = PROCESSES[place]
            portion, waiting[name] = waiting.get(name, b"")[:count], waiting.get(name, b"")[count:]
            with (folder / f"journal-{name}.jsonl").open("ab") as file:
                file.write(portion)
            assert_is_followed(follower)


def test_a_run_is_followed_from_its_beginning_through_a_kill_to_its_end(folder: Path) -> None:
    """Plan, workers that start later, half a line that a kill left, resumed, another attempt, ended."""
    follower, writer = RunFollower(folder), JournalWriter(folder, "main-1")
    assert_is_followed(follower)
    write_planned(folder, [PlannedGroup("s", "rules", "", "b", 3, 3, 1)])
    assert assert_is_followed(follower).never_ended == "3 of 3 planned trials never ended"
    writer.started([plan("t1"), plan("t2")])
    writer.finished([trial("t1")])
    assert [each.key.task for each in assert_is_followed(follower).begun] == ["t2"]
    with (folder / "journal-main-1.jsonl").open("ab") as file:
        file.write(b'{"v": 1, "ki')
    assert "half a line" in assert_is_followed(follower).odd[0]

    again = Resumption("2026-11-21T10:00:00+00:00")
    change_header(folder, lambda header: replace(header, resumed=(again,)))
    other = JournalWriter(folder, "gw0-2")
    other.started([plan("t2", attempt=2)])
    assert assert_is_followed(follower).header.resumed == (again,)
    other.finished([trial("t2", attempt=2), trial("t3")])
    write_note(folder, key("t3"), Note("2026-11-21T10:00:05Z", "worth a look"))
    (entry,) = [each for each in assert_is_followed(follower).entries if each.key.task == "t2"]
    assert (entry.attempt, entry.attempts) == (2, 2)
    assert assert_is_followed(follower).entries[2].note.comment == "worth a look"
    (folder / "notes.jsonl").write_bytes(b"[]\n")
    assert assert_is_followed(follower).odd[-1].startswith("notes.jsonl:1")
    end_run(folder, "2026-11-21T10:00:09+00:00", 0, died=["main-1"])
    assert assert_is_followed(follower).header.exit_status == 0


def test_nothing_is_read_where_nothing_is_new_and_only_the_rest_where_something_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may ask every second about a run of gigabytes: what was read once is not read again."""
    writer = JournalWriter(folder, "main-1")
    writer.finished([trial(f"t{number}") for number in range(200)])
    follower = RunFollower(folder)
    first, version = follower.run(), follower.version
    read: list[tuple[str, int]] = []
    opened = Path.open

    def watched(path: Path, *args: Any, **kwargs: Any) -> Any:
        file = opened(path, *args, **kwargs)
        read.append((path.name, os.fstat(file.fileno()).st_size))
        seek: Callable[[int], int] = file.seek
        assert path.name.startswith("journal-")

        class Watched:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def seek(self, offset: int) -> None:
                read[-1] = (path.name, os.fstat(file.fileno()).st_size - seek(offset))

            def read(self, size: int) -> bytes:
                data: bytes = file.read(size)
                return data

        return Watched()

    monkeypatch.setattr(Path, "open", watched)
    assert follower.run() is first
    assert (read, follower.version) == ([], version)
    before = (folder / "journal-main-1.jsonl").stat().st_size
    writer.finished([trial("new")])
    assert len(follower.run().entries) == 201
    assert read == [("journal-main-1.jsonl", (folder / "journal-main-1.jsonl").stat().st_size - before)]
    assert follower.version > version


def test_transcripts_of_a_run_that_goes_on_are_found(folder: Path) -> None:
    """Texts that were stored after others had been looked up, by this process or another, are found too."""
    follower, writer = RunFollower(folder), JournalWriter(folder, "main-1")
    for number, name in enumerate(("main-1", "gw0-2", "main-1")):
        writer = writer if name == "main-1" else JournalWriter(folder, name)
        text = f"{number} {LONG}"
        some = replace(FULL, key=key(f"t{number}"), message=text)
        some = replace(some, transcript=replace(some.transcript, messages=()), outcome=FULL.outcome)
        writer.finished([some])
        run = follower.run()
        assert {run.trial(entry).key: run.trial(entry) for entry in run.entries}[some.key] == some


def test_a_journal_that_was_exchanged_or_removed_is_read_anew(folder: Path) -> None:
    """As where somebody mends a run by hand; of a run that is gone it is said, and it may come back."""
    writer = JournalWriter(folder, "main-1")
    writer.finished([trial("t1"), trial("t2")])
    follower, journal = RunFollower(folder), folder / "journal-main-1.jsonl"
    assert len(assert_is_followed(follower).entries) == 2
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[1])
    assert [entry.key.task for entry in assert_is_followed(follower).entries] == ["t2"]
    other = folder / "other"
    other.write_bytes(lines[0] + lines[1])
    other.replace(journal)
    assert len(assert_is_followed(follower).entries) == 2
    journal.unlink()
    assert assert_is_followed(follower).entries == ()
    header = (folder / "run.json").read_bytes()
    (folder / "run.json").unlink()
    with pytest.raises(UsageMistake, match="is not a run"):
        follower.run()
    (folder / "run.json").write_bytes(header)
    assert_is_followed(follower)


def test_a_line_of_a_newer_version_is_refused_each_time(folder: Path) -> None:
    """Figures without it would be wrong, and stay wrong when one looks again."""
    JournalWriter(folder, "main-1").finished([trial("t1")])
    follower, journal = RunFollower(folder), folder / "journal-main-1.jsonl"
    follower.run()
    good = journal.read_bytes()
    with journal.open("ab") as file:
        file.write(b'{"v": 99, "kind": "finished"}\n')
    for _ in range(2):
        with pytest.raises(UsageMistake, match="upgrade"):
            follower.run()
    journal.write_bytes(good)
    assert len(assert_is_followed(follower).entries) == 1

"""What is written while trials run comes back whole, or says why it cannot."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agenteval.records.evidence import Answer, Outcome, Tree
from pytest_agenteval.records.transcript import Message, ToolCall, Transcript, Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import RunHeader, new_run
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import UsageMistake
from tests.forked_workers import start_python

from .samples import FULL, FULL_TODAY, LONG, TRIALS, file, key, plan, trial


def _load(folder: Path, *trials: Trial) -> Run:
    JournalWriter(folder, "main").finished(trials)
    return load_run(folder)


def _json_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _numbered(trials: list[Trial]) -> list[Trial]:
    """Give each trial a key of its own."""
    return [
        replace(some, key=some.key._replace(repetition=place)) for place, some in enumerate(trials, start=1)
    ]


@pytest.mark.parametrize("whole", [FULL, FULL_TODAY])
def test_a_trial_with_everything_in_it_comes_back_equal(folder: Path, whole: Trial) -> None:
    """No field of any record is lost; digests, by which runs are compared, stand in the journal itself."""
    run = _load(folder, whole)

    (entry,) = run.entries
    assert (entry.file, entry.digests) == (whole.file, whole.digests)
    assert run.trial(entry) == whole


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(TRIALS, min_size=1, max_size=2).map(_numbered))
def test_any_trials_come_back_equal(trials: list[Trial]) -> None:
    """Whatever is in them, and however many are written at once."""
    with tempfile.TemporaryDirectory() as folder:
        run = _load(new_run(Path(folder), RunHeader("")), *trials)

        assert {entry.key: run.trial(entry) for entry in run.entries} == {some.key: some for some in trials}


def test_entries_say_what_figures_need_without_the_transcript(folder: Path) -> None:
    """Score, full, cause and grades stand in the journal line itself."""
    entry = _load(folder, FULL).entries[0]

    assert (entry.key, entry.attempt, entry.ending, entry.score) == (FULL.key, 3, "missed", 0.4)
    assert [(grade.grader, grade.score, grade.passed) for grade in entry.grades] == [
        ("card_must_contain", 0.4, False),
        ("judge", None, None),
    ]
    assert len(entry.grades[0].rationale) == 160
    assert (entry.usage, entry.tool_tape) == (FULL.usage, FULL.tool_tape)


def test_one_batch_is_one_write_for_each_file_and_texts_come_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between two writes leaves no journal line without transcript, no transcript without text."""
    written: list[str] = []
    names: dict[int, str] = {}
    opened, write = os.open, os.write

    def named(path: Path, flags: int, mode: int) -> int:
        fd = opened(path, flags, mode)
        names[fd] = path.name
        return fd

    def watched(fd: int, data: bytes) -> int:
        written.append(names[fd])
        return write(fd, data)

    monkeypatch.setattr("pytest_agenteval.store.record_files.os.open", named)
    monkeypatch.setattr("pytest_agenteval.store.record_files.os.write", watched)
    journal = JournalWriter(folder, "gw0")
    journal.started([plan("t1"), plan("t2")])
    journal.finished([replace(FULL, key=key("t1")), replace(FULL, key=key("t2"))])

    assert written == ["journal-gw0.jsonl", "texts-gw0.jsonl", "transcripts-gw0.jsonl", "journal-gw0.jsonl"]


def test_equal_texts_are_stored_once(folder: Path) -> None:
    """Ten trials from one base tree with one system prompt store tree and prompt once."""
    tree = Tree({"a.md": file("short"), "b.md": file(LONG)})
    transcript = Transcript((Message("system", LONG), Message("user", "short")))
    journal = JournalWriter(folder, "w")
    for number in range(1, 11):
        journal.finished([trial("t2", number, outcome=Outcome(Answer(), tree, tree), transcript=transcript)])

    assert sorted(line["t"] for line in _json_lines(folder / "texts-w.jsonl")) == [LONG, "short"]


def test_writing_goes_on_after_a_torn_line(folder: Path) -> None:
    """A process that comes back under the same name does not write into the half line before it."""
    _load(folder, trial("t1"), trial("t2"))
    for path in folder.glob("*.jsonl"):
        path.write_bytes(path.read_bytes()[:-20])

    run = _load(folder, replace(FULL, key=key("t3")))

    assert [entry.key.task for entry in run.entries] == ["t1", "t3"]
    assert len(run.odd) == 1
    assert run.trial(run.entries[1]) == replace(FULL, key=key("t3"))


def test_a_full_disk_costs_only_the_batch_that_did_not_fit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that is cut short raises, and the next one begins on a line of its own."""
    journal, write = JournalWriter(folder, "main"), os.write
    journal.finished([trial("t1")])
    answers: Iterator[int | OSError] = iter([10, OSError(28, "No space left on device")])

    def full(fd: int, data: bytes) -> int:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return write(fd, data[:answer])

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr("pytest_agenteval.store.record_files.os.write", full)
        journal.finished([trial("t2")])
    journal.finished([trial("t2", score=0.5)])

    run = load_run(folder)
    assert [run.trial(entry).score for entry in run.entries] == [1.0, 0.5]


SIDE_BY_SIDE = """
import sys
from pathlib import Path
from tests.store.samples import plan, trial
from pytest_agenteval.store.journal_writer import JournalWriter
journal = JournalWriter(Path(sys.argv[1]), sys.argv[2])
for number in range(1, 101):
    journal.started([plan(sys.argv[3], number)])
    journal.finished([trial(sys.argv[3], number, output=sys.argv[3] * 2000)])
"""


@pytest.mark.parametrize(
    "names", [("gw0", "gw1"), ("same", "same")], ids=["own-names", "one-name-by-mistake"]
)
def test_two_processes_write_side_by_side(folder: Path, names: tuple[str, str]) -> None:
    """Nothing is lost or mixed; offsets stay right even if two processes share a name by mistake."""
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    started = [
        start_python("-c", SIDE_BY_SIDE, str(folder), name, task, env=where)
        for name, task in zip(names, ("a", "b"), strict=True)
    ]
    assert [process.wait(120) for process in started] == [0, 0]

    run = load_run(folder)

    assert len(run.entries) == 200
    assert run.odd == ()
    assert run.begun == ()
    assert {(entry.key.task, run.trial(entry).output[:2]) for entry in run.entries} == {
        ("a", "aa"),
        ("b", "bb"),
    }


def test_the_last_attempt_counts_and_what_earlier_ones_took_is_kept(folder: Path) -> None:
    """A rerun adds lines: averages take the last, and the number of attempts is known."""
    journal = JournalWriter(folder, "main")
    for attempt, score in ((1, 0.2), (2, 0.9)):
        journal.started([plan(attempt=attempt)])
        usage = Transcript(usage=Usage(10 * attempt, asks=1))
        journal.finished([trial(attempt=attempt, score=score, transcript=usage)])
    journal.started([plan(attempt=3)])

    run = load_run(folder)

    [entry] = run.entries
    assert (entry.attempt, entry.score, entry.attempts) == (2, 0.9, 3)
    assert (entry.usage.tokens, [usage.tokens for usage in entry.earlier]) == (20, [10])
    assert run.begun == ((key(), 3),)


def test_entries_are_in_the_same_order_whoever_ran_them(folder: Path) -> None:
    """Reports of a run with workers equal those of a run without."""
    JournalWriter(folder, "gw1").finished([trial("t1"), trial("t3")])
    JournalWriter(folder, "gw0").finished([trial("t4"), trial("t2", 2), trial("t2", 1)])

    found = [(entry.key.task, entry.key.repetition) for entry in load_run(folder).entries]

    assert found == [("t1", 1), ("t2", 1), ("t2", 2), ("t3", 1), ("t4", 1)]


def test_a_kind_of_line_that_is_not_known_is_passed_over(folder: Path) -> None:
    """Lines may be added within one version."""
    _load(folder, trial())
    with (folder / "journal-main.jsonl").open("a") as journal:
        journal.write('{"v":1,"kind":"note"}\n')

    assert len(load_run(folder).entries) == 1


def test_a_transcript_that_was_exchanged_is_noticed(folder: Path) -> None:
    """A place that holds another trial's transcript is never taken for the right one."""
    run = _load(folder, trial("t1"), trial("t2"))
    path = folder / "transcripts-main.jsonl"
    path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))

    with pytest.raises(UsageMistake, match="another trial"):
        run.trial(run.entries[0])
    path.unlink()
    with pytest.raises(UsageMistake, match="no transcript at transcripts-main"):
        run.trial(run.entries[0])


def test_a_missing_text_is_named(folder: Path) -> None:
    """Deleted texts give a clear sentence, not a KeyError."""
    run = _load(folder, FULL)
    (folder / "texts-main.jsonl").unlink()

    with pytest.raises(UsageMistake, match=r"text [0-9a-f]{16} is missing"):
        run.trial(run.entries[0])


def test_texts_that_could_not_be_opened_are_looked_for_again(folder: Path) -> None:
    """A file that cannot be opened for a moment does not make its texts missing for the rest of a reader."""
    run, texts = _load(folder, FULL), folder / "texts-main.jsonl"
    aside = texts.rename(folder / "aside")
    texts.mkdir()
    with pytest.raises((OSError, UsageMistake)):
        run.trial(run.entries[0])
    texts.rmdir()
    aside.rename(texts)

    assert run.trial(run.entries[0]).transcript == FULL.transcript


def test_what_utf8_and_json_cannot_say_does_not_stop_the_journal(folder: Path) -> None:
    """Half a surrogate pair comes back; infinity, bytes and objects come back as text."""
    strange = [float("inf"), {("a", 1): object}, "fine", b"\xff"]
    call = ToolCall("c", 1, 0, "tool", {"cut": "\ud83c"}, result=strange)
    run = _load(folder, trial(transcript=Transcript(calls=(call,)), outcome=Outcome(Answer("\udc80" * 2000))))

    found = run.trial(run.entries[0])

    assert found.outcome.answer.text == "\udc80" * 2000
    assert found.transcript.calls[0].args == {"cut": "\ud83c"}
    assert found.transcript.calls[0].result[0] == "Infinity"
    assert found.transcript.calls[0].result[2:] == ["fine", "/w=="]
    for path in folder.glob("*.jsonl"):
        path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "text"),
    [(float("nan"), "NaN"), (float("-inf"), "-Infinity"), (b"ab", "YWI="), (date(2026, 5, 25), "2026-05-25")],
)
@pytest.mark.parametrize("beside", [1, None, "\ud83c", object])
def test_a_value_is_written_as_one_text_whatever_stands_beside_it(
    folder: Path, value: object, text: str, beside: object
) -> None:
    """Null is never written for what is no number, and which way a line is encoded cannot be seen in it."""
    run = _load(folder, trial(outcome=Outcome(Answer("done", {"value": value, "beside": beside}))))

    state = run.trial(run.entries[0]).outcome.answer.state

    assert state["value"] == text


class Unspeakable:
    """A value that cannot even be shown."""

    def __repr__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    "odd",
    [
        {"grades": (replace(FULL.grades[0], details={"it": Unspeakable()}),)},
        {"outcome": Outcome(Answer("done", {"it": Unspeakable()}))},
    ],
    ids=["in its grades", "in its transcript"],
)
def test_a_trial_that_cannot_be_written_breaks_no_other_of_its_batch(
    folder: Path, odd: dict[str, Any]
) -> None:
    """It is written as errored, says why, and those beside it are as they were."""
    run = _load(folder, trial("t1"), trial("t2", **odd), trial("t3"))

    endings = {entry.key.task: (entry.ending, entry.cause) for entry in run.entries}
    assert endings == {"t1": ("passed", ""), "t2": ("errored", "unwritable"), "t3": ("passed", "")}
    assert all(run.trial(entry) for entry in run.entries)


def test_an_attempt_that_ended_nowhere_counts_beside_the_one_that_did(folder: Path) -> None:
    """A first attempt that was killed says so by its start alone."""
    journal = JournalWriter(folder, "main")
    journal.started([plan(attempt=1)])
    journal.started([plan(attempt=2)])
    journal.finished([trial(attempt=2)])

    [entry] = load_run(folder).entries

    assert (entry.attempt, entry.attempts) == (2, 2)


def test_a_one_turn_trial_stays_small(folder: Path) -> None:
    """Defaults are left out: started, finished and transcript lines of a short trial stay below 1.2 KiB."""
    transcript = Transcript(
        (Message("user", "Say hello."), Message("assistant", "Hello!", turn=1)), usage=Usage(9, 2)
    )
    journal = JournalWriter(folder, "main")
    journal.started([plan()])
    journal.finished([trial(transcript=transcript, seconds=0.25, digests=FULL.digests)])

    assert sum(path.stat().st_size for path in folder.glob("*.jsonl")) < 1.2 * 1024


@pytest.mark.parametrize("name", ["", "a/b", "..\\x"])
def test_a_process_needs_a_name_that_can_be_a_file(folder: Path, name: str) -> None:
    """No process writes outside the run's folder."""
    with pytest.raises(UsageMistake, match="process"):
        JournalWriter(folder, name)

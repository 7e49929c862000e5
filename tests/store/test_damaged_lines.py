"""One bit that turned over in a run's files gives no other figure and no other text: it is told."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import RunHeader, new_run
from pytest_agenteval.store.run_follower import paid_so_far
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import TranscriptLost, UsageMistake

from .samples import FULL, plan, trial

FLIPS = 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a run of three trials, of which one has everything that a trial may have."""
    folder = new_run(tmp_path, RunHeader("2026-11-21T09:30:15+00:00"))
    writer = JournalWriter(folder, "main")
    writer.started([plan("t1"), plan("t2"), plan(FULL.key.task, attempt=FULL.attempt)])
    writer.finished([trial("t1"), FULL, trial("t2")])
    writer.close()
    return folder


def trials_of(run: Run) -> dict[str, Trial]:
    """Give the trials that can be read, by task."""
    read = {entry.key.task: run.trial_if_readable(entry) for entry in run.entries}
    return {task: trial for task, trial in read.items() if trial is not None}


@pytest.mark.parametrize("kind", ["journal", "transcripts", "texts"])
def test_a_flipped_bit_changes_no_trial_and_hides_none_in_silence(folder: Path, kind: str) -> None:
    """Each trial is read as it was, or is missing, and then a remark says so."""
    path = folder / f"{kind}-main.jsonl"
    good, whole = path.read_bytes(), trials_of(load_run(folder))
    chance = random.Random(30)
    bits = {chance.randrange(len(good) * 8) for _ in range(FLIPS)}
    bits |= {*range(len(good) * 8 - 64, len(good) * 8)}  # the end of the last line
    for bit in bits:
        damaged = bytearray(good)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            run = load_run(folder)
        except UsageMistake:  # of another version, as it seems: the first line's is looked at before all else
            continue
        found = trials_of(run)
        assert {task: whole[task] for task in found} == found, bit
        assert len(found) == len(whole) or run.odd, bit


def test_a_damaged_line_is_named_and_its_trial_counts_as_begun(folder: Path) -> None:
    """A key of another name would give another score: the remark says which line, and what to do."""
    journal = folder / "journal-main.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"seconds"', b'"seconts"'))

    run = load_run(folder)

    assert (len(run.entries), [key.task for key, _ in run.begun]) == (2, [FULL.key.task])
    (odd,) = run.odd
    assert odd.startswith("journal-main.jsonl:5: left out: damaged")
    assert "--agent-resume" in odd


def test_a_line_that_stands_twice_is_counted_once(folder: Path) -> None:
    """What its trial took was paid once."""
    journal, before = folder / "journal-main.jsonl", load_run(folder).entries
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines, *lines]))

    run = load_run(folder)

    assert run.entries == before
    assert run.odd


def test_a_budget_counts_the_lines_that_a_report_counts(folder: Path) -> None:
    """What was paid before is the sum over lines that are intact, each of them once."""
    journal = folder / "journal-main.jsonl"
    lines, paid = journal.read_bytes().splitlines(keepends=True), paid_so_far(folder)
    damaged = next(line for line in lines if b'"in":' in line).replace(b'"in":', b'"in":9')
    journal.write_bytes(b"".join([*lines, *lines, damaged]))

    assert paid.input_tokens
    assert paid_so_far(folder) == paid


def test_a_damaged_transcript_is_lost_and_not_another_one(folder: Path) -> None:
    """The journal's figures stand; who wants the words learns why there are none."""
    transcripts, run = folder / "transcripts-main.jsonl", load_run(folder)
    transcripts.write_bytes(transcripts.read_bytes().replace(b'"answer":"', b'"answer":"X', 1)[:-1])

    with pytest.raises(TranscriptLost, match="damaged since it was written"):
        run.trial(next(entry for entry in run.entries if entry.location.offset == 0))


def test_a_run_says_whether_damage_would_be_noticed(folder: Path) -> None:
    """One that an earlier version wrote has no checksums, and is read all the same."""
    assert load_run(folder).has_checksums
    assert not load_run(Path(__file__).parent / "stored_before").has_checksums

"""Runs that an older version stored are read, and what is written today is what it wrote, byte for byte.

``stored_before`` was written before records were made of msgspec's structs: a trial with everything,
one that passed, undecided and crashed grades, a missed cassette, odd values in events.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import started_line
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.record_files import encode_line
from pytest_agenteval.store.run_folder import write_planned
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.json_values import compact_json
from tests.store.samples import FULL, plan

STORED = Path(__file__).parent / "stored_before"

TODAY = {
    '{"details":{"undecided":"no_judge"}}': "{}",
    '"undecided":"not in the code",': "",
    ',"grades":[{"details":{"undecided":"grader_crash"}}]': "",
}
"""What stood in a transcript's details too, and what stands there today: the journal line has the reason."""

CLAIMS = ',"failed":["has \'x\'"]'
"""What a journal line has since then of a grade that is too low: readers of before leave it aside."""


@pytest.fixture(scope="module")
def run() -> Run:
    """The run as it is read today."""
    return load_run(STORED)


LATER_KEYS = ("called_tools", "turn_seconds")
"""What lines of finished trials did not have when the run was stored."""


def lines_of(text: str) -> list[dict[str, Any]]:
    """Give lines without where transcripts stand, which are shorter today, and without later keys."""
    lines = [json.loads(line) for line in text.split("\n")[:-1]]
    left_out = {"transcript", *LATER_KEYS}
    return [{key: value for key, value in line.items() if key not in left_out} for line in lines]


def without_checksums(file: Path) -> str:
    """Leave out what lines have had since then, which stands in each."""
    text, number = re.subn(r',"crc":"[0-9a-f]{8}"}\n', "}\n", file.read_text())
    assert number == text.count("\n")
    return text


def in_order_of_lines(run: Run) -> list[Trial]:
    """Give the trials in the order in which they were written."""
    return [run.trial(entry) for entry in sorted(run.entries, key=lambda entry: entry.location.offset)]


def test_a_run_of_before_is_read_whole(run: Run) -> None:
    """No line is odd, and the trial that has everything in it is as it was."""
    assert run.odd == ()
    assert in_order_of_lines(run)[0] == FULL
    assert [(key.task, attempt) for key, attempt in run.begun] == [("never", 1), ("unjudged", 2)]


def test_trials_are_written_as_before(run: Run, tmp_path: Path) -> None:
    """Journal, transcripts and long texts, but for one word, and for what lines have since been given."""
    writer = JournalWriter(tmp_path, "main")
    writer.finished(in_order_of_lines(run))
    writer.close()
    journal = (STORED / "journal-main.jsonl").read_text().splitlines()
    finished = [line for line in journal if '"kind":"finished"' in line]
    expected = "\n".join(finished).replace('"not in the code"', '"not_defined"')
    today = without_checksums(tmp_path / "journal-main.jsonl")
    assert CLAIMS in today
    assert lines_of(today.replace(CLAIMS, "")) == lines_of(expected + "\n")
    transcripts = (STORED / "transcripts-main.jsonl").read_text()
    for said_twice, once in TODAY.items():
        assert said_twice in transcripts
        transcripts = transcripts.replace(said_twice, once)
    written = without_checksums(tmp_path / "transcripts-main.jsonl")
    assert lines_of(written) == lines_of(transcripts)
    texts = (STORED / "texts-main.jsonl").read_text().split("\n")
    assert sorted(without_checksums(tmp_path / "texts-main.jsonl").split("\n")) == sorted(texts)


def test_why_there_was_no_score_is_read_as_one_of_the_closed_list(run: Run) -> None:
    """Where the reason stood in the journal and among the details, and where it was a word of its own."""
    grades = {grade.grader: grade for trial in in_order_of_lines(run) for grade in trial.grades}
    assert (grades["judged"].undecided, grades["judged"].details) == ("no_judge", {})
    assert (grades["metric"].undecided, grades["metric"].details) == ("not_defined", {"part": [1]})
    (crashed,) = next(entry for entry in run.entries if entry.key.task == "crashed").grades
    assert (crashed.undecided, crashed.crashed) == ("grader_crash", True)


def test_what_is_begun_and_planned_is_written_as_before(run: Run, tmp_path: Path) -> None:
    """The header too."""
    begun = [plan("t1"), plan("unjudged", attempt=2), plan("never")]
    lines = [encode_line(started_line(each, "2026-11-21T09:30:15Z")) for each in begun]
    journal = (STORED / "journal-main.jsonl").read_bytes()
    assert journal.startswith(b"".join(lines).replace(b'"rules"', b'"baseline"'))
    assert (STORED / "run.json").read_text() == compact_json(run.header.to_json()) + "\n"
    write_planned(tmp_path, run.planned)
    assert (STORED / "planned.json").read_bytes() == (tmp_path / "planned.json").read_bytes()
    assert json.loads((STORED / "planned.json").read_text())["v"] == 1

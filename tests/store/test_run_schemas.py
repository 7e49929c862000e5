"""The published schemas say what is really written."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.notes import Note
from pytest_agenteval.store.run_folder import (
    RepetitionRule,
    RunHeader,
    RunModel,
    RunSuite,
    end_run,
    new_run,
    planned_groups,
    write_planned,
)
from pytest_agenteval.store.run_schemas import SCHEMAS
from tests.journals import write_note

from .samples import FULL, FULL_TODAY, plan, trial

HEADER = RunHeader(
    "2026-11-21T09:30:15+00:00",
    ("pytest", "evals"),
    (RunModel("rules", "rules", True, "rule-based"),),
    ("short",),
    (RunSuite("card", "capability", "card", 0.8),),
    7,
    3,
    "0.1.0",
    "9.2.0",
    repetition_rule=RepetitionRule(2, 6),
)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Give a run's folder with lines of every kind, full and plain."""
    folder = new_run(tmp_path / "runs", HEADER)
    journal = JournalWriter(folder, "main")
    journal.started([plan()])
    journal.finished(
        [FULL, FULL_TODAY, trial(), trial("t2", ending="errored", score=None, grades=(), cause="provider")]
    )
    write_planned(folder, planned_groups([(FULL.key, "b")]))
    for note in (Note("2026-11-28T09:30:00Z", "wrong tool", 2), Note()):
        write_note(folder, FULL.key, note)
    write_note(folder, trial().key, Note("", "x"))
    end_run(folder, "2026-11-21T09:31:00+00:00", 0)
    return folder


@pytest.mark.parametrize(
    ("name", "pattern", "lines"),
    [
        ("journal", "journal-*.jsonl", 5),
        ("transcript", "transcripts-*.jsonl", 4),
        ("text", "texts-*.jsonl", 3),
        ("run", "run.json", 1),
        ("planned", "planned.json", 1),
        ("note", "notes.jsonl", 3),
    ],
)
def test_every_line_fits_its_schema(run_folder: Path, name: str, pattern: str, lines: int) -> None:
    """Schemas are closed, so a field that is written and not described fails here."""
    validator = jsonschema.Draft202012Validator(SCHEMAS[name])
    found = [line for path in run_folder.glob(pattern) for line in path.read_text("utf-8").splitlines()]

    assert [list(validator.iter_errors(json.loads(line))) for line in found] == [[]] * len(found)
    assert len(found) >= lines


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_of_draft_2020_12_and_refuse_what_is_not_theirs(name: str) -> None:
    """A schema that accepts everything would describe nothing."""
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"v": 1, "surprise": True}, SCHEMAS[name])

"""Files beside a run's journals: what is written is read back, and what cannot be read is not guessed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_agenteval.store.run_documents import (
    PLANNED_TRIALS,
    Looks,
    PlannedTrials,
    RunDocument,
    RunGates,
    SuiteGate,
    SuiteLook,
)
from pytest_agenteval.text.errors import UsageMistake

from .samples import key

DOCUMENTS: tuple[RunDocument, ...] = (
    RunGates((SuiteGate("s", {"score": 0.5}, {"b": 2}),)),
    Looks((SuiteLook("s", "m", "", "open", 4, 2, 4),)),
    PlannedTrials.of([key("t1", 1), key("t1", 2), key("t2", 3)]),
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_file_is_read_as_it_was_written(folder: Path, document: RunDocument) -> None:
    """None is read where there is no file; one of a newer version is refused with what to do."""
    assert type(document).read(folder) is None
    document.write(folder)
    assert type(document).read(folder) == document

    path = folder / document.file
    path.write_text(json.dumps({**json.loads(path.read_text()), "v": 2}))
    with pytest.raises(UsageMistake, match=f"{document.file}.*upgrade pytest-agenteval"):
        type(document).read(folder)


def test_planned_trials_are_numbers_or_the_repetitions_themselves(folder: Path) -> None:
    """Where they do not count from 1, as in a shard or after a look, each is written."""
    keys = {key("t1", 1), key("t1", 2), key("t2", 3), key("t1", 1, model="claude", variant="short")}
    planned = PlannedTrials.of(sorted(keys))
    planned.write(folder)

    groups = json.loads((folder / PLANNED_TRIALS).read_text())["groups"]
    assert {group["model"]: group["tasks"] for group in groups} == {
        "claude": {"t1": 1},
        "rules": {"t1": 2, "t2": [3]},
    }
    assert planned.keys == keys


@pytest.mark.parametrize("text", ["{", "[]", '{"gates": 3, "looks": 3}', "{}"])
def test_what_a_run_needs_is_named_where_it_cannot_be_read(folder: Path, text: str) -> None:
    """A run without its gates would pass; a run without its looks is read, and says so itself."""
    for name in (RunGates.file, Looks.file):
        (folder / name).write_text(text)

    with pytest.raises(UsageMistake, match=r"gates\.json: the run's gates cannot be read"):
        RunGates.read(folder)
    with pytest.raises((ValueError, TypeError)):
        Looks.read(folder)

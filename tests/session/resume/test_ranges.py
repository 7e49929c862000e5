"""A run with ``--repetitions=LOW..HIGH`` goes on as its look has decided: there is no second look."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pytest_agenteval.store.run_documents import LOOKS
from pytest_agenteval.store.run_reader import load_run
from tests.session.test_extra_repetitions import AFTER, greet, write_tried_suites
from tests.suites import write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

RANGE = ("--repetitions=2..4", "--agent-baseline=latest")


def forget(folder: Path, *, above: int) -> int:
    """Take out of a run's journals its repetitions above a number; give how many ended are left."""
    left = 0
    for journal in folder.glob("journal-*"):
        lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if json.loads(line)["repetition"] <= above]
        journal.write_text("".join(kept), encoding="utf-8")
        left += sum('"finished"' in line for line in kept)
    return left


WHOLE: list[Path] = []
"""The project after a run that was not cut short: made once, and copied."""


def write_run(pytester: pytest.Pytester) -> Path:
    """Write the suites with a run of them, and give that run's folder."""
    if not WHOLE:
        write_tried_suites(pytester)
        write(pytester.path, {"moods.json": AFTER})
        greet(pytester, *RANGE, "--agent-run-name=new")
        WHOLE.append(
            shutil.copytree(pytester.path, pytester.mkdir("whole") / "copy", symlinks=True, ignore=_itself)
        )
    else:
        shutil.copytree(WHOLE[0], pytester.path, symlinks=True, dirs_exist_ok=True)
    return pytester.path / ".agenteval/runs/new"


def _itself(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "whole"]


@pytest.mark.parametrize("above", [1, 2, 3])
def test_there_is_one_look(pytester: pytest.Pytester, above: int) -> None:
    """Cut short before the look, at it, or behind it: the run ends with the trials that it would have had."""
    folder = write_run(pytester)
    whole = {entry.key for entry in load_run(folder).entries}
    left = forget(folder, above=above)
    looks = json.loads((folder / LOOKS).read_text(encoding="utf-8"))
    if above == 1:
        (folder / LOOKS).unlink()
    else:  # a mark that a second look would not make
        looks["looks"][0]["baseline"] = "marked"
        (folder / LOOKS).write_text(json.dumps(looks), encoding="utf-8")

    result = greet(pytester, *RANGE, "--agent-resume")

    assert {entry.key for entry in load_run(folder).entries} == whole
    assert json.loads((folder / LOOKS).read_text(encoding="utf-8")) == looks
    assert f"{left} had finished" in " ".join(result.outlines)
    assert ("more only if need be" in " ".join(result.outlines)) is (above == 1)
    assert above == 1 or f"{left} had finished, {len(whole) - left} to run" in " ".join(result.outlines)
    assert result.parseoutcomes().get("deselected", 0) > 0

"""How much of the noise between trials is the judge's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_agenteval.cli.main import main
from pytest_agenteval.records.trial import Digests
from pytest_agenteval.store.record_files import replace_json
from pytest_agenteval.store.run_folder import HEADER
from pytest_agenteval.store.run_reader import Run
from tests.reports.runs import store_run, trial

RUNS = Path(".agenteval/runs")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in an empty folder, in a terminal of 100 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def stored(scores: Mapping[str, Sequence[float]], regraded: str = "", ruler: str = "1") -> Run:
    """Store a run, or one that graded the trials of another again."""
    run = store_run(
        RUNS,
        [
            trial(task, repetition, score, digests=Digests(ruler=ruler))
            for task, of_task in scores.items()
            for repetition, score in enumerate(of_task, 1)
        ],
    )
    if regraded:
        header = replace(run.header, regraded=(regraded,))
        replace_json(run.folder / HEADER, header.to_json())
    return run


def test_the_judges_share_is_its_variance_over_that_of_trials(capsys: pytest.CaptureFixture[str]) -> None:
    """Trials of a task vary by 0.125; the same transcript, graded twice, by 0.03125: a quarter of it."""
    old = stored({f"t{number}": [0.25, 0.75] for number in range(9)})
    new = stored({f"t{number}": [0.75, 0.25] for number in range(9)})
    stored({f"t{number}": [0.5, 0.5] for number in range(9)}, old.folder.name)
    assert main(["compare", old.folder.name, new.folder.name, "--judge-noise"]) == 0
    capsys.readouterr()
    stored({f"t{number}": [0.5, 1.0] for number in range(9)}, new.folder.name)
    assert main(["compare", old.folder.name, new.folder.name, "--judge-noise", "--json", "-"]) == 0
    # Old: 0.25 and 0.5, 0.75 and 0.5; new: 0.75 and 0.5 once, 0.25 and 1.0 once.
    expected = (3 * 0.03125 + 0.28125) / 4 / 0.125
    assert f'"judge_share": {expected}' in capsys.readouterr().out


def test_without_gradings_nobody_knows_and_it_is_said_how_to(capsys: pytest.CaptureFixture[str]) -> None:
    """One grading of each trial shows no judge's noise."""
    old = stored({"a": [0.25, 0.75], "b": [1.0, 0.0]})
    new = stored({"a": [0.25, 0.75], "b": [0.5, 0.0]})
    assert main(["compare", old.folder.name, new.folder.name, "--judge-noise"]) == 2
    err = capsys.readouterr().err
    assert "found none" in err
    assert "--agent-regrade=RUN --agent-judge=JUDGE" in err


def test_grades_of_another_ruler_are_no_gradings_of_this_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A regraded run with other graders differs for another reason than the judge's mood."""
    old = stored({"a": [0.25, 0.75], "b": [1.0, 0.0]})
    again = stored({"a": [0.5, 0.5], "b": [0.0, 1.0]}, old.folder.name, ruler="2")
    assert main(["compare", old.folder.name, old.folder.name, "--judge-noise", again.folder.name]) == 2
    assert f"found {again.folder.name}" in capsys.readouterr().err

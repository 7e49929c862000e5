"""A disk that is full at the end of a run: what was found is shown all the same."""

from __future__ import annotations

import pytest

from pytest_agenteval.store.run_reader import load_run
from tests.journals import junit, run_folder
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

# Where the run's header is to be written anew stands what cannot be written over, be one root or not.
FULL = """
import os
from pathlib import Path


def pytest_agenteval_trial_finished(config, trial):
    for run in Path(".agenteval/runs").glob("2*"):
        (run / f".run.json.{os.getpid()}").mkdir(exist_ok=True)
"""


@pytest.mark.parametrize("regraded", [False, True], ids=["tried", "graded again"])
def test_an_end_that_cannot_be_written_down_is_told(pytester: pytest.Pytester, regraded: bool) -> None:
    """With the tables, JUnit's totals and the place of what was kept; nobody takes the run for a good one."""
    files = {"pytest.ini": "[pytest]\n", "evals/suite.yaml": suite(), "evals/a.json": task("a")}
    write(pytester.path, files)
    if regraded:
        run(pytester, "evals", "-q", "--agent-results=first")
    write(pytester.path, {"conftest.py": FULL})

    again = [f"--agent-regrade={next(pytester.path.glob('first/2*'))}"] if regraded else []
    result = run(pytester, "evals", "--junitxml=junit.xml", *again)

    assert result.ret == 1
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 of 1 task passed*", "how the run ended cannot be written to*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    assert [entry.ending for entry in load_run(run_folder(pytester.path)).entries] == ["passed"]
    assert "a[scripted-1]" in junit(pytester.path / "junit.xml")


def test_a_job_summary_that_cannot_be_written_is_told(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sentence below the screen; the exit status is that of the trials."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a")})
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "nowhere/summary.md")

    result = run(pytester, "evals")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["! the job's summary nowhere?summary.md cannot be written: No such file*"])
    result.stdout.no_fnmatch_line("*Traceback*")

"""``--agent-only``: trials chosen by how they ended before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.suites import collected_ids, journaled, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

FILES = {
    "evals/suite.yaml": "name: s\nkind: capability\ndefaults: {model: scripted}\n",
    "evals/pass.json": task("fine"),
    "evals/miss.json": task("weak", says="Hm."),
    "evals/half.json": task(
        "half",
        says="Hello, Mina!",
        graders=[
            {"name": "answer_contains", "label": name, "config": {"text": name}}
            for name in ("Mina", "Goodbye")
        ],
    ),
    "evals/error.json": task("broken", script=[]),
    "evals/limit.json": task(
        "endless",
        script=[{"calls": [{"tool": "none"}]}] * 3,
        limits={"steps": 1},
    ),
}
BY_ENDING = [
    ("passed", ["fine"]),
    ("missed", ["endless", "half", "weak"]),
    ("errored", ["broken"]),
    ("limited", ["endless"]),
    ("not_run", ["late"]),
    ("missed, errored", ["broken", "endless", "half", "weak"]),
    ("failed", []),
]


RUN: list[Path] = []
"""The results of the project's run: made once, and copied."""


@pytest.fixture
def project(quick: None, pytester: pytest.Pytester) -> pytest.Pytester:
    """A project that was run once; a task was added since."""
    write(pytester.path, FILES)
    results = pytester.path / ".agenteval"
    if not RUN:
        run(pytester).assert_outcomes(passed=1, xfailed=3, errors=1)
        RUN.append(shutil.copytree(results, pytester.mkdir("first") / "results", symlinks=True))
    else:
        shutil.copytree(RUN[0], results, symlinks=True)
    write(pytester.path, {"evals/late.json": task("late")})
    return pytester


def names(found: list[str]) -> list[str]:
    """Give the tasks' ids."""
    return sorted(name.rpartition("::")[2].partition("[")[0] for name in found)


def test_endings_select_from_the_latest_run(project: pytest.Pytester) -> None:
    """A limited trial is also what its grades made of it; what was not there yet was not run."""
    for endings, expected in BY_ENDING:
        assert names(collected_ids(project, f"--agent-only={endings}")) == expected, endings


def test_workers_select_from_the_run_before_theirs(project: pytest.Pytester) -> None:
    """Whichever of them is ready first, none takes the run that is just beginning for the latest."""
    (before,) = (project.path / ".agenteval" / "runs").glob("2*")

    result = run(project, "--agent-only=missed,errored", workers=2)

    result.assert_outcomes(xfailed=3, errors=1)
    before.rename(project.path / "before")
    assert names(journaled(project.path)) == ["broken", "endless", "half", "weak"]


def test_another_run_can_be_named(project: pytest.Pytester) -> None:
    """By its name, its beginning, or its path; the latest is the one that was run last.

    Where there is no such run, those that are there are listed; where nothing ended so, it is named.
    """
    (first,) = (project.path / ".agenteval" / "runs").glob("2*")
    missing = run(project, "--agent-only=passed@1999")
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    missing.stderr.fnmatch_lines([f"ERROR: --agent-only: there is no run '1999' in *{first.name}*"])
    for workers in (0, 1):
        result = run(project, "--agent-only=failed", workers=workers)
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        result.stdout.fnmatch_lines(
            [f"agenteval: --agent-only=failed: nothing to try: none of 6 trials ended so in run {first.name}"]
        )

    run(project, "-k", "fine or late").assert_outcomes(passed=2, deselected=4)

    assert names(collected_ids(project, "--agent-only=passed")) == ["fine", "late"]
    for name in (first.name, first.name[:-2], str(first)):
        assert names(collected_ids(project, f"--agent-only=passed,errored@{name}")) == ["broken", "fine"]


def test_repetitions_and_models_are_chosen_one_by_one(pytester: pytest.Pytester) -> None:
    """Each trial has an ending of its own."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/task.json": task("greet")})
    run(pytester, "--agent-model=scripted,nop").assert_outcomes(passed=1, failed=1)
    again = ("--agent-model=scripted,nop", "--repetitions=2")

    assert collected_ids(pytester, "--agent-only=failed", *again) == ["evals/task.json::greet[nop-1]"]
    assert collected_ids(pytester, "--agent-only=not_run", *again) == [
        "evals/task.json::greet[scripted-2]",
        "evals/task.json::greet[nop-2]",
    ]


def test_a_run_that_could_not_be_collected_is_no_run(project: pytest.Pytester) -> None:
    """A broken file interrupts pytest: the latest run stays the one in which something was tried.

    A sample is drawn from what ended so.
    """
    write(project.path, {"evals/torn.json": '{"id": "torn", "graders": [}'})

    run(project).assert_outcomes(errors=1)

    (project.path / "evals" / "torn.json").unlink()
    assert names(collected_ids(project, "--agent-only=errored", "--agent-sample=1")) == ["broken"]

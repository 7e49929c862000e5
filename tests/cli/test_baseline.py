"""``agenteval baseline set``: a run becomes a file, with what changes in it, and never in silence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from tests.cli.conftest import Agenteval
from tests.greeters import greet as run_greeters
from tests.greeters import set_mood, task_names, write_greeters
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
FILE = "evals/baselines/greetings.json"
Printed = Callable[..., str]
GREETED: list[Path] = []
"""The results of a run in which all is well, once a test has made it."""


@pytest.fixture(autouse=True)
def _alone(agenteval_command: Agenteval) -> None:
    """Runs load this plugin only."""


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Give what the command prints."""

    def call(*args: str, status: int = 0) -> str:
        capsys.readouterr()
        with suppress(SystemExit):
            assert main(list(args)) == status
        output = capsys.readouterr()
        return output.err if status else output.out

    return call


def greet(pytester: pytest.Pytester, *args: str, **wants: str) -> None:
    """Run a suite of two tasks; ``wants`` says what else than Mina's name a task's answer has to hold.

    The first run of a test in which all is well is made once, and copied for the tests that follow.
    """
    folder, results = "evals/greetings", pytester.path / ".agenteval"
    files = {f"{folder}/{id}.json": task(id, wants=wants.get(id, "Mina")) for id in ("hi", "yo")}
    write(pytester.path, {f"{folder}/suite.yaml": suite(), **files})
    first = not (args or wants or results.exists())
    if first and GREETED:
        shutil.copytree(GREETED[0], results, symlinks=True)
        return
    run(pytester, "-p", "pytest_agenteval.plugin", folder, "--repetitions=2", *args)
    if first:
        GREETED.append(pytester.path / "greeted")
        shutil.copytree(results, GREETED[0], symlinks=True)


def test_a_run_becomes_a_file_that_stands_for_it(pytester: pytest.Pytester, printed: Printed) -> None:
    """The file goes where a run goes; written again it says what changes, graders included."""
    greet(pytester)

    assert printed("baseline", "set", "latest") == f"{FILE}: written: 2 tasks, 4 trials\n"
    assert "greetings: identical" in printed("compare", FILE, "latest")

    greet(pytester, yo="Juna")
    assert "yo: graders:" in printed("compare", FILE, "latest", status=2)
    lines = printed("baseline", "set", "latest").splitlines()
    assert lines == [
        f"{FILE}: written: 1 task changed, 1 unchanged",
        "  greetings/yo[scripted]  1.00 1.00 -> 0.00 0.00  (changed: graders)",
    ]
    assert "greetings: identical" in printed("compare", FILE, "latest")


def test_a_part_of_a_run_goes_to_a_file_of_ones_own(pytester: pytest.Pytester, printed: Printed) -> None:
    """``--to``, ``--model`` and ``--suite``; what the run does not have is refused with what it has."""
    greet(pytester, "--agent-model=scripted,nop")

    printed("baseline", "set", "latest", "--to=mine.json", "--model=nop", "--suite=greetings")

    assert '"model": "scripted"' not in (pytester.path / "mine.json").read_text()
    assert "has no model 'gpt'; it has nop, scripted" in printed(
        "baseline", "set", "latest", "--model=gpt", status=2
    )
    assert not (pytester.path / FILE).exists()
    gone = printed("baseline", "set", "latest", "--to=mine.json", "--model=scripted")
    assert "mine.json: written: 0 tasks changed, 2 added, 2 gone, 0 unchanged" in gone


def test_the_gate_of_a_suite_says_where(pytester: pytest.Pytester, printed: Printed) -> None:
    """The file that suite.yaml names is read from the suite's folder."""
    greet(pytester)
    gate = "gate:\n  baseline: ../kept/ours.json\n"
    (pytester.path / "evals/greetings/suite.yaml").write_text(suite(more=gate))

    assert printed("baseline", "set", "latest").startswith("evals/kept/ours.json: written: 2 tasks")


def test_errored_trials_are_no_baseline_unless_allowed(pytester: pytest.Pytester, printed: Printed) -> None:
    """Nor are trials that never ended; with --allow they are kept as what they are."""
    files = {"hi": task("hi"), "yo": {**task("yo"), "script": []}}
    write(pytester.path, {f"evals/{id}.json": content for id, content in files.items()})
    write(pytester.path, {"evals/suite.yaml": suite()})
    run(pytester, "-p", "pytest_agenteval.plugin", "evals")

    refused = printed("baseline", "set", "latest", status=2)
    assert "1 trial errored (yo): run them again (pytest --agent-only=errored,not_run)" in refused
    assert not (pytester.path / FILE).exists()

    printed("baseline", "set", "latest", "--allow")
    assert '"scores": [null], "endings": ["errored"]' in (pytester.path / FILE).read_text()

    (journal,) = (pytester.path / ".agenteval/runs/latest").glob("journal-*")
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"hi"' not in line))
    assert "1 of 2 planned trials never ended" in printed("baseline", "set", "latest", status=2)


def test_a_baseline_among_tasks_is_no_task(pytester: pytest.Pytester, printed: Printed) -> None:
    """It is neither collected nor listed; a file that is no baseline is not written over."""
    greet(pytester)
    printed("baseline", "set", "latest", "--to=evals/greetings/kept/was.json")

    assert printed("validate", "evals") == "2 tasks, 0 files with problems\n"
    run(pytester, "-p", "pytest_agenteval.plugin", "evals").assert_outcomes(passed=2)
    for place, says in (("evals/greetings/hi.json", "is not a baseline: nothing was written"),
                        ("evals/greetings/task.json", "expected a file NAME.json that is not a task"),
                        ("was.yaml", "expected a file NAME.json")):  # fmt: skip
        assert says in printed("baseline", "set", "latest", f"--to={place}", status=2)
    assert Path("evals/greetings/hi.json").read_text().startswith('{\n  "id"')


def run_names(pytester: pytest.Pytester) -> list[str]:
    """Give the names of the stored runs in the order in which they began."""
    headers = (pytester.path / ".agenteval/runs").glob("2*/run.json")
    begun = {json.loads(path.read_text())["started_at"]: path.parent.name for path in headers}
    return [begun[moment] for moment in sorted(begun)]


def test_several_runs_become_one_file(pytester: pytest.Pytester, printed: Printed) -> None:
    """All of their trials, with whether the runs are alike, and which tasks are not in all of them."""
    greet(pytester)
    greet(pytester)
    greet(pytester, "-k", "hi")
    first, second, third = run_names(pytester)

    assert printed("baseline", "set", first, second).splitlines() == [
        f"{FILE}: written: 2 tasks, 8 trials",
        "greetings with scripted: the 2 runs differ by no more than chance (largest difference 0.00, p 1.00)",
    ]
    compared = " ".join(printed("compare", FILE, second, "-v").split())
    assert f"baseline of 2 runs ({first}, {second}) -> {second}" in compared
    document = json.loads(printed("baseline", "set", first, second, third, "--json", "-"))
    assert document["remarks"] == ["1 task is not in all runs: yo"]
    assert [run["run"] for run in document["pooled"][0]["runs"]] == [first, second, third]
    assert document["files"][0]["changed"][0]["after"] == [1.0] * 6


def test_runs_that_share_trials_are_refused(pytester: pytest.Pytester, printed: Printed) -> None:
    """One run by two names, and one that took over the other's trials: they would count twice."""
    greet(pytester)
    greet(pytester, "--agent-reuse=latest")
    first, second = run_names(pytester)

    for names in ((second, "latest"), (first, second)):
        refused = printed("baseline", "set", *names, status=2)
        assert f"{second}: trials of {names[0]} are in it twice: name each run once" in refused


def test_runs_that_cannot_be_averaged_are_refused(pytester: pytest.Pytester, printed: Printed) -> None:
    """Other graders are refused even with --allow; of models only what all runs have is taken."""
    greet(pytester)
    greet(pytester, "--agent-model=scripted,nop")
    greet(pytester, yo="Juna")
    first, second, third = run_names(pytester)

    refused = printed("baseline", "set", first, third, "--allow", status=2)
    assert f"{third} cannot be averaged with {first}: these tasks are not the same" in refused
    assert "evals/greetings/yo.json: yo: graders: answer_contains has other settings" in refused
    refused = printed("baseline", "set", first, second, status=2)
    assert f"{first} has no trial of greetings with nop, which {second} has: choose" in refused
    assert not (pytester.path / FILE).exists()
    assert "2 tasks, 8 trials" in printed("baseline", "set", first, second, "--model=scripted")


def test_runs_of_agents_that_differ_need_to_be_allowed(pytester: pytest.Pytester, printed: Printed) -> None:
    """What differs is named, refused or not; so is what their scores say."""
    write_greeters(pytester.path)
    run_greeters(pytester, times=1)
    set_mood(pytester.path, "asleep", task_names("night"))
    conftest = pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text().replace("tried again.", "tried once more."))
    run_greeters(pytester, times=1)
    first, second = run_names(pytester)

    text = f"greetings with nop: {second} differs from {first} in agent code"
    assert f"{text}; --allow" in printed("baseline", "set", first, second, status=2)
    allowed = " ".join(printed("baseline", "set", first, second, "--allow").split())
    assert text in allowed
    # 5 of 12 tasks fell from 1 to 0: p is 2/32, which two runs are not yet said to differ with
    assert "the 2 runs differ by no more than chance (largest difference 0.42, p 0.062)" in allowed

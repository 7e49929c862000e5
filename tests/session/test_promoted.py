"""What a capability suite has promoted: there a miss is a failure, and its names are looked at."""

from __future__ import annotations

import json

import pytest

from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store.run_reader import load_run
from tests.cli.conftest import Agenteval
from tests.cli.conftest import agenteval_command as agenteval_command
from tests.suites import run, task, write

pytest_plugins = ["pytester"]

CAPABILITY = "name: greetings\nkind: capability\ndefaults: {model: scripted, trials_per_run: 2}\n"


@pytest.fixture(autouse=True)
def _alone(agenteval_command: Agenteval) -> None:
    """Runs load this plugin only."""


def bucket(name: str) -> dict[str, str]:
    """Give the metadata that put a task into a bucket."""
    return {"failure_bucket": name}


def greetings(pytester: pytest.Pytester, regression: str) -> None:
    """Write a capability suite of two buckets of which every task misses."""
    tasks = {
        f"evals/{id}.json": task(id, wants="Juna", metadata=bucket(name))
        for id, name in (("short", "polite"), ("long", "polite"), ("rude", "other"))
    }
    write(pytester.path, {"evals/suite.yaml": f"{CAPABILITY}{regression}", **tasks})


def stored(pytester: pytest.Pytester) -> tuple[dict[str, str], dict[str, str]]:
    """Give the ending and the kind of each task of the only run."""
    (folder,) = (pytester.path / ".agenteval" / "runs").glob("2*")
    texts = [file.read_text(encoding="utf-8") for file in folder.glob("journal-*")]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    ended = [line for line in lines if line["kind"] == "finished"]
    return {line["task"]: line["ending"] for line in ended}, {
        line["task"]: line["task_kind"] for line in ended
    }


@pytest.mark.parametrize("workers", [0, 1])
def test_promoted_trials_fail_and_the_others_of_the_suite_miss(
    pytester: pytest.Pytester, workers: int
) -> None:
    """A bucket or a task that is promoted is of kind regression, in journal, table and exit status."""
    greetings(pytester, "regression: {buckets: [other]}\n")
    write(pytester.path, {"evals/_promoted.yaml": "tasks: [short]\n"})

    result = run(pytester, "-p", "pytest_agenteval.plugin", "evals", workers=workers)

    result.assert_outcomes(failed=4, xfailed=2)
    endings, kinds = stored(pytester)
    assert endings == {"long": "missed", "short": "failed", "rude": "failed"}
    assert kinds == {"long": "capability", "short": "regression", "rude": "regression"}
    (folder,) = (pytester.path / ".agenteval" / "runs").glob("2*")
    header = json.loads((folder / "run.json").read_text())
    assert [each["kind"] for each in header["suites"]] == ["capability"]
    (view,) = view_of(load_run(folder)).suites
    assert view.kinds == "capability, 2 tasks regression"


def test_marks_are_those_of_each_trial(pytester: pytest.Pytester) -> None:
    """``-m regression`` chooses what is promoted; nothing is said of names that are merely deselected."""
    greetings(pytester, "regression: {buckets: [other]}\n")

    for mark, failed, xfailed in (("regression", 2, 0), ("capability", 0, 4)):
        result = run(pytester, "-p", "pytest_agenteval.plugin", "-m", mark, "evals")
        result.assert_outcomes(failed=failed, xfailed=xfailed, deselected=6 - failed - xfailed)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_promoted_name_that_no_task_has_stops_the_run(pytester: pytest.Pytester, workers: int) -> None:
    """With file, line and the nearest name, before any trial starts."""
    greetings(pytester, "regression:\n  buckets: [othr]\n  tasks:\n    - long\n    - shortt\n")

    result = run(pytester, "-p", "pytest_agenteval.plugin", "evals", workers=workers)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stdout.str() + result.stderr.str()
    assert "suite.yaml:5: regression.buckets[0]" in text
    assert "did you mean 'other'?" in text
    assert "suite.yaml:8: regression.tasks[1]" in text
    assert "did you mean 'short'?" in text
    assert "Traceback" not in text

    # The file beside the suite's has lines of its own.
    greetings(pytester, "regression: {buckets: [othr]}\n")
    write(pytester.path, {"evals/_promoted.yaml": "tasks:\n- short\n- lonk\nbuckets: [other]\n"})
    beside = run(pytester, "-p", "pytest_agenteval.plugin", "evals", workers=workers)
    text = beside.stdout.str() + beside.stderr.str()
    assert "_promoted.yaml:3: tasks[1]" in text
    assert "suite.yaml:4: regression.buckets[0]" in text


def test_a_part_of_a_suite_says_nothing_of_the_rest(
    pytester: pytest.Pytester, agenteval_command: Agenteval
) -> None:
    """What was not asked for, or left out by pytest, is there all the same; validate looks at every file."""
    greetings(pytester, "regression: {buckets: [other, gone]}\n")

    part = run(pytester, "-p", "pytest_agenteval.plugin", "evals/short.json")
    output = agenteval_command("validate", "evals/short.json")

    part.assert_outcomes(xfailed=2)
    assert output.status == 1
    assert "suite.yaml:4: regression.buckets[1]" in output.out
    assert "regression.buckets[0]" not in output.out
    assert output.out.strip().endswith("1 task, 1 file with problems")

    greetings(pytester, "regression: {buckets: [other]}\n")
    ignoring = run(pytester, "-p", "pytest_agenteval.plugin", "evals", "--ignore=evals/rude.json")
    ignoring.assert_outcomes(xfailed=4)
    assert agenteval_command("validate", "evals/short.json").status == 0

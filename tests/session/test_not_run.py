"""Trials that are held back: said with the reason wherever the run is told of, and no success."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.store.run_reader import load_run
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

HOLDS_BACK = """
from pytest_agenteval.engine.jobs import Admissions, NotRun
from pytest_agenteval.session import runner

class Odd:
    def decide(self, plan):
        return "begin" if int(plan.task.id[1:]) % 2 else NotRun("odd", "even numbers have no luck today")
    def ended(self, plan, trial):
        pass

def pytest_configure(config):
    config.add_cleanup(lambda before=runner.admissions: setattr(runner, "admissions", before))
    runner.admissions = lambda *_: Admissions([Odd()])
"""


def messages(file: Path) -> list[str]:
    """Give the messages of all skipped cases of a JUnit file."""
    return [skipped.get("message") or "" for skipped in ElementTree.parse(file).iter("skipped")]


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_held_back_is_told_with_its_reason_and_is_no_success(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], workers: int
) -> None:
    """Items, summary, journal, JUnit and the report of a month later agree; the exit status is 2."""
    write(pytester.path, {"evals/suite.yaml": suite(), "conftest.py": HOLDS_BACK})
    write(pytester.path, {f"evals/t{n}.json": task(f"t{n}") for n in range(6)})

    result = run(pytester, "evals", "-v", "--junitxml=own.xml", workers=workers)

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines_random(
        [
            "*PASSED 1.00*",
            "*NOT RUN*",
            "! 3 trials not run: even numbers have no luck today",
            "*3 passed, 3 not run in*",
        ]
    )
    stored = load_run("latest", pytester.path / ".agenteval" / "runs")
    assert [trial.key.task for trial in stored.not_run] == ["t0", "t2", "t4"]
    assert {(trial.cause, trial.reason) for trial in stored.not_run} == {
        ("odd", "even numbers have no luck today")
    }
    assert (len(stored.entries), stored.begun, stored.odd) == (3, (), ())
    assert main(["report", "latest"]) == 0
    assert "3 of greetings's 6 trials not run: even numbers have no luck today" in capsys.readouterr().out
    assert main(["report", "latest", "--output", "later.xml"]) == 0
    for file in ("own.xml", "later.xml"):
        assert messages(pytester.path / file) == ["NOT RUN: even numbers have no luck today"] * 3

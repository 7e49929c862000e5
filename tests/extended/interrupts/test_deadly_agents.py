"""Agents that end their process: a run that goes on names their trials, and runs them last."""

from __future__ import annotations

import pytest

from pytest_agenteval.store.run_reader import load_run
from tests.journals import run_folder
from tests.suites import suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

DEADLY = """
import os
import time

from pytest_agenteval.records.evidence import Answer


class Deadly:
    async def run(self, task_input, ctx):
        name = task_input["content"]
        with open("order", "a") as order:
            order.write(name + "\\n")
        if name == "t1" and not os.path.exists("mended"):
            time.sleep(0.5)
            os._exit(7)
        return Answer("Mina")


def pytest_agenteval_register(registry):
    registry.agent("deadly", Deadly)
"""


def test_trials_at_which_a_run_died_come_last_and_one_by_one(pytester: pytest.Pytester) -> None:
    """What ends the process ends it again: all others have finished by then, and the run names it."""
    root = pytester.path
    tasks = {f"evals/t{n}.yaml": task(f"t{n}", agent="deadly", input={"content": f"t{n}"}) for n in range(6)}
    write(
        root, {"pytest.ini": "[pytest]\n", "evals/suite.yaml": suite(), "evals/conftest.py": DEADLY, **tasks}
    )

    died = pytester.runpytest_subprocess("evals", "--agent-concurrency=2")
    again = pytester.runpytest_subprocess("evals", "--agent-concurrency=2", "--agent-resume")
    third = pytester.runpytest_subprocess("evals", "--agent-concurrency=2", "--agent-resume")
    finished = {entry.key.task for entry in load_run(run_folder(root)).entries}
    (root / "mended").touch()
    last = pytester.runpytest_subprocess("evals", "--agent-concurrency=2", "--agent-resume")

    assert (died.ret, again.ret, third.ret, last.ret) == (7, 7, 7, 0)
    named = "*a process died while these were running: *t1*; they run last, one by one"
    again.stdout.fnmatch_lines([named])
    third.stdout.fnmatch_lines(["*a process died while these were running: *t1*"])
    assert finished == {f"t{n}" for n in range(6) if n != 1}
    last.assert_outcomes(passed=6)
    assert (root / "order").read_text().split().count("t1") == 4


def test_a_trial_that_ended_a_worker_is_named_and_comes_last(pytester: pytest.Pytester) -> None:
    """The run that lost a worker came to its end; it names the trial, not the items that waited behind it."""
    root = pytester.path
    tasks = {f"evals/t{n}.yaml": task(f"t{n}", agent="deadly", input={"content": f"t{n}"}) for n in range(6)}
    write(
        root, {"pytest.ini": "[pytest]\n", "evals/suite.yaml": suite(), "evals/conftest.py": DEADLY, **tasks}
    )

    first = pytester.runpytest_subprocess("evals", "-p", "xdist.plugin", "-n2")
    (root / "order").unlink()
    again = pytester.runpytest_subprocess("evals", "--agent-concurrency=2", "--agent-resume")
    ran = (root / "order").read_text().split()

    assert (first.ret, again.ret) == (1, 7)
    named = "! greetings/t1?scripted-1? was running when its process ended; --agent-resume*"
    unknown = "! 1 of greetings's 6 trials begun and interrupted: what they took is unknown"
    first.stdout.fnmatch_lines([unknown, named])
    again.stdout.fnmatch_lines(
        ["*a process died while these were running: greetings/t1?scripted-1?; they run last*"]
    )
    assert ran[-1] == "t1"

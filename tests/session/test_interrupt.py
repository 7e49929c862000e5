"""Runs that are cut short: by -x, by Ctrl-C, by agents that do not listen."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.store.run_folder import read_header
from tests.forked_workers import start_python
from tests.journals import journal, junit, names, run_folder
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick", "forked")

BLOCKING = """
import asyncio
import time
from pathlib import Path


class Blocking:
    '''Waits in a thread that nobody can stop.'''

    def run(self, task_input, ctx):
        time.sleep(120)


class ThreadUser:
    '''An async agent that leaves its work to a thread, as many do.'''

    async def run(self, task_input, ctx):
        await asyncio.to_thread(time.sleep, 120)


class SlowGrader:
    def grade(self, evidence):
        time.sleep(120)


def pytest_agenteval_register(registry):
    registry.agent("blocking", Blocking)
    registry.agent("threads", ThreadUser)
    registry.grader("slow", SlowGrader)


def pytest_runtest_logreport(report):
    if report.when == "call":
        Path(__file__).with_name("reported").touch()
"""
REGRESSION = "name: demo\nkind: regression\ndefaults: {model: scripted}\n"


def endless(id: str, **more: Any) -> dict[str, Any]:
    """Give a task that ends long after the test."""
    return task(id, **{"script": [{"text": "Mina", "seconds": 120.0}], **more})


def evals(root: Path, *tasks: dict[str, Any]) -> None:
    """Write the tasks of a regression suite."""
    write(
        root, {"evals/suite.yaml": REGRESSION, "evals/conftest.py": BLOCKING, "evals/tasks.yaml": list(tasks)}
    )


IN_COLLECTION = """
def pytest_itemcollected(item):
    if item.name.startswith(("last", "test_last")):
        raise KeyboardInterrupt
"""
OWN_TESTS = "def test_first(agenteval): ...\ndef test_last(agenteval): ..."


@pytest.mark.parametrize(("own", "workers"), [(False, 1), (True, 0), (False, 0)], ids=str)
def test_ctrl_c_while_files_are_collected_leaves_no_run(
    pytester: pytest.Pytester, workers: int, own: bool
) -> None:
    """What was found so far, held-out tasks among it, is nobody's plan: no trial counts as not run."""
    tasks = [task("first"), task("kept", split="held_out"), task("last")]
    write(pytester.path, {"evals/conftest.py": IN_COLLECTION})
    if own:
        write(pytester.path, {"evals/test_own.py": OWN_TESTS})
    else:
        write(pytester.path, {"evals/suite.yaml": REGRESSION, "evals/tasks.yaml": tasks})

    spread = ("-p", "xdist.plugin", f"-n{workers}", "--max-worker-restart=0") if workers else ()
    result = pytester.runpytest_subprocess("evals", "-o", "addopts=", *spread)

    assert result.ret != pytest.ExitCode.OK
    assert "not run" not in result.stdout.str()
    assert "trials" not in result.stdout.str()
    assert not list(pytester.path.glob(".agenteval/runs/*"))


def test_x_cancels_what_is_in_flight(pytester: pytest.Pytester, workers: int) -> None:
    """A failure among trials that would take two minutes ends the run at once; the rest is not run."""
    evals(pytester.path, task("bad", wants="Omar"), *(endless(f"t{n}") for n in range(12)))
    began = time.monotonic()
    result = run(pytester, "evals", "-x", "--agent-concurrency=4", workers=workers)
    assert time.monotonic() - began < 60
    assert result.parseoutcomes()["failed"] == 1
    assert names(journal(pytester.path, "finished")) == ["bad-1"]
    begun = len(journal(pytester.path, "started")) - 1
    assert 3 <= begun <= 8
    result.stdout.fnmatch_lines(
        [
            f"! {12 - begun} of demo's 13 trials not run",
            f"! {begun} of demo's 13 trials begun and interrupted: what they took is unknown",
            "next: pytest *evals --agent-concurrency=4* --agent-resume",
        ]
    )


@pytest.mark.parametrize(
    "stuck",
    [
        {"agent": "blocking"},
        {"agent": "threads"},
        {"script": [{"text": "Mina"}], "graders": [{"name": "slow"}]},
    ],
    ids=["an agent in a thread", "to_thread", "a grader"],
)
def test_a_thread_that_never_ends_does_not_hold_up_the_end(
    pytester: pytest.Pytester, stuck: dict[str, Any]
) -> None:
    """Threads cannot be stopped, but nobody waits for them: neither the run nor the interpreter."""
    bad = task("bad", wants="Omar", script=[{"text": "no", "seconds": 0.2}])
    evals(pytester.path, bad, endless("stuck", **stuck))
    began = time.monotonic()
    result = pytester.runpytest_subprocess("evals", "-x")
    result.assert_outcomes(failed=1)
    assert sorted(names(journal(pytester.path, "started"))) == ["bad-1", "stuck-1"]
    assert time.monotonic() - began < 60


def start(root: Path, *args: str) -> subprocess.Popen[str]:
    """Start pytest as from a terminal: with SIGINT as Python has it by default."""
    words = ("-m", "pytest", "evals", "-v", "--junitxml=j.xml", "-o", "addopts=", *args)
    return start_python(*words, cwd=root, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def interrupted(root: Path, pytest_run: subprocess.Popen[str], finished: int) -> str:
    """Press Ctrl-C when so many trials have finished and an item has reported; give what was printed."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        lines = [file.read_text() for file in root.glob(".agenteval/runs/2*/journal-*.jsonl")]
        if "".join(lines).count('"finished"') >= finished and (root / "evals/reported").exists():
            break
        time.sleep(0.02)
    time.sleep(0.2)  # for what has been reported to be printed
    pytest_run.send_signal(signal.SIGINT)
    return pytest_run.communicate(timeout=60)[0]


@pytest.mark.posix
def test_ctrl_c_keeps_what_was_paid_for(pytester: pytest.Pytester) -> None:
    """Exit status 2; what finished is in the journal though its item never came; summary, JUnit are there."""
    evals(pytester.path, task("good"), endless("stuck"), task("later"), task("last"))
    pytest_run = start(pytester.path)
    output = interrupted(pytester.path, pytest_run, finished=3)
    assert pytest_run.returncode == 2
    assert sorted(names(journal(pytester.path, "finished"))) == ["good-1", "last-1", "later-1"]
    assert "good[scripted-1] PASSED 1.00" in output
    assert "demo with scripted" in output
    assert "1 begun and not ended: what they took is unknown" in output
    assert set(junit(pytester.path / "j.xml")) >= {"good[scripted-1]"}
    assert read_header(run_folder(pytester.path)).exit_status == 2

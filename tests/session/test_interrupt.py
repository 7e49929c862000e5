"""Runs that are cut short: by -x, by Ctrl-C, by agents that do not listen, by kills, by a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.store.run_folder import read_header
from pytest_agenteval.store.run_reader import load_run
from tests.forked_workers import start_python
from tests.journals import journal, junit, names, run_folder
from tests.suites import run, suite, task, write

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
            f"! {begun} of demo's 13 trials started but interrupted: their usage is unknown",
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
    assert "1 started but not ended: their usage is unknown" in output
    assert set(junit(pytester.path / "j.xml")) >= {"good[scripted-1]"}
    assert read_header(run_folder(pytester.path)).exit_status == 2


CAPABILITY = "name: demo\nkind: capability\ndefaults: {model: scripted}\n"

SLOW_REPORTS = """
import os
import signal
import time

import pytest

reported = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    '''Trials are quick and items are slow; the first worker dies at its fifth item.'''
    time.sleep(0.05)
    reported.append(item.name)
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw0" and len(reported) == 5:
        os.kill(os.getpid(), signal.SIGKILL)


class Counting:
    '''Says hello, and is counted: each time stands for a bill.'''

    async def run(self, task_input, ctx):
        with open("asked.txt", "a") as asked:
            asked.write(f"{task_input['content']}\\n")
        return "Mina"


def pytest_agenteval_register(registry):
    registry.agent("counting", Counting)
"""


@pytest.mark.posix
def test_what_a_killed_worker_finished_is_not_tried_again(pytester: pytest.Pytester) -> None:
    """Its items go to the others, which give out the trials as they were written down.

    Only the item that the worker was at is lost to pytest; its trial is in the record all the same.
    """
    tasks = [task(f"t{n:02}", agent="counting", input={"content": f"t{n:02}"}) for n in range(40)]
    write(
        pytester.path,
        {"evals/suite.yaml": CAPABILITY, "evals/conftest.py": SLOW_REPORTS, "evals/tasks.yaml": tasks},
    )
    result = run(pytester, "evals", "--junitxml=j.xml", workers=2)
    asked = Counter((pytester.path / "asked.txt").read_text(encoding="utf-8").split())
    assert len(asked) == 40
    assert set(asked.values()) == {1}
    assert set(Counter(names(journal(pytester.path, "finished"))).values()) == {1}
    assert result.parseoutcomes() == {"passed": 39, "failed": 1}
    result.stdout.fnmatch_lines(["*crashed while running*", "*40 of 40*"])
    cases = junit(pytester.path / "j.xml")
    assert len(cases) == 40
    journals = {path.name for path in run_folder(pytester.path).glob("transcripts-gw0-*")}
    assert len(journals) == 1


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes as Linux shows them")
def test_workers_end_when_their_controller_is_gone(pytester: pytest.Pytester) -> None:
    """Nobody is there to report to, so nothing more is asked and paid for; what ended is written down."""
    quick_ones = [task("first"), task("second")]
    endless = [task(f"t{n}", script=[{"text": "Mina", "seconds": 60.0}]) for n in range(20)]
    write(pytester.path, {"evals/suite.yaml": CAPABILITY, "evals/tasks.yaml": [*quick_ones, *endless]})
    command = [sys.executable, "-m", "pytest", "evals", "-p", "xdist.plugin", "-n2", "-o", "addopts="]
    controller = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        workers = workers_of_run(pytester.path)
        controller.send_signal(signal.SIGKILL)
        controller.wait()
        died = time.monotonic()
        while any(map(alive, workers)) and time.monotonic() < died + 40:
            time.sleep(0.05)
        # Promised are 2 seconds. Left alone, they end after 5: execnet waits so long before it gives up.
        assert time.monotonic() - died < 4.5
        assert set(names(journal(pytester.path, "finished"))) == {"first-1", "second-1"}
    finally:
        controller.stdout.close()  # type: ignore[union-attr]  # it is a pipe
        for worker in workers:
            if alive(worker):
                os.kill(worker, signal.SIGKILL)


def workers_of_run(root: Path) -> list[int]:
    """Wait until both quick trials have ended and both workers are busy; give the workers' process ids."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        files = list(root.glob(".agenteval/runs/2*/journal-gw*"))
        if (
            sum(file.read_text(encoding="utf-8").count('"finished"') for file in files) == 2
            and len(files) == 2
        ):
            return [int(file.stem.rpartition("-")[2]) for file in files]
        time.sleep(0.02)
    raise AssertionError("the run did not come up")


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_junit_file_that_cannot_be_written_is_one_line_and_the_rest_is_shown(
    pytester: pytest.Pytester,
) -> None:
    """The tables, the exit status and what fixtures clear away do not hang on it."""
    fixture = "@pytest.fixture(scope='session')\ndef server():\n    yield\n    print('cleared')\n"
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a")})
    plain = {"conftest.py": f"import pytest\n{fixture}", "evals/test_b.py": "def test_one(server): pass\n"}
    write(pytester.path, plain)

    result = run(pytester, "evals", "--agent-model=scripted", "--junitxml=/dev/full", "-s")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*cleared", "*1 of 1 task*", "*/dev/full: JUnit's file cannot be written*"])
    text = result.stdout.str() + result.stderr.str()
    assert "Traceback" not in text
    assert "generated xml file" not in text

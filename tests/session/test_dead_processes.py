"""Workers and controllers that are killed: what was paid for is not paid for again, and nobody lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.journals import journal, junit, names, run_folder
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

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

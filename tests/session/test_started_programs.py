"""What agents start and change in the process that all trials share is said, and ends with its trial."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress

import pytest

from pytest_agenteval.processes.process_groups import is_running
from tests.journals import finished
from tests.suites import suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick", "forked")

AGENTS = """
import asyncio
import contextlib
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

LASTING = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
PIDS = Path(__file__).parent / "pids"

def popen():
    return subprocess.run([sys.executable, "-c", "print('Mina')"], capture_output=True, text=True).stdout

def shell():
    return subprocess.check_output("true && echo Mina", shell=True, text=True)

def system():
    os.system("true")
    return "Mina"

def spawned():
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    return "Mina"

def forked():
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/true", ["true"])
    os.waitpid(pid, 0)
    return "Mina"

def on_a_loop():
    async def start():
        await (await asyncio.create_subprocess_exec("true")).wait()
    asyncio.run(start())
    return "Mina"

def multiprocessed():
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(0,))
    process.start()
    process.join()
    return "Mina"

def nothing():
    platform.platform()
    return "Mina"

def left():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    asleep = subprocess.Popen("sleep 60; true", shell=True, start_new_session=True)
    copy = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    copy.start()
    PIDS.write_text(f"{child.pid} {asleep.pid} {copy.pid}")
    return "Mina"

def pooled():
    global POOL
    if "POOL" not in globals():
        POOL = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    return "Mina" + str(POOL.submit(abs, -1).result())

def pooled_again():
    assert LASTING.poll() is None
    return pooled()

def environment(wanted):
    os.environ["WANTED"] = wanted
    time.sleep(0.3)
    return "Mina" + os.environ["WANTED"]

def folder(path):
    os.chdir(path)
    time.sleep(0.3)
    return "Mina"

def set_once():
    os.environ["MODE"] = "eval"
    time.sleep(0.1)
    return "Mina"


class Own:
    def run(self, task_input, ctx):
        name, _, argument = task_input["content"].partition(" ")
        return globals()[name](*[ctx.workspace.path if argument == "here" else argument][:bool(argument)])


def pytest_agenteval_register(registry):
    registry.agent("own", Own)
"""
needs_posix = pytest.mark.skipif(os.name != "posix", reason="starts programs of POSIX")


def run(pytester: pytest.Pytester, *contents: str, options: tuple[str, ...] = ()) -> str:
    """Run agents that do this, and give what was printed, in one line."""
    write(
        pytester.path, {"pytest.ini": "[pytest]\n", "evals/suite.yaml": suite(), "evals/conftest.py": AGENTS}
    )
    for number, content in enumerate(contents):
        asking = task(f"t{number}", agent="own", input={"content": content})
        write(pytester.path, {f"evals/t{number}.yaml": asking})
    result = pytester.runpytest_subprocess("evals", *options)
    result.assert_outcomes(passed=len(contents))
    return " ".join(result.stdout.str().split())


@needs_posix
def test_the_programs_that_agents_start_are_said(pytester: pytest.Pytester) -> None:
    """What they send is seen by nobody: the run names them, and so does the journal, for later reports."""
    ways = ("popen", "shell", "system", "spawned", "forked", "on_a_loop", "multiprocessed")
    printed = run(pytester, *ways)
    others = [r"fork in 1 trial", r"python[\d.]* in 1 trial", r"python \(multiprocessing\) in 1 trial"]
    said = ", ".join(["true in 4 trials", *others])
    assert re.search(rf"! agents started a program \({said}\): its requests are not intercepted", printed)
    named = [kind for line in finished(pytester.path).values() for kind in line["doubtful_events"]]
    assert len(named) == len(ways)
    assert all(kind.startswith("started_program: ") for kind in named)


def test_where_nothing_is_started_nothing_is_said(pytester: pytest.Pytester) -> None:
    """Nor of what an import has started, nor of ``uname``, which SDKs ask where they run."""
    assert "started a program" not in run(pytester, "nothing")


@needs_posix
def test_a_program_ends_with_its_trial(pytester: pytest.Pytester) -> None:
    """Also one in a session of its own; pools, and what an import has started, serve later trials."""
    run(pytester, "left", "pooled", "pooled_again", options=("--agent-concurrency=1",))
    pids = [int(pid) for pid in (pytester.path / "evals/pids").read_text().split()]
    deadline = time.monotonic() + 10
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in pids if is_running(pid)]
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
    assert left == []


@pytest.mark.parametrize(
    ("contents", "what"),
    [
        (("environment a", "environment b", "environment c"), r"os\.environ\['WANTED'\]"),
        (("folder here", "folder here", "folder here"), r"os\.chdir"),
    ],
)
def test_what_trials_side_by_side_change_is_said(
    pytester: pytest.Pytester, contents: tuple[str, ...], what: str
) -> None:
    """One trial's variable, or folder, is another's too; one by one they have it to themselves."""
    shared = re.compile(rf"! concurrent trials changed the state of their process \({what} in \d trials?\);")
    printed = run(pytester, *contents)
    assert shared.search(printed)
    assert "--agent-concurrency=1" in printed
    assert not shared.search(run(pytester, *contents, options=("--agent-concurrency=1",)))


def test_what_all_trials_set_alike_harms_none(pytester: pytest.Pytester) -> None:
    """A variable that is set once, to what every trial sets, as by a file of settings."""
    assert "concurrent trials changed" not in run(pytester, "set_once", "set_once", "set_once")

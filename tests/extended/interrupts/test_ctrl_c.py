"""Ctrl-C ends a run whatever it is busy with, with workers too; agents that end their process are named."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.store.run_reader import load_run
from tests.greeters import latest_header, set_mood, task_names, write_tried_greeters
from tests.journals import journal, names, run_folder
from tests.session.test_interrupt import endless, evals, interrupted, start
from tests.suites import suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

BUSY = """
import asyncio
import time

from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.tools.tool import Tool


class Sleeping:
    '''A plain agent that waits in its thread.'''

    def run(self, task_input, ctx):
        time.sleep(600)


class Blocking:
    '''An async agent that keeps the loop of all trials to itself.'''

    async def run(self, task_input, ctx):
        await asyncio.sleep(0.3)
        time.sleep(600)


class Spinning:
    def grade(self, evidence):
        while True:
            pass


def turning(task_input, ctx):
    while True:
        pass


def pytest_agenteval_register(registry):
    registry.agent("sleeping", Sleeping)
    registry.agent("blocking", Blocking)
    registry.agent("turning", turning)
    registry.grader("spinning", Spinning)
    registry.tool(Tool(ToolSpec("wait", "Waits."), lambda args: time.sleep(600)))
"""
TOOL = {
    "agent": "tool_calling",
    "settings": {"tools": ["wait"]},
    "script": [{"calls": [{"tool": "wait"}]}, {"text": "Mina"}],
}
PATTERN = [{"name": "answer_matches", "config": {"patterns": [r"(a|a)+$", r"(b|b)+$"]}}]
BUSY_TASKS = {
    "in threads": [
        task("agent", agent="sleeping"),
        task("tool", **TOOL),
        task("grader", graders=[{"name": "spinning"}]),
        *(task(f"pattern{n}", says="a" * 60 + "b" * 60 + "!", graders=PATTERN) for n in range(4)),
    ],
    "in Python": [
        *(task(f"agent{n}", agent="turning") for n in range(6)),
        *(task(f"grader{n}", graders=[{"name": "spinning"}]) for n in range(18)),
    ],
    "on the loop": [task("agent", agent="blocking")],
}


@pytest.mark.posix
@pytest.mark.parametrize(
    ("busy", "presses"), [*((busy, 1) for busy in BUSY_TASKS), ("in Python", 2)], ids=lambda each: str(each)
)
def test_ctrl_c_ends_a_busy_run(pytester: pytest.Pytester, quick: None, busy: str, presses: int) -> None:
    """At once, with what had finished in the record; also where somebody is impatient and presses again.

    Nor do many threads that never wait for anything keep the interpreter from saying how the run ended.
    """
    tasks: list[dict[str, Any]] = [task("good"), *BUSY_TASKS[busy]]
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/conftest.py": BUSY, "evals/tasks.yaml": tasks})
    run = started(pytester.path, "--agent-concurrency=25")
    try:
        until_begun(pytester.path, len(tasks))
        pressed = time.monotonic()
        for _ in range(presses):
            run.send_signal(signal.SIGINT)
            time.sleep(0.3)
        output = run.communicate(timeout=60)[0]
    finally:
        run.kill()
    # Promised are 5 seconds; what holds a run up here lasts for ten minutes.
    assert time.monotonic() - pressed < 50
    if presses == 1:  # pressed again, pytest drops what it is at
        assert run.returncode == 2, output
        assert "INTERNALERROR" not in output
        assert "started but interrupted" in output
    assert "good-1" in names(journal(pytester.path, "finished"))


HOLDING = """
import ctypes
import time
from pathlib import Path


class Holding:
    '''An agent in C code that lets nobody else have the interpreter.'''

    def run(self, task_input, ctx):
        Path(__file__).with_name("begun").touch()
        time.sleep(0.5)
        ctypes.PyDLL(None).sleep(600)


def pytest_agenteval_register(registry):
    registry.agent("holding", Holding)
"""


@pytest.mark.posix
def test_ctrl_c_ends_a_run_whose_interpreter_is_held(pytester: pytest.Pytester, quick: None) -> None:
    """Where no Python can run, nothing of ours can listen: the process, or the worker, is ended from outside.

    Two runs are held and ended side by side, with a worker and without: each waits for seconds.
    """
    tasks: list[dict[str, Any]] = [task("good"), task("bad", agent="holding")]
    files = {"evals/suite.yaml": suite(), "evals/conftest.py": HOLDING, "evals/tasks.yaml": tasks}
    roots = {"one process": pytester.path / "one", "a worker": pytester.path / "other"}
    with ExitStack() as running:
        runs = {}
        for name, root in roots.items():
            write(root, {"pytest.ini": "[pytest]\n", **files})
            runs[name] = started(root, *(("-p", "xdist.plugin", "-n1") if name == "a worker" else ()))
            running.callback(runs[name].kill)
        until = time.monotonic() + 60
        while time.monotonic() < until and not all(
            (root / "evals/begun").exists() for root in roots.values()
        ):
            time.sleep(0.02)
        time.sleep(1)
        pressed = time.monotonic()
        for run in runs.values():
            run.send_signal(signal.SIGINT)
        outputs = {name: run.communicate(timeout=60)[0] for name, run in runs.items()}
    # Promised are 5 seconds; what holds the interpreter here lasts for ten minutes.
    assert time.monotonic() - pressed < 50, outputs
    assert "something holds the interpreter" in outputs["one process"]
    for root in roots.values():
        assert names(journal(root, "finished")) == ["good-1"]


def started(root: Path, *args: str) -> subprocess.Popen[str]:
    """Start pytest as from a terminal: with SIGINT as Python has it by default."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "evals", "-o", "addopts=", *args],
        cwd=root,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


TIDY = """
import os
import signal
import time

import pytest

from pytest_agenteval.processes import signals

signals.BEAT_S, signals.SILENCE_S = 0.1, 1.5


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    try:
        yield
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        time.sleep(2.5)
        print("all is put away")
"""


@pytest.mark.posix
def test_a_run_that_has_heard_ctrl_c_is_left_to_end_by_itself(pytester: pytest.Pytester, quick: None) -> None:
    """However long a project's own hooks take: while Python runs in it, nobody ends it from outside."""
    files = {"evals/suite.yaml": suite(), "evals/conftest.py": TIDY, "evals/t.yaml": task("good")}
    write(pytester.path, files)

    with started(pytester.path, "-s") as run:
        output = run.communicate(timeout=60)[0]

    assert run.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "all is put away" in output


def until_begun(root: Path, trials: int) -> None:
    """Wait until all trials have begun and one has ended, and a little longer: for them to be busy."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        texts = [path.read_text(encoding="utf-8") for path in root.glob(".agenteval/runs/2*/journal-*")]
        text = "".join(texts)
        if text.count('"started"') == trials and '"finished"' in text:
            time.sleep(0.5)
            return
        time.sleep(0.02)
    raise AssertionError("the run did not come up")


@pytest.mark.posix
def test_ctrl_c_with_workers(pytester: pytest.Pytester) -> None:
    """The same where workers run the trials and the signal reaches the controller only."""
    evals(pytester.path, task("good"), task("fine"), *(endless(f"t{n}") for n in range(6)))
    pytest_run = start(pytester.path, "-p", "xdist.plugin", "-n2")
    output = interrupted(pytester.path, pytest_run, finished=2)
    assert pytest_run.returncode == 2
    assert sorted(names(journal(pytester.path, "finished"))) == ["fine-1", "good-1"]
    assert "demo with scripted" in output
    assert re.search(r"(?m)^  \d not run$|^  6 started but not ended", output)
    assert (pytester.path / "j.xml").exists()


NIGHT = task_names("night")


@pytest.mark.posix
@pytest.mark.parametrize("mood", ["slow", "slow again"])
def test_ctrl_c_stays_an_interrupted_run(pytester: pytest.Pytester, mood: str) -> None:
    """While trials run, and while broken ones are tried again: exit status 2, and nothing is judged."""
    write_tried_greeters(pytester, {"recheck": 2, "errored": 0.5})
    started = pytester.path / "started"
    conftest = pytester.path / "conftest.py"
    when = "True" if mood == "slow" else "'--agent-gate=none' in sys.argv"
    wait = f"""
    if mood == 'asleep' and {when}:
        import time
        Path({str(started)!r}).touch()
        time.sleep(60)
"""
    conftest.write_text(conftest.read_text().replace("    again =", f"{wait}    again ="))
    set_mood(pytester.path, "asleep", NIGHT[:1])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "evals",
        "--repetitions=3",
        "--agent-model=nop",
        "--agent-baseline=latest",
    ]
    process = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.PIPE, start_new_session=True)
    _wait_for(started)
    os.killpg(process.pid, signal.SIGINT)
    out = process.communicate(timeout=60)[0].decode()

    assert process.returncode == pytest.ExitCode.INTERRUPTED
    why = "the run was interrupted" if mood == "slow" else "the recheck was interrupted"
    assert f"gate: not judged, {why}" in out
    assert latest_header(pytester.path)["exit_status"] == 2


def _wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


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
    named = "*a process died during these trials: *t1*; they run last, one by one"
    again.stdout.fnmatch_lines([named])
    third.stdout.fnmatch_lines(["*a process died during these trials: *t1*"])
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
    unknown = "! 1 of greetings's 6 trials started but interrupted: their usage is unknown"
    first.stdout.fnmatch_lines([unknown, named])
    again.stdout.fnmatch_lines(
        ["*a process died during these trials: greetings/t1?scripted-1?; they run last*"]
    )
    assert ran[-1] == "t1"

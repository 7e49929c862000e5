"""Ctrl-C ends a run whatever its agents, tools, graders and patterns are busy with."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.journals import journal, names
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
        assert "begun and interrupted" in output
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

"""Ctrl-C ends a command without a traceback, with the status that shells know, and spoils nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.forked_workers import start_python
from tests.suites import only_our_plugin, suite, task, write

COMMAND = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"
SLOW_CONFTEST = """
import time
from pathlib import Path
from typing import Any

Path(__file__).with_name("begun").touch()
time.sleep(600)
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as terminals send them")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands start pytest without other people's plugins."""
    only_our_plugin(monkeypatch)
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_agenteval.plugin")
    monkeypatch.delenv("PYTEST_ADDOPTS")


@pytest.mark.parametrize("verb", [["runs"], ["report", "20261122-060000-slow"]], ids=["runs", "report"])
def test_ctrl_c_ends_a_look_at_runs(tmp_path: Path, verb: list[str]) -> None:
    """What is read is still there afterwards, and nobody is shown our code."""
    folder = tmp_path / ".agenteval/runs/20261122-060000-slow"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}", encoding="utf-8")
    os.mkfifo(folder / "journal-main-1.jsonl")  # a disk that takes its time
    with ExitStack() as writing:
        ended = interrupted(tmp_path, verb, lambda: _somebody_reads(folder / "journal-main-1.jsonl", writing))
    assert ended == (130, "agenteval: interrupted\n")


def test_ctrl_c_ends_a_validation_that_has_found_nothing_yet(tmp_path: Path) -> None:
    """It does not say that there are no problems: nobody has looked."""
    files = {"suite.yaml": suite(), "tasks.yaml": [task("one")], "conftest.py": SLOW_CONFTEST}
    write(tmp_path, {f"evals/{name}": content for name, content in files.items()})
    ended = interrupted(tmp_path, ["validate", "evals"], (tmp_path / "evals/begun").exists)
    assert ended == (130, "agenteval: interrupted\n")


def interrupted(root: Path, arguments: list[str], begun: Callable[[], bool]) -> tuple[int, str]:
    """Press Ctrl-C once the command has begun; give its status and what it said of itself."""
    streams: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = start_python("-c", COMMAND, *arguments, cwd=root, **streams)
    try:
        until = time.monotonic() + 60
        while not begun():
            assert time.monotonic() < until
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    return process.returncode, output


def _somebody_reads(fifo: Path, writing: ExitStack) -> bool:
    """Whether somebody waits for what this pipe will hold, which is kept open, and has had time to begin."""
    try:
        writing.callback(os.close, os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    # Python looks for signals before it reads: one that comes just between waits for what is never read.
    time.sleep(0.3)
    return True

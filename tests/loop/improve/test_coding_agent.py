"""The coding agent's command: what it is given, and that nothing of it outlives its time."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path

import pytest

from pytest_agenteval.loop.improve import coding_agent
from pytest_agenteval.loop.improve.coding_agent import CodingAgentEnding, run_coding_agent
from pytest_agenteval.processes.process_groups import is_running

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX")


def ended(folder: Path, command: str, timeout: float = 30) -> tuple[CodingAgentEnding, str]:
    """Run a command with feedback; give how it ended, and what it printed."""
    (folder / "feedback.md").write_text("Prices are too low.\n", encoding="utf-8")
    ending = run_coding_agent(
        command,
        folder=folder,
        feedback=folder / "feedback.md",
        output=folder / "out.txt",
        variables={"AGENTEVAL_ROUND": "2"},
        timeout=timeout,
    )
    return ending, (folder / "out.txt").read_text(encoding="utf-8")


def test_feedback_is_its_input_and_the_round_in_its_environment(tmp_path: Path) -> None:
    """Both streams go to the file; the last line that says anything is the one that is quoted."""
    ending, out = ended(tmp_path, 'cat; echo "round $AGENTEVAL_ROUND" >&2; echo; exit 3')
    assert out == "Prices are too low.\nround 2\n\n"
    assert (ending.how, ending.status, ending.last_line) == ("ended", 3, "round 2")


def test_one_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """It ignores the signal that asks, its child has a session of its own: neither is left."""
    ignore = "import os, signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    child = f"{ignore}print(os.getpid(), flush=True); time.sleep(60)"
    start = f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True); "
    began = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coding_agent, "AGENT_GRACE_S", 0.2)
        own = f"{ignore}{start}print(os.getpid(), flush=True); time.sleep(60)"
        ending, out = ended(tmp_path, f"{sys.executable} -c {shlex.quote(own)}; true", timeout=0.4)
    assert ending.how == "timeout"
    assert len(out.split()) == 2
    while any(is_running(int(pid)) for pid in out.split()):  # the system takes a moment
        assert time.monotonic() - began < 10
    assert time.monotonic() - began < 10


def test_a_daemon_is_ended(tmp_path: Path) -> None:
    """It has a session of its own and no parent: its environment tells that it belongs to the command."""
    daemon = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    start = f"subprocess.Popen([sys.executable, '-c', {daemon!r}], start_new_session=True)"
    own = f"import subprocess, sys, time; {start}; time.sleep(0.3)"
    _, out = ended(tmp_path, f"{sys.executable} -c {shlex.quote(own)}")
    assert len(out.split()) == 1
    assert not is_running(int(out))


def test_one_that_prints_without_end_is_ended(tmp_path: Path) -> None:
    """Before the disk is full; and its time is not over yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coding_agent, "MOST_OUTPUT_BYTES", 10_000)
        ending, _ = ended(tmp_path, "exec yes")
    assert ending.how == "too much output"


def test_what_it_leaves_running_is_ended(tmp_path: Path) -> None:
    """Nobody writes into a tree while it is looked at."""
    ending, out = ended(tmp_path, "sleep 60 & echo $!")
    assert ending.status == 0
    assert not is_running(int(out))


def test_a_secret_that_it_prints_is_not_kept(tmp_path: Path) -> None:
    """Neither in the file nor in the line that is quoted."""
    secret = "sk-proj-0123456789abcdefghijklmnop"
    ending, out = ended(tmp_path, f"echo key {secret}")
    assert secret not in out + ending.last_line

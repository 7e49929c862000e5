"""The processes beside inner runs that watch over Ctrl-C, which are forked, and those that a run starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.session import run_signals
from tests.forked_watchers import ForkedWatcher, fork_watchers, forker
from tests.forked_workers import can_fork

pytestmark = pytest.mark.skipif(not can_fork(), reason="watchers are forked on Linux alone")

PROGRAM = """
import json, os, signal, stat, sys
opened = []
for handle in os.listdir("/proc/self/fd"):
    try:
        opened.append([handle, stat.S_IFMT(os.fstat(int(handle)).st_mode)])
    except OSError:
        pass  # that of the list itself
state = {
    "arguments": sys.argv[2:],
    "name": __name__,
    "heeds": signal.getsignal(signal.SIGINT) is not signal.SIG_IGN,
    "input": os.read(0, 5).decode(),
    "opened": sorted(opened),
}
with open(sys.argv[1], "w") as file:
    json.dump(state, file)
os.read(0, 1)
sys.exit(3)
"""
"""Says how it finds itself, and ends when nobody writes to it any more."""

ROOT = Path(__file__).parents[1]


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this test have forked watchers."""
    fork_watchers(monkeypatch)


def started(start: Callable[..., Any], path: Path) -> tuple[Any, int]:
    """Start the program as a run starts its watcher; give it, and what writes to it."""
    read_end, write_end = os.pipe()
    process = start([sys.executable, "-I", "-S", "-c", PROGRAM, str(path), "1", ""], stdin=read_end)
    os.close(read_end)
    os.write(write_end, b"alive")
    return process, write_end


def test_a_forked_watcher_starts_as_any_other(forked: None, tmp_path: Path) -> None:
    """Same arguments, streams and signals, and nothing else opened; it ends by itself, and is awaited."""
    states = []
    for start in (run_signals.subprocess.Popen, subprocess.Popen):
        process, write_end = started(start, tmp_path / "state.json")
        os.close(write_end)
        process.wait()
        states.append(json.loads((tmp_path / "state.json").read_text(encoding="utf-8")))
    assert states[0] == states[1]
    assert states[0]["input"] == "alive"


def test_a_forked_watcher_can_be_ended(forked: None, tmp_path: Path) -> None:
    """At once, whatever it waits for; and once more is no error."""
    process, write_end = started(run_signals.subprocess.Popen, tmp_path / "state.json")
    assert isinstance(process, ForkedWatcher)
    for _ in range(2):
        process.kill()
        process.wait()
    with pytest.raises(BrokenPipeError):
        os.write(write_end, b"\0")
    os.close(write_end)


def test_what_forks_ends_with_the_tests() -> None:
    """It lives as long as the process that started it, and listens at one address for all of its runs."""
    program = "from tests.forked_watchers import forker; print(forker() == forker(), forker()[1:].decode())"
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    same, address = ended.stdout.split()
    ours = forker()[1:].decode()
    listeners = Path("/proc/net/unix").read_text(encoding="utf-8").split()
    assert same == "True"
    assert f"@{address}" not in listeners
    assert f"@{ours}" in listeners

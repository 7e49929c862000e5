"""A value that several processes change: one after the other, whatever becomes of any of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.processes.files import LockedState

COUNT = """
import sys
from pathlib import Path
from pytest_agenteval.processes.files import LockedState
state = LockedState(Path(sys.argv[1]))
def count(value):
    value["n"] = value.get("n", 0) + 1
for _ in range(int(sys.argv[2])):
    state.change(count)
"""
HOLD = """
import sys, time
from pathlib import Path
from pytest_agenteval.processes.files import LockedState
def hold(value):
    value["n"] = -1
    print("holds", flush=True)
    time.sleep(60)
LockedState(Path(sys.argv[1])).change(hold)
"""


def _start(code: str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _add(value: dict[str, Any]) -> int:
    value["n"] = value.get("n", 0) + 1
    return int(value["n"])


def test_no_change_is_lost_between_processes_and_threads(tmp_path: Path) -> None:
    """Two processes and two threads of a third count to 800 together; a shorter value leaves no rest."""
    path = tmp_path / "new" / "state"
    others = [_start(COUNT, path, 200) for _ in range(2)]
    state = LockedState(path)
    threads = [threading.Thread(target=lambda: [state.change(_add) for _ in range(200)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [other.wait(30) for other in others] == [0, 0]
    assert state.read() == {"n": 800}
    state.change(lambda value: value.update(n=1))
    assert LockedState(path).read() == {"n": 1}


def test_a_change_that_raises_changes_nothing(tmp_path: Path) -> None:
    """The value stays as it was, and the lock is free."""
    state = LockedState(tmp_path / "state")
    state.change(_add)

    def broken(value: dict[str, Any]) -> None:
        value["n"] = 99
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        state.change(broken)
    assert state.change(_add) == 2


@pytest.mark.posix
def test_a_process_that_is_killed_while_it_holds_the_lock_gives_it_back(tmp_path: Path) -> None:
    """Its change never happened."""
    path = tmp_path / "state"
    state = LockedState(path)
    state.change(_add)
    holder = _start(HOLD, path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holds\n"
    threading.Timer(0.2, os.kill, (holder.pid, signal.SIGKILL)).start()
    began = time.monotonic()
    assert state.change(_add) == 2
    assert time.monotonic() - began < 30
    holder.wait(10)
    holder.stdout.close()


@pytest.mark.posix
def test_a_value_for_which_there_is_no_room_stays_as_it_was(tmp_path: Path) -> None:
    """A file that may not grow: who changes the value is told, and the others read what it was."""
    import resource

    state = LockedState(tmp_path / "state")
    state.change(lambda value: value.update(n=1, kept="x" * 100))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
    try:
        with pytest.raises(OSError, match=r"No space left|File too large"):
            state.change(lambda value: value.update(more="y" * 500))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert state.read() == {"n": 1, "kept": "x" * 100}
    assert state.change(_add) == 2

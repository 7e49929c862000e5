"""A file that says whether anybody is at work, whatever becomes of who held it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_agenteval.processes.files import PresenceLock

pytestmark = pytest.mark.posix

HOLDER = """
import sys
from pathlib import Path
from pytest_agenteval.processes.files import PresenceLock

held = PresenceLock(Path(sys.argv[1]))
print(held.claim(0) if sys.argv[2] == "claim" else held.hold(), flush=True)
sys.stdin.read()
"""


def holder(path: Path, how: str) -> subprocess.Popen[str]:
    """Start a process that holds or claims the file until its input ends; wait until it does."""
    command = [sys.executable, "-c", HOLDER, str(path), how]
    process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.said = process.stdout.readline().strip()  # type: ignore[attr-defined]
    return process


def test_whoever_is_killed_holds_nothing(tmp_path: Path) -> None:
    """Many hold it side by side; it is claimed once the last of them is gone, however it went."""
    path = tmp_path / ".held"
    mine = PresenceLock(path)
    others = [holder(path, "hold"), holder(path, "hold")]
    assert not mine.claim(0)
    os.kill(others[0].pid, signal.SIGKILL)
    others[0].communicate()
    assert not mine.claim(0)
    others[1].communicate("")
    assert mine.claim(5)
    mine.write("42")
    assert mine.read() == "42"
    second = holder(path, "claim")
    assert second.said == "False"  # type: ignore[attr-defined]
    second.communicate("")
    mine.release()
    assert not path.exists()
    third = holder(path, "claim")
    assert third.said == "True"  # type: ignore[attr-defined]
    third.communicate("")


def test_whoever_looks_whether_it_is_held_changes_nothing(tmp_path: Path) -> None:
    """Not the file that a killed process left, nor what a process does that takes the lock meanwhile."""
    path = tmp_path / ".held"
    look = PresenceLock(path)
    assert not look.is_held()
    assert not path.exists()
    first = holder(path, "hold")
    assert look.is_held()
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    path.write_text("41")
    before = path.stat()
    assert not look.is_held()
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    for _ in range(3):
        other = holder(path, "claim")
        assert (other.said, look.is_held()) == ("True", True)  # type: ignore[attr-defined]
        other.communicate("")
        assert path.read_text() == "41"


def test_a_folder_that_is_gone_holds_up_nobody(tmp_path: Path) -> None:
    """The run's folder may be removed before its process lets go."""
    path = tmp_path / ".held"
    held = PresenceLock(path)
    held.hold()
    path.unlink()
    tmp_path.rmdir()
    held.release()
    assert held.read() == ""

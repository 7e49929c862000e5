"""Processes that are ended with all that they started: by whoever owns them, or when that one is gone."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_agenteval.processes.files import POSIX
from pytest_agenteval.processes.group_guard import GroupGuard
from pytest_agenteval.processes.process_table import (
    descendants,
    has_members,
    is_running,
    signal_each,
    with_variable,
)

GROUP: dict[str, Any] = (
    {"start_new_session": True}
    if POSIX
    else {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
)
"""How a process is started that is to be ended with all that it starts; no terminal's Ctrl-C reaches it."""

NEEDED_VARIABLES: tuple[str, ...] = (
    () if POSIX else ("SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "WINDIR")
)
"""Variables without which programs do not even start, where that is so (Windows)."""

POLL_S = 0.05

KILLED_S = 5.0
"""Seconds until what was killed is taken for unable to die; to give back much memory takes a while."""

_owned: set[subprocess.Popen[bytes]] = set()
_guard = GroupGuard()


def prepare_to_own() -> None:
    """Start what ends groups where this process is killed: best before the group is."""
    if POSIX:
        _guard.start()


def own_group(process: subprocess.Popen[bytes]) -> None:
    """Have a process started with GROUP, and its group, end with this process at the latest.

    Where this one is killed, the group alone is ended, and not on Windows.
    """
    _owned.add(process)
    if POSIX:
        _guard.add(process.pid)


def disown_group(process: subprocess.Popen[bytes]) -> None:
    """Leave a process alone that has ended."""
    _owned.discard(process)
    _guard.discard(process.pid)


@atexit.register
def end_owned_groups() -> None:
    """End at once what is owned and still there: nobody else would."""
    for process in tuple(_owned):
        end_group(process, 0)


def end_group(process: subprocess.Popen[bytes], grace: float, variable: str = "") -> None:
    """End a process started with GROUP, and what it started: asked first, forced after ``grace`` seconds.

    What is left in its group is ended also where the process itself has ended before; so is what left the
    group, wherever ``variable``, which is ``NAME=value``, stands in its environment. All of it is gone when
    this returns: its ports and files are free.
    """
    if not POSIX:
        if process.poll() is None:
            subprocess.run(
                ["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False
            )
        process.wait()
        return
    started = _started_by(process, variable)
    try:
        _signal_group(process.pid, signal.SIGTERM)
        signal_each(started, signal.SIGTERM)
        _wait_while(lambda: process.poll() is None or has_members(process.pid), grace)
    finally:  # also where Ctrl-C is pressed once more
        started |= _started_by(process, variable)
        _signal_group(process.pid, signal.SIGKILL)
        signal_each(started, signal.SIGKILL)
        process.wait()
        _wait_while(lambda: has_members(process.pid) or _any_running(started), KILLED_S, POLL_S / 10)


def _wait_while(running: Callable[[], bool], seconds: float, poll: float = POLL_S) -> None:
    end = time.monotonic() + seconds
    while running() and time.monotonic() < end:
        time.sleep(poll)


def _any_running(started: Iterable[int]) -> bool:
    return any(map(is_running, started))


def _started_by(process: subprocess.Popen[bytes], variable: str) -> dict[int, str]:
    """Give what a process started, as far as it can be told: what it left behind has no parent that tells."""
    started = descendants(process.pid) if process.poll() is None else {}
    return started | (with_variable(variable) if variable else {})


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def end_marked(variable: str, grace: float) -> None:
    """End the processes started with ``variable``, ``NAME=value``, in their environment; only with /proc.

    They are asked first, and forced after ``grace`` seconds.
    """
    if not POSIX or not (left := with_variable(variable)):
        return
    signal_each(left, signal.SIGTERM)
    _wait_while(lambda: _any_running(left), grace)
    left |= with_variable(variable)
    signal_each(left, signal.SIGKILL)
    _wait_while(lambda: _any_running(left), KILLED_S, POLL_S / 10)


PR_SET_CHILD_SUBREAPER = 36  # of linux/prctl.h
ROUNDS = 100


@contextmanager
def ending_orphans() -> Iterator[None]:
    """End, when the block ends, what was started in it and lost its parent, whatever it did to be forgotten.

    Only on Linux: there such processes become this one's children meanwhile. Nobody else in this process may
    start any within the block.
    """
    before = set(descendants(os.getpid()))
    adopting = _adopt_orphans(True)
    try:
        yield
    finally:
        try:
            for _ in range(ROUNDS if adopting else 0):  # what is ended may leave others behind
                left = {pid: born for pid, born in descendants(os.getpid()).items() if pid not in before}
                if not left:
                    break
                signal_each(left, signal.SIGKILL)
                for pid in left:
                    with suppress(ChildProcessError):  # a child's child: ours in a moment
                        os.waitpid(pid, 0)
        finally:
            if adopting:
                _adopt_orphans(False)


def _adopt_orphans(wanted: bool) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0) == 0)
    return False


LOOK_S = 0.25
"""Seconds between two looks at who the parent is."""

CLOSING_S = 1.0
"""Seconds for what is running to be stopped and for what ended to be written down."""


def end_with_parent(parent: int, close: Callable[[], object]) -> None:
    """End this process soon after the one that started it is gone; ``close`` has a second before.

    Nothing is done where the process of that number is not its parent, nor where a process keeps the number
    of a parent that is gone (Windows).
    """
    if POSIX and os.getppid() == parent:
        threading.Thread(target=_watch, args=(parent, close), name="agenteval-orphan", daemon=True).start()


def _watch(parent: int, close: Callable[[], object]) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    closing = threading.Thread(target=close, name="agenteval-closing", daemon=True)
    closing.start()
    closing.join(CLOSING_S)
    end_owned_groups()
    os._exit(1)

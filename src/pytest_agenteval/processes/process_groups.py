"""Processes that are ended with all that they started: by their owner, or when the owner is gone."""

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
from pathlib import Path
from typing import Any, NamedTuple

from pytest_agenteval.processes.files import POSIX

# Audit events of a process that forks.
FORK_EVENTS = ("os.fork", "os.forkpty")


def is_running(pid: int) -> bool:
    """Whether a process with that number is running; always False on Windows, where we cannot look."""
    if not POSIX:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    now = _stat(pid)
    # It has ended since; or there is no /proc, and only the signal could be tried.
    if now is None:
        return not Path("/proc/self").exists()
    return not now.has_ended


def signal_each(started: dict[int, str], number: int) -> None:
    """Send a signal to those processes that are still the same: their number may have been reused."""
    for pid, born in started.items():
        with suppress(ProcessLookupError, PermissionError):
            if (now := _stat(pid)) is not None and now.born == born:
                os.kill(pid, number)


def descendants(pid: int) -> dict[int, str]:
    """Return the numbers of all descendants of a process, each with its start time; empty without /proc."""
    every = {int(entry.name): _stat(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")}
    out: dict[int, str] = {}
    left = [pid]
    while left:
        parent = left.pop()
        children = {child: of.born for child, of in every.items() if of and of.parent == parent}
        left += [child for child in children if child not in out]
        out |= children
    return out


def kill_descendants(pid: int) -> None:
    """Kill all descendants of a process, where the system has /proc."""
    if POSIX:
        signal_each(descendants(pid), signal.SIGKILL)


def processes_with_variable(variable: str) -> dict[int, str]:
    """Return the other processes with ``variable``, ``NAME=value``, in their environment; needs /proc."""
    # This process is left out: it ends the others, and waits until they are gone.
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _has_variable(folder, variable)]
    return {pid: now.born for pid in pids if pid != os.getpid() and (now := _stat(pid)) is not None}


def _has_variable(folder: Path, variable: str) -> bool:
    try:
        return os.fsencode(variable) in (folder / "environ").read_bytes().split(b"\0")
    # It is gone, or belongs to another user.
    except OSError:
        return False


def has_members(leader: int) -> bool:
    """Whether a process group has a member that has not ended; zombies do not count."""
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return False
    living = [_stat(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")]
    return not living or any(of.group == leader and not of.has_ended for of in living if of is not None)


class _ProcessStat(NamedTuple):
    """What /proc says of a process; ``has_ended`` is also true of a zombie, ``born`` is its start time."""

    has_ended: bool
    parent: int
    group: int
    born: str


def _stat(pid: int) -> _ProcessStat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The process's name stands in parentheses, and may hold any character.
    fields = text.rpartition(")")[2].split()
    return _ProcessStat(fields[0] in "ZX", int(fields[1]), int(fields[2]), fields[19])


# The program of the guard. It reads ``+NUMBER`` for a group to end, ``-NUMBER`` for one that has ended.
GUARD = """
import os, select, signal, sys
parent, groups, rest = int(sys.argv[1]), set(), b""
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while True:
    if select.select([0], [], [], 0.5)[0]:
        read = os.read(0, 65536)
        if not read:
            break
        *lines, rest = (rest + read).split(b"\\n")
        for line in lines:
            (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    elif os.getppid() != parent:  # a process that an agent forked may hold the pipe open
        break
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class GroupGuard:
    """A process beside this one that ends its process groups if it is killed.

    When a process is killed, no Python code in it can do that.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guard: subprocess.Popen[bytes] | None = None
        self._process = 0

    def start(self) -> None:
        """Start the guard, before a group is started: it takes longer to start than some programs run."""
        with self._lock:
            if self._guard is None or self._process != os.getpid():
                self._process = os.getpid()
                # ``-I -S``: without site packages and PYTHON* variables it starts fast, and runs no code of
                # others.
                self._guard = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", GUARD, str(self._process)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )

    def add(self, group: int) -> None:
        """Have a group ended with this process, however that ends."""
        self.start()
        self._send(f"+{group}\n")

    def discard(self, group: int) -> None:
        """Forget a group that has ended: its number may be reused."""
        self._send(f"-{group}\n")

    def _send(self, line: str) -> None:
        guard = self._guard
        if guard is not None and guard.stdin is not None and self._process == os.getpid():
            # The guard may have been killed.
            with suppress(OSError):
                os.write(guard.stdin.fileno(), line.encode())


# Arguments to start a process that is ended with all that it starts; Ctrl-C of a terminal does not reach it.
GROUP: dict[str, Any] = (
    {"start_new_session": True}
    if POSIX
    else {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
)

# Variables without which programs do not even start on Windows.
NEEDED_VARIABLES: tuple[str, ...] = (
    () if POSIX else ("SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "WINDIR")
)

POLL_S = 0.05

# Seconds until a killed process is taken for unable to die; to free much memory takes a while.
KILLED_S = 5.0

_owned: set[subprocess.Popen[bytes]] = set()
_guard = GroupGuard()


def prepare_to_own() -> None:
    """Start the guard, best before the group is started."""
    if POSIX:
        _guard.start()


def own_group(process: subprocess.Popen[bytes]) -> None:
    """Have a process that was started with GROUP, and its group, end with this process at the latest.

    If this process is killed, only the group is ended, and on Windows nothing.
    """
    _owned.add(process)
    if POSIX:
        _guard.add(process.pid)


def disown_group(process: subprocess.Popen[bytes]) -> None:
    _owned.discard(process)
    _guard.discard(process.pid)


@atexit.register
def end_owned_groups() -> None:
    """Kill the groups that are owned and still there: nobody else would."""
    for process in tuple(_owned):
        end_group(process, 0)


def end_group(process: subprocess.Popen[bytes], grace: float, variable: str = "") -> None:
    """End a process started with GROUP and what it started: SIGTERM first, SIGKILL after ``grace`` seconds.

    The rest of its group is ended even if the process itself has ended before. So are processes that left the
    group, if ``variable``, ``NAME=value``, is in their environment. When this returns all of them are gone:
    their ports and files are free.
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
    # Also if Ctrl-C is pressed once more.
    finally:
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
    # Children of an ended process have another parent: only their variables tell that they belong to it.
    started = descendants(process.pid) if process.poll() is None else {}
    return started | (processes_with_variable(variable) if variable else {})


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def end_processes_with_variable(variable: str, grace: float) -> None:
    """End the processes with ``variable``, ``NAME=value``, in their environment; needs /proc.

    They get SIGTERM first, and SIGKILL after ``grace`` seconds.
    """
    if not POSIX or not (left := processes_with_variable(variable)):
        return
    signal_each(left, signal.SIGTERM)
    _wait_while(lambda: _any_running(left), grace)
    left |= processes_with_variable(variable)
    signal_each(left, signal.SIGKILL)
    _wait_while(lambda: _any_running(left), KILLED_S, POLL_S / 10)


# Of linux/prctl.h.
PR_SET_CHILD_SUBREAPER = 36
MOST_ROUNDS = 100


@contextmanager
def ending_orphans() -> Iterator[None]:
    """When the block ends, end processes that were started in it and lost their parents, as daemons do.

    Works only on Linux. Other threads of this process must not start any processes within the block.
    """
    # Meanwhile, such processes become children of this one.
    before = set(descendants(os.getpid()))
    adopting = _adopt_orphans(True)
    try:
        yield
    finally:
        try:
            # Processes that end may leave children behind.
            for _ in range(MOST_ROUNDS if adopting else 0):
                left = {pid: born for pid, born in descendants(os.getpid()).items() if pid not in before}
                if not left:
                    break
                signal_each(left, signal.SIGKILL)
                for pid in left:
                    # The child of a child is adopted a moment later.
                    with suppress(ChildProcessError):
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


# Seconds between two looks at who the parent is.
PARENT_POLL_S = 0.25
# Seconds to stop what is running and to write down what has ended.
CLOSING_S = 1.0


def end_with_parent(parent: int, close: Callable[[], object]) -> None:
    """End this process soon after ``parent``, which started it, is gone; ``close`` has a second before that.

    Does nothing if ``parent`` did not start it, and on Windows, where a child never gets another parent.
    """
    if POSIX and os.getppid() == parent:
        threading.Thread(
            target=_watch_parent, args=(parent, close), name="agenteval-orphan", daemon=True
        ).start()


def _watch_parent(parent: int, close: Callable[[], object]) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    closing = threading.Thread(target=close, name="agenteval-closing", daemon=True)
    closing.start()
    closing.join(CLOSING_S)
    end_owned_groups()
    os._exit(1)

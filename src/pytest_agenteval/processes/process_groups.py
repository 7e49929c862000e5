"""Processes that are ended with all that they started: by their owner, or when the owner is gone."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.processes.files import POSIX

# psutil is imported where it is used: most runs start no process, and its import takes 40 ms.
if TYPE_CHECKING:
    from psutil import Process

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


def is_running(pid: int) -> bool:
    """Whether a process with that number is running; one that has ended and was not waited for is not."""
    import psutil

    try:
        return _is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def user_and_group() -> str:
    """Give the numbers of this process's user and group, as ``1000:1000``; empty on Windows."""
    return "" if sys.platform == "win32" else f"{os.getuid()}:{os.getgid()}"


def kill_descendants(pid: int) -> None:
    """Kill all that a process has started, and what that has started."""
    _signal_each(_descendants(pid), signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)


def _is_alive(process: Process) -> bool:
    import psutil

    try:
        # A process that has the same number by now is another one.
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
    # It belongs to another user.
    except psutil.AccessDenied:
        return True


def _signal_each(processes: Iterable[Process], number: int) -> None:
    import psutil

    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)


def _descendants(pid: int) -> set[Process]:
    import psutil

    with suppress(psutil.Error):
        return set(psutil.Process(pid).children(recursive=True))
    return set()


def _with_variable(variable: str) -> set[Process]:
    """Return the other processes with ``variable``, ``NAME=value``, in their environment."""
    import psutil

    found = set()
    for process in psutil.process_iter():
        # It is gone, or belongs to another user.
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and _has_variable(process, variable):
                found.add(process)
    return found


def _has_variable(process: Process, variable: str) -> bool:
    # psutil takes ten times as long to read it, and each trial of a command looks at all processes twice.
    if sys.platform == "linux":
        return os.fsencode(variable) in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    name, _, value = variable.partition("=")
    return process.environ().get(name) == value


def _has_members(leader: int) -> bool:
    """Whether a process group has a member that has not ended; zombies do not count."""
    import psutil

    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return False

    def is_member(process: Process) -> bool:
        with suppress(OSError):
            return os.getpgid(process.pid) == leader and _is_alive(process)
        return False

    return any(map(is_member, psutil.process_iter()))


# The program of the guard. It reads ``+NUMBER`` for a group to end, ``-NUMBER`` for one that has ended. In
# place of a number there may be a command that it is to run, with tabs between its words.
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
            (groups.add if line[:1] == b"+" else groups.discard)(line[1:])
    elif os.getppid() != parent:  # a process that an agent forked may hold the pipe open
        break
for group in groups:
    try:
        if group.isdigit():
            os.killpg(int(group), signal.SIGKILL)
        else:
            words = group.split(b"\\t")
            os.spawnv(os.P_NOWAIT, words[0], words)
    except OSError:
        pass
"""


class _Guard:
    """A process beside this one that ends its groups if it is killed: then no Python code in it can."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guard: subprocess.Popen[bytes] | None = None
        self._process = 0

    def start(self) -> None:
        with self._lock:
            # A forked child needs a guard of its own.
            if POSIX and self._process != os.getpid():
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

    def send(self, line: str) -> None:
        guard = self._guard
        if guard is not None and guard.stdin is not None and self._process == os.getpid():
            # The guard may have been killed.
            with suppress(OSError):
                os.write(guard.stdin.fileno(), line.encode())


_owned: set[subprocess.Popen[bytes]] = set()
_guard = _Guard()


def prepare_to_own() -> None:
    """Start the guard, best before a group is started: it takes longer to start than some programs run."""
    _guard.start()


def own_group(process: subprocess.Popen[bytes]) -> None:
    """Have a process that was started with GROUP, and its group, end with this process at the latest.

    If this process is killed, only the group is ended, and on Windows nothing.
    """
    _owned.add(process)
    _guard.start()
    _guard.send(f"+{process.pid}\n")


def start_owned(command: Sequence[str], **settings: Any) -> subprocess.Popen[bytes]:
    """Start a program with three pipes in a group of its own, which ends with this process at the latest."""
    prepare_to_own()
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process: subprocess.Popen[bytes] = subprocess.Popen(list(command), **pipes, **settings, **GROUP)
    own_group(process)
    return process


def disown_group(process: subprocess.Popen[bytes]) -> None:
    """Forget a group that has ended: its number may be reused."""
    _owned.discard(process)
    _guard.send(f"-{process.pid}\n")


def run_if_killed(command: Sequence[str]) -> None:
    """Have a command run once this process is gone, if ``forget_if_killed`` was not called; on POSIX only."""
    _guard.start()
    _guard.send("+{}\n".format("\t".join(command)))


def forget_if_killed(command: Sequence[str]) -> None:
    _guard.send("-{}\n".format("\t".join(command)))


@atexit.register
def end_owned_groups() -> None:
    """Kill the groups that are owned and still there: nobody else would."""
    for process in tuple(_owned):
        end_group(process, 0)


def end_group(process: subprocess.Popen[bytes], grace: float, variable: str = "") -> None:
    """End a process started with GROUP and what it started: SIGTERM first, SIGKILL after ``grace`` seconds.

    The rest of its group is ended even if the process itself has ended before. So are processes that left the
    group, if ``variable``, ``NAME=value``, is in their environment. When this returns all of them are gone:
    their ports and files are free. On Windows what it started is killed at once.
    """
    started = _started_by(process, variable)
    if sys.platform == "win32":
        _signal_each(started, signal.SIGTERM)
        process.kill()
        process.wait()
        return
    try:
        _signal_group(process.pid, signal.SIGTERM)
        _signal_each(started, signal.SIGTERM)
        _wait_while(lambda: process.poll() is None or _has_members(process.pid), grace)
    # Also if Ctrl-C is pressed once more.
    finally:
        started |= _started_by(process, variable)
        _signal_group(process.pid, signal.SIGKILL)
        _signal_each(started, signal.SIGKILL)
        process.wait()
        _wait_while(lambda: _has_members(process.pid) or any(map(_is_alive, started)), KILLED_S, POLL_S / 10)


def _wait_while(running: Callable[[], bool], seconds: float, poll: float = POLL_S) -> None:
    end = time.monotonic() + seconds
    while running() and time.monotonic() < end:
        time.sleep(poll)


def _started_by(process: subprocess.Popen[bytes], variable: str) -> set[Process]:
    # Children of an ended process have another parent: only their variables tell that they belong to it.
    started = _descendants(process.pid) if process.poll() is None else set()
    return started | (_with_variable(variable) if variable else set())


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def end_processes_with_variable(variable: str, grace: float) -> None:
    """End the processes with ``variable``, ``NAME=value``, in their environment.

    They get SIGTERM first, and SIGKILL after ``grace`` seconds.
    """
    if sys.platform == "win32" or not (left := _with_variable(variable)):
        return
    _signal_each(left, signal.SIGTERM)
    _wait_while(lambda: any(map(_is_alive, left)), grace)
    left |= _with_variable(variable)
    _signal_each(left, signal.SIGKILL)
    _wait_while(lambda: any(map(_is_alive, left)), KILLED_S, POLL_S / 10)


# Seconds between two looks at who the parent is.
PARENT_POLL_S = 0.25
# Seconds to stop what is running and to write down what has ended.
CLOSING_S = 1.0


# Audit events of a process that copies itself.
FORK_EVENTS = ("os.fork", "os.forkpty")


def end_with_parent(parent: int | None = None, close: Callable[[], object] = lambda: None) -> None:
    """End this process soon after the one that started it is gone; ``close`` has a second before that.

    Does nothing if ``parent`` is named and did not start it.
    """
    parent = os.getppid() if parent is None else parent
    if os.getppid() == parent:
        threading.Thread(
            target=_watch_parent, args=(parent, close), name="agenteval-orphan", daemon=True
        ).start()


def _watch_parent(parent: int, close: Callable[[], object]) -> None:
    # On Windows a child never gets another parent.
    while os.getppid() == parent and (POSIX or is_running(parent)):
        time.sleep(PARENT_POLL_S)
    closing = threading.Thread(target=close, name="agenteval-closing", daemon=True)
    closing.start()
    closing.join(CLOSING_S)
    end_owned_groups()
    os._exit(1)

"""Processes that are ended from outside where nothing in Python would end them."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from pytest_agenteval.portable.files import POSIX
from pytest_agenteval.portable.group_guard import GroupGuard

BEAT_S = 0.5
"""Seconds between two signs of life."""

SILENCE_S = 3.5
"""Seconds without one, after Ctrl-C, until the process is ended: with what is around them, less than 5."""

WATCHER = """
import os, select, signal, sys, time
pid, silence, stop = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to everybody
pressed = None
while True:
    if select.select([0], [], [], 0.25)[0]:
        heard = os.read(0, 4096)
        if not heard:
            sys.exit()  # the run is over
        if b"\\2" in heard and pressed is None:
            pressed = time.monotonic()
        if b"\\0" in heard.rpartition(b"\\2")[2]:
            pressed = None
    if pressed is None and stop and os.path.exists(stop):
        pressed, stop = time.monotonic(), ""
    if pressed is not None and time.monotonic() - pressed > silence:
        os.write(1, b"\\nagenteval: Ctrl-C was not heard: something holds the interpreter, such as a pattern "
                    b"that backtracks in C code. The process is ended; finished trials are kept.\\n")
        os.kill(pid, signal.SIGKILL)
        sys.exit()
"""
"""What another process runs: it reads the numbers of signals, and zeros as signs of life."""


def watch_interrupts(
    stop: str, start: Callable[[list[str], int], subprocess.Popen[bytes]]
) -> Callable[[], None]:
    """Have this process ended where Ctrl-C, or the file ``stop`` (none where empty), reaches no Python.

    ``start`` starts a program, given its arguments and what it reads from. Give the undoing. Signals are
    noted by C code, which writes their numbers into a pipe; a thread of ours writes zeros there as long as it
    gets its turn. Where none follows on an interrupt, a watching process acts. Nothing is watched without
    signals of that kind (Windows), and outside the main thread.
    """
    if not POSIX or threading.current_thread() is not threading.main_thread():
        return lambda: None
    read_end, write_end = os.pipe()
    # signal takes no other: its C code must never wait for a reader.
    os.set_blocking(write_end, False)
    watcher = start(
        # Without site and what PYTHON* variables name: it starts fast, and runs nobody else's code.
        [sys.executable, "-I", "-S", "-c", WATCHER, str(os.getpid()), str(SILENCE_S), stop],
        read_end,
    )
    os.close(read_end)
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    over = threading.Event()
    beating = threading.Thread(target=_beat, args=(write_end, over), name="agenteval-alive", daemon=True)
    beating.start()

    def undo() -> None:
        over.set()
        beating.join()
        now = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(before if now == write_end else now, warn_on_full_buffer=False)
        os.close(write_end)
        watcher.kill()  # a process that an agent forked may hold the pipe open
        watcher.wait()

    return undo


def _beat(write_end: int, over: threading.Event) -> None:
    while not over.wait(BEAT_S):
        with suppress(OSError):  # full: whoever should read it is gone
            os.write(write_end, b"\0")


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


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Do to another process what Ctrl-C does; where one process alone cannot be told so, it is ended."""
    if POSIX:
        process.send_signal(signal.SIGINT)
    else:
        process.terminate()


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Have every signal that ends this process do what Ctrl-C does: what it started must not go on alone."""

    def interrupted(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    names = ("SIGTERM", "SIGHUP", "SIGBREAK")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, interrupted) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_group(process: subprocess.Popen[bytes], grace: float, variable: str = "") -> None:
    """End a process started with GROUP, and what it started: asked first, forced after ``grace`` seconds.

    What is left in its group is ended also where the process itself has ended before; so is what left the
    group, wherever ``variable``, which is ``NAME=value``, stands in its environment.
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
        _signal_each(started, signal.SIGTERM)
        end = time.monotonic() + grace
        while (process.poll() is None or _has_members(process.pid)) and time.monotonic() < end:
            time.sleep(POLL_S)
    finally:  # also where Ctrl-C is pressed once more
        started |= _started_by(process, variable)
        _signal_group(process.pid, signal.SIGKILL)
        _signal_each(started, signal.SIGKILL)
        process.wait()


PR_SET_CHILD_SUBREAPER = 36  # of linux/prctl.h
ROUNDS = 100


@contextmanager
def ending_orphans() -> Iterator[None]:
    """End, when the block ends, what was started in it and lost its parent, whatever it did to be forgotten.

    Only on Linux: there such processes become this one's children meanwhile. Nobody else in this process may
    start any within the block.
    """
    before = set(_descendants(os.getpid()))
    adopting = _adopt_orphans(True)
    try:
        yield
    finally:
        try:
            for _ in range(ROUNDS if adopting else 0):  # what is ended may leave others behind
                left = {pid: born for pid, born in _descendants(os.getpid()).items() if pid not in before}
                if not left:
                    break
                _signal_each(left, signal.SIGKILL)
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


def end_marked(variable: str, grace: float) -> None:
    """End the processes started with ``variable``, ``NAME=value``, in their environment; only with /proc.

    They are asked first, and forced after ``grace`` seconds.
    """
    if not POSIX or not (left := _with_variable(variable)):
        return
    _signal_each(left, signal.SIGTERM)
    end = time.monotonic() + grace
    while any(is_running(pid) for pid in left) and time.monotonic() < end:
        time.sleep(POLL_S)
    _signal_each(left | _with_variable(variable), signal.SIGKILL)


def _started_by(process: subprocess.Popen[bytes], variable: str) -> dict[int, str]:
    """Give what a process started, as far as it can be told: what it left behind has no parent that tells."""
    started = _descendants(process.pid) if process.poll() is None else {}
    return started | (_with_variable(variable) if variable else {})


def _with_variable(variable: str) -> dict[int, str]:
    """Give the processes that were started with a variable, each with when it was born; only with /proc."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _has_variable(folder, variable)]
    return {pid: now.born for pid in pids if (now := _stat(pid)) is not None}


def _has_variable(folder: Path, variable: str) -> bool:
    try:
        return os.fsencode(variable) in (folder / "environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return False


def _has_members(leader: int) -> bool:
    """Whether a group has a process that has not ended, though nobody may have asked yet how it did."""
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return False
    living = [_stat(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")]
    return not living or any(of.group == leader and not of.has_ended for of in living if of is not None)


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _signal_each(started: dict[int, str], number: int) -> None:
    """Send a signal to processes that are still who they were: a number may have gone to another."""
    for pid, born in started.items():
        with suppress(ProcessLookupError, PermissionError):
            if (now := _stat(pid)) is not None and now.born == born:
                os.kill(pid, number)


def _descendants(pid: int) -> dict[int, str]:
    """Give the processes that one started, and those that they did, each with when it was born.

    Only where the system has /proc: elsewhere the group is all that is known.
    """
    every = {int(entry.name): _stat(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")}
    out: dict[int, str] = {}
    left = [pid]
    while left:
        parent = left.pop()
        children = {child: of.born for child, of in every.items() if of and of.parent == parent}
        left += [child for child in children if child not in out]
        out |= children
    return out


class _ProcessStat(NamedTuple):
    """What /proc says of a process; ``has_ended`` is one that nobody has asked yet how it ended."""

    has_ended: bool
    parent: int
    group: int
    born: str


def _stat(pid: int) -> _ProcessStat | None:
    """Look at a process; None where it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # its name stands in parentheses, and may hold anything
    return _ProcessStat(fields[0] in "ZX", int(fields[1]), int(fields[2]), fields[19])


def is_running(pid: int) -> bool:
    """Whether there is a process of that number; where nobody can tell (Windows), there is none."""
    if not POSIX:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    now = _stat(pid)
    return now is None or not now.has_ended

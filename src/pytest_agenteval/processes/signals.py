"""Ctrl-C and Ctrl-Z, handlers of signals, and what a terminal understands."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from pytest_agenteval.processes.files import POSIX

BEAT_S = 0.5
"""Seconds between two signs of life."""

SILENCE_S = 3.5
"""Seconds without one, after Ctrl-C, until the process is ended: with what is around them, less than 5."""

WATCHER = """
import os, select, signal, sys, time
pid, silence, stop, notice = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to everybody
pressed = None
while True:
    if select.select([0], [], [], 0.25)[0]:
        signals = os.read(0, 4096)
        if not signals:  # the process is gone, and has not ended this one first
            try:
                os.write(1, notice.encode())
            except OSError:
                pass  # so is whoever read its output
            sys.exit()
        if b"\\2" in signals and pressed is None:
            pressed = time.monotonic()
        if b"\\0" in signals.rpartition(b"\\2")[2]:
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
    stop: str, start: Callable[[list[str], int], subprocess.Popen[bytes]], notice: str = ""
) -> Callable[[], None]:
    """Have this process ended where Ctrl-C, or the file ``stop`` (none where empty), reaches no Python.

    ``start`` starts a program, given its arguments and what it reads from. Give the undoing. Where this
    process ends before it was called (a kill, C code that exits), the program prints ``notice``. Signals are
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
        [sys.executable, "-I", "-S", "-c", WATCHER, str(os.getpid()), str(SILENCE_S), stop, notice],
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
        watcher.kill()  # before the pipe is closed, which would be a sudden end
        watcher.wait()
        os.close(write_end)

    return undo


def _beat(write_end: int, over: threading.Event) -> None:
    while not over.wait(BEAT_S):
        with suppress(OSError):  # full: whoever should read it is gone
            os.write(write_end, b"\0")


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Do to another process what Ctrl-C does; where one process alone cannot be told so, it is ended."""
    if POSIX:
        process.send_signal(signal.SIGINT)
    else:
        process.terminate()


@contextmanager
def signals_as_ctrl_c() -> Iterator[None]:
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


WITHOUT_ESCAPES = ("", "dumb", "unknown")
"""Values of TERM, which names the kind of terminal, that promise nothing."""

VIRTUAL_TERMINAL = 0x0004
"""The bit of a Windows console's mode that says: it reads escape sequences."""


def is_terminal_with_escapes(fd: int) -> bool:
    """Whether a file descriptor is a terminal on which the cursor can be moved by escape sequences."""
    if not os.isatty(fd):
        return False
    if sys.platform == "win32":
        return _console_mode(fd) & VIRTUAL_TERMINAL != 0
    return os.environ.get("TERM", "") not in WITHOUT_ESCAPES


def is_in_foreground(fd: int) -> bool:
    """Whether a terminal's keys go to this process; of a job in the background they go to the shell."""
    if sys.platform == "win32":
        return True
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # it is not the terminal that controls this process: there are no jobs
        return True


def on_ctrl_z(call: Callable[[Callable[[], None]], None]) -> Callable[[], None]:
    """Have Ctrl-Z call a function with what stops this process until it goes on; give the undoing.

    Nothing changes without such a signal (Windows), outside the main thread, and where others handle it.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        return lambda: None
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL:
        return lambda: None

    def stop() -> None:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # this returns when the process goes on
        signal.signal(signal.SIGTSTP, handle)

    def handle(*_: object) -> None:
        call(stop)

    def undo() -> None:
        if signal.getsignal(signal.SIGTSTP) is handle:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    signal.signal(signal.SIGTSTP, handle)
    return undo


def _console_mode(fd: int) -> int:
    """Give the mode of a Windows console; 0 for what is none."""
    if sys.platform != "win32":
        return 0
    import ctypes
    import msvcrt

    mode = ctypes.c_ulong()
    is_console = ctypes.windll.kernel32.GetConsoleMode(msvcrt.get_osfhandle(fd), ctypes.byref(mode))
    return mode.value if is_console else 0


SIGACTION_BYTES = 1024
"""Bytes that hold what any system keeps of one signal's handler."""


@contextmanager
def preserved_signal_handlers() -> Iterator[None]:
    """Put back, when the block ends, who hears of signals, of uncaught exceptions and of crashes.

    Signals as the system knows them: a library in C replaces them behind Python's back, and Python itself can
    set them from its main thread only.
    """
    hook, dumps = sys.excepthook, faulthandler.is_enabled()
    before = _native_handlers()
    try:
        yield
    finally:
        sys.excepthook = hook
        if faulthandler.is_enabled() and not dumps:
            faulthandler.disable()
        _restore_handlers(before)


class _SignalHandler(NamedTuple):
    """Who hears of a signal, as Python knows it and as the system does."""

    in_python: Any
    native: ctypes.Array[ctypes.c_char]


def _native_handlers() -> dict[int, _SignalHandler]:
    if not POSIX:
        return {}
    sigaction = ctypes.CDLL(None).sigaction
    kept = {}
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        native = ctypes.create_string_buffer(SIGACTION_BYTES)
        if sigaction(int(number), None, native) == 0:
            kept[int(number)] = _SignalHandler(signal.getsignal(number), native)
    return kept


def _restore_handlers(kept: dict[int, _SignalHandler]) -> None:
    for number, held in kept.items():
        # The main thread may have set one of its own meanwhile: that one stays.
        if signal.getsignal(number) is held.in_python:
            ctypes.CDLL(None).sigaction(number, held.native, None)

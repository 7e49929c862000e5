"""Ctrl-C, signal handlers, and what a terminal understands."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_agenteval.processes.files import POSIX

# Seconds between two signs of life.
BEAT_S = 0.5

# Seconds without a sign of life after Ctrl-C until the process is ended: in all less than 5 seconds.
SILENCE_S = 3.5

# The program of the watching process. It reads the numbers of signals, and zeros as signs of life.
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


def watch_interrupts(
    stop: str, start: Callable[[list[str], int], subprocess.Popen[bytes]], notice: str = ""
) -> Callable[[], None]:
    """Have this process ended if no Python code reacts to Ctrl-C, or to the file ``stop`` (empty: none).

    ``start`` starts a program, given its arguments and the file descriptor that it reads from; the returned
    function ends the watch. If this process ends before that (a kill, C code that exits), the program prints
    ``notice``.

    How: CPython's C handler writes the number of each signal into a pipe, and a thread of ours writes zeros
    into it as long as it is scheduled. If no zero follows an interrupt, the watching process kills this one.
    Nothing is watched on Windows, or outside the main thread.
    """
    if not POSIX or threading.current_thread() is not threading.main_thread():
        return lambda: None
    read_end, write_end = os.pipe()
    # ``set_wakeup_fd`` accepts only a non-blocking one: its C code must never wait for a reader.
    os.set_blocking(write_end, False)
    watcher = start(
        # ``-I -S``: without site packages and PYTHON* variables it starts fast, and runs no code of others.
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
        # Before the pipe is closed, which would look like a sudden end.
        watcher.kill()
        watcher.wait()
        os.close(write_end)

    return undo


def _beat(write_end: int, over: threading.Event) -> None:
    while not over.wait(BEAT_S):
        # The pipe is full: the watching process is gone.
        with suppress(OSError):
            os.write(write_end, b"\0")


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Do to another process what Ctrl-C does; on Windows end it, as no signal reaches one process alone."""
    if POSIX:
        process.send_signal(signal.SIGINT)
    else:
        process.terminate()


@contextmanager
def signals_as_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM and its like as Ctrl-C: processes started by this one must not go on alone."""

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


# Values of TERM for terminals that may not understand escape sequences.
WITHOUT_ESCAPES = ("", "dumb", "unknown")

# The bit of a Windows console's mode for understanding escape sequences.
VIRTUAL_TERMINAL = 0x0004


def is_terminal_with_escapes(fd: int) -> bool:
    """Whether a file descriptor is a terminal on which escape sequences can move the cursor."""
    if not os.isatty(fd):
        return False
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        mode = ctypes.c_ulong()
        is_console = ctypes.windll.kernel32.GetConsoleMode(msvcrt.get_osfhandle(fd), ctypes.byref(mode))
        return bool(is_console and mode.value & VIRTUAL_TERMINAL)
    return os.environ.get("TERM", "") not in WITHOUT_ESCAPES


# Bytes that hold the ``struct sigaction`` of any system.
SIGACTION_BYTES = 1024


@contextmanager
def preserved_signal_handlers() -> Iterator[None]:
    """Restore, when the block ends, the handlers of signals, of uncaught exceptions and of crashes."""
    # ``ray.init`` replaces them. They are saved as the system knows them: C code replaces them without
    # Python's knowledge, and Python can set them only from its main thread.
    import ctypes

    hook, dumps = sys.excepthook, faulthandler.is_enabled()
    before = _native_handlers()
    try:
        yield
    finally:
        sys.excepthook = hook
        if faulthandler.is_enabled() and not dumps:
            faulthandler.disable()
        for number, (in_python, native) in before.items():
            # The main thread may have set a handler of its own meanwhile: that one stays.
            if signal.getsignal(number) is in_python:
                ctypes.CDLL(None).sigaction(number, native, None)


def _native_handlers() -> dict[int, tuple[Any, Any]]:
    """Return each signal's handler, as Python knows it and as the system does."""
    if not POSIX:
        return {}
    import ctypes

    sigaction = ctypes.CDLL(None).sigaction
    handlers = {}
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        native = ctypes.create_string_buffer(SIGACTION_BYTES)
        if sigaction(int(number), None, native) == 0:
            handlers[int(number)] = signal.getsignal(number), native
    return handlers


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Block Ctrl-C in processes that start here until they can ignore it: its traceback helps nobody."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker  # not on Windows

    # The first process would start it, which unblocks Ctrl-C.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

"""Ctrl-C where Python cannot act on it, a notice after a sudden end, and what does the same to a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

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

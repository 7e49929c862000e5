"""Terminals: whether one understands escape sequences, whose turn it is to use it, and Ctrl-Z."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

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


def stop_by_way_of(call: Callable[[Callable[[], None]], None]) -> Callable[[], None]:
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

"""Terminals: whether one understands escape sequences, and whether it is this process's turn to use it."""

from __future__ import annotations

import os
import sys

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


def _console_mode(fd: int) -> int:
    """Give the mode of a Windows console; 0 for what is none."""
    if sys.platform != "win32":
        return 0
    import ctypes
    import msvcrt

    mode = ctypes.c_ulong()
    known = ctypes.windll.kernel32.GetConsoleMode(msvcrt.get_osfhandle(fd), ctypes.byref(mode))
    return mode.value if known else 0

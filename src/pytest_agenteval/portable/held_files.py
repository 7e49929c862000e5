"""A file that says whether anybody is at work: held by many at once, and claimed by one when nobody is left.

The system lets go of it for a process that dies, so no number of a process has to be believed.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # its absence is the portable case

POLL_S = 0.05


class HeldFile:
    """One process's hold on a file, with many others or, while it is claimed, alone.

    Locks of the whole process, which what it forks has no part in: a program that an agent has left running
    keeps nothing going. On Windows, and where a file system knows no locks, nobody is ever found at work.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def hold(self) -> None:
        """Say that this process is at work, until it lets go or ends."""
        self._lock(fcntl.LOCK_SH if fcntl else 0, 0.0)

    def claim(self, patience_s: float) -> bool:
        """Hold the file if nobody else does, or within so many seconds does no more; false where not."""
        if not self._lock((fcntl.LOCK_EX | fcntl.LOCK_NB) if fcntl else 0, patience_s):
            self.release()
            return False
        self.hold()  # in one step: nobody comes between
        return True

    def write(self, text: str) -> None:
        """Write into the file that is held, for whoever finds it held."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, text.encode())

    def read(self) -> str:
        """Give what a holder has written into the file; empty where there is none."""
        try:
            return self._path.read_text(encoding="utf-8")
        except OSError:
            return ""

    def release(self) -> None:
        """Let go, and take the file away where nobody else holds it."""
        if self._file is None:
            return
        with suppress(OSError):
            if fcntl is not None:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_in_place(self._file):
                self._path.unlink()
        os.close(self._file)
        self._file = None

    def _lock(self, kind: int, patience_s: float) -> bool:
        until = time.monotonic() + patience_s
        while True:
            file = self._open()
            if fcntl is None:
                return True
            try:
                fcntl.lockf(file, kind)
            except (BlockingIOError, PermissionError):  # the second on some systems
                if time.monotonic() >= until:
                    return False
                time.sleep(POLL_S)
                continue
            except OSError:  # a file system without locks
                return True
            if self._is_in_place(file):
                return True
            os.close(file)  # whoever held it before has taken it away: another may hold a new one
            self._file = None

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
        return self._file

    def _is_in_place(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.stat(self._path))
        except FileNotFoundError:
            return False

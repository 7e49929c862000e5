"""A file that says whether anybody is at work: held by many at once, and claimed by one when nobody is left.

The system lets go of it for a process that dies, so no number of a process has to be believed.
"""

from __future__ import annotations

import os
import time
import weakref
from contextlib import suppress
from pathlib import Path

from pytest_agenteval.processes.files import locked

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # its absence is the portable case

POLL_S = 0.05


class HeldFile:
    """One process's hold on a file, with many others or, while it is claimed, alone.

    What a process forks has no part in it: a child that an agent has left running keeps nothing going. On
    Windows, and where a file system knows no locks, nobody is ever found at work.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        _held.add(self)

    def hold(self) -> None:
        """Say that this process is at work, until it lets go or ends."""
        self._lock(fcntl.LOCK_SH if fcntl else 0)

    def claim(self, patience_s: float) -> bool:
        """Hold the file if nobody else does, or within so many seconds does no more; false where not."""
        until = time.monotonic() + patience_s
        while not self._claim_now():
            if time.monotonic() >= until:
                self.release()
                return False
            time.sleep(POLL_S)
        return True

    def _claim_now(self) -> bool:
        with locked(self._path):  # one claims after the other: nobody comes between the two locks
            is_free = self._lock((fcntl.LOCK_EX | fcntl.LOCK_NB) if fcntl else 0)
            if is_free:
                self.hold()
        return is_free

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
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_in_place(self._file):
                self._path.unlink()
        self.forget()

    def forget(self) -> None:
        """Close the file; whoever else of this process's family has it open goes on holding it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lock(self, kind: int) -> bool:
        while True:
            file = self._open()
            if fcntl is None:
                return True
            try:
                fcntl.flock(file, kind)
            except BlockingIOError:
                return False
            except OSError:  # a file system without locks
                return True
            if self._is_in_place(file):
                return True
            self.forget()  # whoever held it before has taken it away: another may hold a new one

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
        return self._file

    def _is_in_place(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.stat(self._path))
        except FileNotFoundError:
            return False


_held: weakref.WeakSet[HeldFile] = weakref.WeakSet()


def _forget_all() -> None:
    for each in tuple(_held):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)

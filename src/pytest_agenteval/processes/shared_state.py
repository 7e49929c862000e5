"""What processes share by way of files: who is at work, and a small value that all of them change."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from pytest_agenteval.processes.files import file_lock

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # its absence is the portable case

CLAIM_POLL_S = 0.05


class PresenceLock:
    """Says that this process is at work on something: a lock that many share, or that one claims alone.

    The system releases it for a process that dies, so no process number has to be believed. Forked children
    have no part in it: a child that an agent has left running does not count as work. On Windows, and on a
    file system without locks, nobody is ever found at work.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        _open_locks.add(self)

    def hold(self) -> None:
        """Share the lock until this process releases it or ends."""
        self._lock(fcntl.LOCK_SH if fcntl else 0)

    def claim(self, patience_s: float) -> bool:
        """Take the lock if nobody else has it, waiting that long; False where another process still does."""
        until = time.monotonic() + patience_s
        while not self._claim_now():
            if time.monotonic() >= until:
                self.release()
                return False
            time.sleep(CLAIM_POLL_S)
        return True

    def _claim_now(self) -> bool:
        with file_lock(self._path):  # one claims after the other: nobody comes between the two locks
            is_free = self._lock((fcntl.LOCK_EX | fcntl.LOCK_NB) if fcntl else 0)
            if is_free:
                self.hold()
        return is_free

    def write(self, text: str) -> None:
        """Write into the lock file, for whoever finds it locked."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, text.encode())

    def read(self) -> str:
        """Give what a holder has written into the lock file; empty where there is none."""
        try:
            return self._path.read_text(encoding="utf-8")
        except OSError:
            return ""

    def release(self) -> None:
        """Release the lock, and delete its file where nobody else has it."""
        if self._file is None:
            return
        with suppress(OSError):
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_in_place(self._file):
                self._path.unlink()
        self.forget()

    def forget(self) -> None:
        """Close the file; a parent or child that has it open keeps the lock."""
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
            self.forget()  # its last holder has deleted the file: another process may hold a new one

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
        return self._file

    def _is_in_place(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.stat(self._path))
        except FileNotFoundError:
            return False


_open_locks: weakref.WeakSet[PresenceLock] = weakref.WeakSet()


def _close_all_locks() -> None:
    for lock in tuple(_open_locks):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all_locks)


T = TypeVar("T")
_LENGTH = 10  # digits of the value's length, which stand before it


class LockedState:
    """A JSON object in a file, empty at first: ``change`` sees it as the last process has left it.

    For some kilobytes. A process that dies while it holds the lock gives it back, and leaves the value as
    it was or as it is after the change: it is written in one write. Threads of one process take turns too.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        self._file: int | None = None

    def change(self, change: Callable[[dict[str, Any]], T]) -> T:
        """Let ``change`` change the value in place under the lock, and give what it returns."""
        # Where it raises, the value stays as it was. Raises OSError where the file cannot be written.
        with self._turn, self._held() as file:
            before = _read_text(file)
            state: dict[str, Any] = json.loads(before) if before else {}
            result = change(state)
            try:
                _write_text(file, json.dumps(state, separators=(",", ":")).encode())
            except OSError:  # a full disk; there is still room for the old value
                _write_text(file, before)
                raise
            return result

    def read(self) -> dict[str, Any]:
        """Give the value as it is now."""
        with self._turn, self._held() as file:
            text = _read_text(file)
        state: dict[str, Any] = json.loads(text) if text else {}
        return state

    def close(self) -> None:
        """Close the file, which stays."""
        with self._turn:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    @contextmanager
    def _held(self) -> Iterator[int]:
        # The value's own file is locked where the kernel can: no lock file is made each time.
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        if not fcntl:
            with file_lock(self._path):
                yield self._file
            return
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield self._file
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


def _read_text(file: int) -> bytes:
    os.lseek(file, 0, os.SEEK_SET)
    length = os.read(file, _LENGTH)
    return _read_bytes(file, int(length)) if length else b""


def _read_bytes(file: int, length: int) -> bytes:
    parts = []
    while length > 0 and (part := os.read(file, length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _write_text(file: int, text: bytes) -> None:
    # What stood there may have been longer: its rest lies behind the length, and nobody reads it.
    whole = b"%0*d%b" % (_LENGTH, len(text), text)
    os.lseek(file, 0, os.SEEK_SET)
    if os.write(file, whole) < len(whole):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

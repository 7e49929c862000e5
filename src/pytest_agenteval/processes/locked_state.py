"""A small value that several processes read and change, one after the other."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pytest_agenteval.processes.files import locked

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # its absence is the portable case

T = TypeVar("T")
_LENGTH = 10
"""Digits of the value's length, which stand before it."""


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
        """Have the value changed in place under the lock; give what ``change`` gives.

        What it raises leaves the value as it was. Raises OSError where the file cannot be written.
        """
        with self._turn, self._held() as file:
            before = _read_text(file)
            state: dict[str, Any] = json.loads(before) if before else {}
            result = change(state)
            try:
                _write(file, json.dumps(state, separators=(",", ":")).encode())
            except OSError:  # a full disk; what stood there has its place still
                _write(file, before)
                raise
            return result

    def read(self) -> dict[str, Any]:
        """Give the value as it is now."""
        with self._turn, self._held() as file:
            text = _read_text(file)
        state: dict[str, Any] = json.loads(text) if text else {}
        return state

    def close(self) -> None:
        """Let go of the file, which stays."""
        with self._turn:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    @contextmanager
    def _held(self) -> Iterator[int]:
        """Hold the lock. The value's own file is locked where the kernel can: no other is made each time."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        if not fcntl:
            with locked(self._path):
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


def _write(file: int, text: bytes) -> None:
    # What stood there may have been longer: its rest lies behind the length, and nobody reads it.
    whole = b"%0*d%b" % (_LENGTH, len(text), text)
    os.lseek(file, 0, os.SEEK_SET)
    if os.write(file, whole) < len(whole):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

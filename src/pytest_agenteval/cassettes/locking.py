"""One writer at a time for a file that several processes save."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # its absence is the portable case

FORGOTTEN_S = 30.0
WAIT_S = 0.01


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's lock, ``.<name>.lock`` beside it, which is gone when nobody holds it."""
    lock = path.with_name(f".{path.name}.lock")
    handle = _by_kernel(lock) if fcntl else _by_creation(lock)
    try:
        yield
    finally:
        _release(lock, handle)


def _by_kernel(lock: Path) -> int:
    """Take the lock that a dying process gives back by itself."""
    while True:
        handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.flock(handle, fcntl.LOCK_EX)
        # The holder before us removed the file: another process may hold a new one by now.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                return handle
        os.close(handle)


def _by_creation(lock: Path) -> int:
    """Take the lock by being the one who makes the file; one left behind by a dead process is thrown away."""
    while True:
        try:
            return os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        except (FileExistsError, PermissionError):
            with suppress(OSError):
                if time.time() - lock.stat().st_mtime > FORGOTTEN_S:
                    lock.unlink()
            time.sleep(WAIT_S)


def _release(lock: Path, handle: int) -> None:
    """Remove the file and let go; without flock the other way round, as Windows needs it."""
    if fcntl:
        lock.unlink(missing_ok=True)
        os.close(handle)
    else:
        os.close(handle)
        lock.unlink(missing_ok=True)

"""Files that several processes write, replace, lock and point to, on any system; and deleting a tree."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import sys
import threading
import time
import unicodedata
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # its absence is the portable case

POSIX = os.name == "posix"

# The parent of temporary folders for sockets: their paths must be short, but TMPDIR may be long.
SHORT_TEMP = "/tmp" if POSIX else None

# Seconds after which a lock file, without flock, is taken for that of a dead process.
STALE_LOCK_S = 30.0
# Seconds between two attempts to take a lock.
LOCK_POLL_S = 0.01
# Seconds between the attempts to replace a file that another process may be reading.
REPLACE_RETRIES_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)

# Flags to open a file for appending. Without O_BINARY, Windows would write ``\r\n``.
APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)

_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?=\.|$)")
_REFUSED = re.compile(r'[<>:"/\\|?*\x00-\x1f]|[. ]$')


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the file's lock, ``.<name>.lock`` beside it, which is deleted when nobody holds it."""
    lock = path.with_name(f".{path.name}.lock")
    handle = _lock_by_kernel(lock) if fcntl else _lock_by_creation(lock)
    try:
        yield
    finally:
        if fcntl:
            lock.unlink(missing_ok=True)
            os.close(handle)
        # Windows cannot delete an open file.
        else:
            os.close(handle)
            lock.unlink(missing_ok=True)


def _lock_by_kernel(lock: Path) -> int:
    """Take the lock by flock, which the kernel releases when a process dies."""
    while True:
        handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.flock(handle, fcntl.LOCK_EX)
        # The last holder may have deleted the file: then another process may hold a new one by now.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                return handle
        os.close(handle)


def _lock_by_creation(lock: Path) -> int:
    """Take the lock by creating its file; one that a dead process left behind is deleted after a while."""
    while True:
        try:
            return os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        # Windows raises PermissionError for a file that is just being removed.
        except (FileExistsError, PermissionError):
            with suppress(OSError):
                if time.time() - lock.stat().st_mtime > STALE_LOCK_S:
                    lock.unlink()
            time.sleep(LOCK_POLL_S)


def replace_file(source: Path, target: Path) -> None:
    """Replace a file or link by another atomically; raises OSError if that fails."""
    # Windows refuses while a reader or a virus scanner has the target open, so it is tried for about a
    # second.
    for seconds in () if POSIX else REPLACE_RETRIES_S:
        try:
            os.replace(source, target)
        except PermissionError:
            time.sleep(seconds)
        else:
            return
    os.replace(source, target)


def make_pointer(path: Path, target: str) -> None:
    """Make a relative link to a folder; where links need a privilege, a file with the target as its text."""
    try:
        path.symlink_to(target, target_is_directory=True)
    except (OSError, NotImplementedError):
        path.write_text(target + "\n", encoding="utf-8", newline="\n")


def replace_pointer(source: Path, target: Path) -> None:
    # Windows cannot replace a link to a folder.
    if not POSIX and target.is_symlink():
        target.unlink(missing_ok=True)
    replace_file(source, target)


def read_pointer(path: Path) -> str:
    """Return the name of the folder that a pointer leads to; empty if there is no pointer."""
    if path.is_symlink():
        return path.readlink().name
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def portable_name(name: str) -> str:
    """Return a file name that every system accepts: the name itself, if all do.

    What Windows refuses (``<>:"/\\|?*``, control characters, a last dot or space) is written like ``%3A``;
    a name that it reserves for a device, such as ``con`` or ``nul.yaml``, gets an underscore: ``con_``.
    """
    allowed = _REFUSED.sub(lambda match: f"%{ord(match[0]):02X}", name)
    return _RESERVED.sub(r"\1_", allowed, count=1) if _RESERVED.match(allowed) else allowed


def unportable_name_reason(name: str) -> str:
    """Return why some system refuses a name as part of a file name; empty if all accept it."""
    if re.search(r"[\x00-\x1f\x7f]", name):
        return "which holds a control character"
    if name.endswith((".", " ")):
        return "whose last character Windows leaves out"
    return "which Windows keeps for a device" if _RESERVED.match(name) else ""


def same_file_key(name: str) -> str:
    """Return a key that is equal for names that some system takes for one file: case, Unicode forms."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def name_or_older(folder: str, name: str, *endings: str) -> str:
    """Return ``folder/name`` with the portable name, but with the name itself if such a file already exists.

    ``endings`` are the suffixes that the file's name is used with. Slashes stay slashes.
    """
    allowed = portable_name(name)
    if allowed != name and any(os.path.exists(f"{folder}/{name}{ending}") for ending in endings or ("",)):
        return f"{folder}/{name}"
    return f"{folder}/{allowed}"


def long_path(path: str) -> str:
    """Return a path that may have more than 260 characters: on Windows an absolute one after ``\\\\?\\``."""
    if POSIX or path.startswith("\\\\?\\"):
        return path
    whole = os.path.abspath(path)
    return f"\\\\?\\UNC\\{whole[2:]}" if whole.startswith("\\\\") else f"\\\\?\\{whole}"


# Whether the system can name a file relative to an open folder; else trees are deleted by path.
BY_HANDLE = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd


def remove_tree(root: Path) -> None:
    """Delete a folder and everything in it, whatever its depth and permissions; follows no link.

    Raises nothing: what cannot be deleted is left.
    """
    if not BY_HANDLE:
        place = long_path(str(root))
        # Python 3.12 and older call ``rmtree`` recursively for each folder in a folder.
        with suppress(RecursionError):
            if sys.version_info >= (3, 12):
                shutil.rmtree(place, onexc=_permit)
            else:
                shutil.rmtree(place, onerror=_permit)
            shutil.rmtree(place, ignore_errors=True)
        return
    with suppress(OSError):
        os.chmod(root, 0o700)
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        # Inner folders are moved up to the top first, so neither the length of paths nor the number of open
        # folders grows with the depth, and nothing is recursive.
        waiting = _delete_files(top)
        number = 0
        while waiting:
            name = waiting.pop()
            try:
                folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            except OSError:
                continue
            try:
                for inner in _delete_files(folder):
                    number += 1
                    moved = f".agenteval-removed-{number}"
                    with suppress(OSError):
                        os.rename(inner, moved, src_dir_fd=folder, dst_dir_fd=top)
                        waiting.append(moved)
            finally:
                os.close(folder)
            with suppress(OSError):
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    with suppress(OSError):
        os.rmdir(root)


def _permit(function: object, path: str, error: object) -> None:
    for place in (os.path.dirname(path), path):
        with suppress(OSError):
            os.chmod(place, 0o700)


def _delete_files(folder: int) -> list[str]:
    """Delete the files of an open folder; return the names of the folders in it."""
    folders = []
    for name in os.listdir(folder):
        with suppress(OSError):
            if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                folders.append(name)
            else:
                os.unlink(name, dir_fd=folder)
    # A fixture or an agent may have made folders without write permission: these can be neither emptied nor
    # moved.
    for name in folders:
        with suppress(OSError):
            os.chmod(name, 0o700, dir_fd=folder)
    return folders


CLAIM_POLL_S = 0.05


class PresenceLock:
    """Shows that this process is working on something: a lock that many share, or that one claims alone.

    The system releases it when a process dies, so no process number has to be trusted. Forked children do not
    hold it: a child that an agent has left running does not count as work. On Windows, and on a file system
    without locks, no process ever counts as working.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        _open_locks.add(self)

    def hold(self) -> None:
        """Share the lock until this process releases it or ends."""
        self._lock(fcntl.LOCK_SH if fcntl else 0)

    def claim(self, patience_s: float) -> bool:
        """Take the lock if nobody else has it, waiting that long; False if another process still does."""
        until = time.monotonic() + patience_s
        while True:
            # One claims after the other: no other process gets in between the two locks.
            with file_lock(self._path):
                if self._lock((fcntl.LOCK_EX | fcntl.LOCK_NB) if fcntl else 0):
                    self.hold()
                    return True
            if time.monotonic() >= until:
                self.release()
                return False
            time.sleep(CLAIM_POLL_S)

    def write(self, text: str) -> None:
        """Write into the lock file, for processes that find it locked."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, text.encode())

    def read(self) -> str:
        """Return what a holder has written into the lock file; empty if there is none."""
        try:
            return self._path.read_text(encoding="utf-8")
        except OSError:
            return ""

    def release(self) -> None:
        """Release the lock, and delete its file if nobody else has it."""
        if self._file is None:
            return
        with suppress(OSError):
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_in_place(self._file):
                self._path.unlink()
        self.forget()

    def forget(self) -> None:
        """Close the file; a parent or child that has it open still holds the lock."""
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
            # The file system has no locks.
            except OSError:
                return True
            if self._is_in_place(file):
                return True
            # The last holder has deleted the file: another process may hold a new one.
            self.forget()

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
# Digits of the value's length, which stands before the value.
_LENGTH = 10


class LockedState:
    """A JSON object in a file, empty at first: ``change`` gets it as the last process has left it.

    It is for some kilobytes. If a process dies while it holds the lock, the lock is released, and the value
    is as before or as after the change: it is written in one write. Threads of one process also wait for each
    other.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        self._file: int | None = None

    def change(self, change: Callable[[dict[str, Any]], T]) -> T:
        """Let ``change`` change the value in place under the lock, and return its result.

        If it raises, the value stays as it was. Raises OSError if the file cannot be written.
        """
        with self._turn, self._held() as file:
            before = _read_text(file)
            state: dict[str, Any] = json.loads(before) if before else {}
            result = change(state)
            try:
                _write_text(file, json.dumps(state, separators=(",", ":")).encode())
            # The disk is full; there is still room for the old value.
            except OSError:
                _write_text(file, before)
                raise
            return result

    def read(self) -> dict[str, Any]:
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
        # The value's own file is locked where the kernel can do that, so that no lock file is made each time.
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
    parts, left = [], int(os.read(file, _LENGTH) or 0)
    while left > 0 and (part := os.read(file, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _write_text(file: int, text: bytes) -> None:
    # The old text may have been longer: its rest is beyond the length that is written, and is never read.
    whole = b"%0*d%b" % (_LENGTH, len(text), text)
    os.lseek(file, 0, os.SEEK_SET)
    if os.write(file, whole) < len(whole):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

"""Files that several processes write, replace, lock and point to, on any system; and deleting a tree."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # its absence is the portable case

T = TypeVar("T")

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


@contextmanager
def replacing(path: Path, replace: Callable[[Path, Path], None] = replace_file) -> Iterator[Path]:
    """Yield a path to write to; it becomes the file when all is written."""
    # In the same folder: a file is replaced in one step only within one file system. A name for each process:
    # several workers of a run may write the same file at once.
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    try:
        yield beside
        # A process that reads meanwhile sees the old file or the new one, never a half.
        replace(beside, path)
    # After an error half a file is left, which would only fill a full disk further.
    finally:
        beside.unlink(missing_ok=True)


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


def remove_tree(root: Path) -> None:
    """Delete a folder and everything in it, whatever its depth and permissions; follows no link.

    Raises nothing: what cannot be deleted is left.
    """
    top = Path(long_path(str(root)))
    if top.is_symlink():
        return
    # Inner folders are moved up to the top first, so paths stay short, and nothing is recursive: an agent may
    # have made thousands of folders in folders.
    waiting, number = _delete_files(top), 0
    while waiting:
        folder = waiting.pop()
        for inner in _delete_files(folder):
            number += 1
            with suppress(OSError):
                waiting.append(inner.rename(top / f".agenteval-removed-{number}"))
        with suppress(OSError):
            folder.rmdir()
    with suppress(OSError):
        top.rmdir()


def _delete_files(folder: Path) -> list[Path]:
    """Delete the files of a folder; return the folders in it."""
    folders = []
    with suppress(OSError):
        # A fixture or an agent may have made folders without write permission.
        folder.chmod(0o700)
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        # Else it could not be moved.
                        os.chmod(entry, 0o700)
                        folders.append(Path(entry))
                    else:
                        _delete_file(entry.path)
    return folders


def _delete_file(path: str) -> None:
    try:
        os.unlink(path)
    except PermissionError:
        # Windows refuses to delete a file that may only be read, and a link to a folder.
        if POSIX:
            raise
        os.chmod(path, 0o700)
        (os.rmdir if os.path.isdir(path) else os.unlink)(path)


class NamedFolder:
    """A new, empty folder for temporary files: of this very name, unless another process is using it.

    Prompts and recorded replies hold its path, which is right in a replay if the name is the same.
    """

    def __init__(self, name: str) -> None:
        place = Path(tempfile.gettempdir(), name)
        self._lock = _lock_folder(place) if fcntl else None
        self.path = place if self._lock is not None else Path(tempfile.mkdtemp(prefix=f"{name}-"))

    def remove(self) -> None:
        remove_tree(self.path)
        if self._lock is not None:
            os.close(self._lock)


def _lock_folder(place: Path) -> int | None:
    """Make, lock and empty a folder; None where somebody else has it, or the file system has no locks."""
    lock = None
    try:
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(lock)
        # Everybody may make a folder of this name in /tmp; and the last holder may have deleted this one.
        if found.st_uid == os.getuid() and os.path.samestat(found, os.lstat(place)):
            for folder in _delete_files(place):  # of a process that was killed
                remove_tree(folder)
            return lock
    except OSError:
        pass
    if lock is not None:
        os.close(lock)
    return None


CLAIM_POLL_S = 0.05


class PresenceLock:
    """Shows that this process is working on something: a lock that many share, or that one claims alone.

    The system releases it when a process dies, so no process number has to be trusted. Forked children do not
    hold it: a child that an agent has left running does not count as work. On Windows, and on a file system
    without locks, no process ever counts as working.
    """

    # Locks of POSIX belong to the process, and not to an open file as those of ``flock`` do. To close another
    # handle of the file would release them: a process that holds one opens the file nowhere else.

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def hold(self) -> None:
        """Share the lock until this process releases it or ends."""
        self._lock(fcntl.LOCK_SH if fcntl else 0)

    def claim(self, patience_s: float) -> bool:
        """Take the lock if nobody else has it, waiting that long; False if another process still does."""
        until = time.monotonic() + patience_s
        while not self._lock((fcntl.LOCK_EX | fcntl.LOCK_NB) if fcntl else 0):
            if time.monotonic() >= until:
                self.release()
                return False
            time.sleep(CLAIM_POLL_S)
        # This process's own workers share it. The system changes a lock in one step.
        self.hold()
        return True

    def is_held(self) -> bool:
        """Whether another process has the lock; changes nothing, so it may be called every second.

        Must not be called while this process holds it. It counts as free where this process may not write.
        """
        try:
            handle = os.open(self._path, os.O_RDWR)
        except OSError:
            return False
        try:
            # For a moment this process has it: one that starts just now waits that long, or tries again.
            if fcntl:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except (BlockingIOError, PermissionError):
            return True
        # The file system has no locks.
        except OSError:
            return False
        # The file stays: a process that waits for its lock just now would hold one that nobody sees.
        finally:
            os.close(handle)

    def write(self, text: str) -> None:
        """Write into the lock file, for processes that find it locked."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, text.encode())

    def read(self) -> str:
        """Return what a holder has written into the lock file; empty if there is none."""
        if self._file is not None:
            os.lseek(self._file, 0, os.SEEK_SET)
            return os.read(self._file, 100).decode()
        try:
            return self._path.read_text(encoding="utf-8")
        except OSError:
            return ""

    def release(self) -> None:
        """Release the lock, and delete its file if nobody else has it."""
        if self._file is not None:
            with suppress(OSError):
                if fcntl:
                    fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._path.unlink()
            os.close(self._file)
            self._file = None

    def _lock(self, kind: int) -> bool:
        if self._file is None:
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
        if fcntl:
            try:
                fcntl.lockf(self._file, kind)
            except (BlockingIOError, PermissionError):
                return False
            # The file system has no locks.
            except OSError:
                pass
        return True


class LockedState:
    """A JSON object in a file, empty at first: ``change`` gets it as the last process or thread has left it.

    It is for some kilobytes. If a process dies meanwhile, the value is as before or as after its change.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def change(self, change: Callable[[dict[str, Any]], T]) -> T:
        """Let ``change`` change the value in place under the lock, and return its result.

        If it raises, the value stays as it was. Raises OSError if the file cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(self._path):
            state = self.read()
            result = change(state)
            with replacing(self._path) as beside:
                beside.write_text(json.dumps(state, separators=(",", ":")), encoding="utf-8", newline="\n")
            return result

    def read(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return state

"""Files that several processes write, replace and point to, on systems that differ in what they allow."""

from __future__ import annotations

import os
import re
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # its absence is the portable case

POSIX = os.name == "posix"

SHORT_TEMP = "/tmp" if POSIX else None
"""A folder for temporary ones in which sockets are made: their paths have to be short; TMPDIR may be long."""

FORGOTTEN_S = 30.0
"""Seconds after which a lock that no system gives back is taken for that of a dead process."""
WAIT_S = 0.01
"""Seconds between two looks at a lock."""
PATIENCE_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Seconds between the tries to replace a file that somebody may be reading."""

APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
"""How a file that only grows is opened: without O_BINARY Windows would write ``\\r\\n``."""

_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?=\.|$)")
_REFUSED = re.compile(r'[<>:"/\\|?*\x00-\x1f]|[. ]$')


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's lock, ``.<name>.lock`` beside it, which is gone when nobody holds it."""
    lock = path.with_name(f".{path.name}.lock")
    handle = _lock_by_kernel(lock) if fcntl else _lock_by_creation(lock)
    try:
        yield
    finally:
        _release(lock, handle)


def _lock_by_kernel(lock: Path) -> int:
    """Take the lock that a dying process gives back by itself."""
    while True:
        handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.flock(handle, fcntl.LOCK_EX)
        # The holder before us removed the file: another process may hold a new one by now.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                return handle
        os.close(handle)


def _lock_by_creation(lock: Path) -> int:
    """Take the lock by being the one who makes the file; one left behind by a dead process is thrown away."""
    while True:
        try:
            return os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        except (FileExistsError, PermissionError):  # Windows refuses a file that is just being removed
            with suppress(OSError):
                if time.time() - lock.stat().st_mtime > FORGOTTEN_S:
                    lock.unlink()
            time.sleep(WAIT_S)


def _release(lock: Path, handle: int) -> None:
    """Remove the file and let go; without flock the other way round: Windows removes no open file."""
    if fcntl:
        lock.unlink(missing_ok=True)
        os.close(handle)
    else:
        os.close(handle)
        lock.unlink(missing_ok=True)


def replace_file(source: Path, target: Path) -> None:
    """Put a file or link in the place of another, at once; raises OSError where that cannot be.

    Windows refuses it while anybody has the other one open, as a reader or a virus scanner does for a moment:
    so it is tried for about a second.
    """
    for seconds in () if POSIX else PATIENCE_S:
        try:
            os.replace(source, target)
        except PermissionError:
            time.sleep(seconds)
        else:
            return
    os.replace(source, target)


def make_pointer(path: Path, target: str) -> None:
    """Make a relative link to a folder; where links are a privilege, a file with the target as its text."""
    try:
        path.symlink_to(target, target_is_directory=True)
    except (OSError, NotImplementedError):
        path.write_text(target + "\n", encoding="utf-8", newline="\n")


def replace_pointer(source: Path, target: Path) -> None:
    """Put a pointer in the place of another; Windows puts nothing in the place of a link to a folder."""
    if not POSIX and target.is_symlink():
        target.unlink(missing_ok=True)
    replace_file(source, target)


def read_pointer(path: Path) -> str:
    """Give what a pointer leads to, as a name; nothing where there is none."""
    if path.is_symlink():
        return path.readlink().name
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def portable_name(name: str) -> str:
    """Give a name that every system takes for a file: the same one, wherever all take it.

    What Windows refuses (``<>:"/\\|?*``, control characters, a last dot or space) is written as ``%3A``; a
    name that it keeps for a device, such as ``con`` or ``nul.yaml``, gets an underscore: ``con_``.
    """
    allowed = _REFUSED.sub(lambda match: f"%{ord(match[0]):02X}", name)
    return _RESERVED.sub(r"\1_", allowed, count=1) if _RESERVED.match(allowed) else allowed


def name_trouble(name: str) -> str:
    """Say why a name that becomes part of files' names is none for every system; empty where it is one."""
    if re.search(r"[\x00-\x1f\x7f]", name):
        return "which holds a control character"
    if name.endswith((".", " ")):
        return "whose last character Windows leaves out"
    return "which Windows keeps for a device" if _RESERVED.match(name) else ""


def same_file_key(name: str) -> str:
    """Give what is equal for names that some system takes for one: letters' cases, forms of Unicode."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def name_or_older(folder: str, name: str, *endings: str) -> str:
    """Give the path of a file that every system can hold; the name as it is where such a file stands there.

    ``endings`` are those that the file's name is used with. Slashes stay slashes.
    """
    allowed = portable_name(name)
    if allowed != name and any(os.path.exists(f"{folder}/{name}{ending}") for ending in endings or ("",)):
        return f"{folder}/{name}"
    return f"{folder}/{allowed}"


def long_path(path: str) -> str:
    """Give a path that may be longer than 260 characters: on Windows it needs a mark and must be absolute."""
    if POSIX or path.startswith("\\\\?\\"):
        return path
    whole = os.path.abspath(path)
    return f"\\\\?\\UNC\\{whole[2:]}" if whole.startswith("\\\\") else f"\\\\?\\{whole}"

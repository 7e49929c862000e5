"""Deleting a tree, however deep it is and whatever its folders forbid."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from contextlib import suppress
from pathlib import Path

from pytest_agenteval.processes.files import long_path

BY_HANDLE = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd
"""Whether the system can name a file by the folder that is open; else trees are deleted by path."""


def remove_tree(root: Path) -> None:
    """Delete a folder with all that is in it; what cannot be deleted is left, and nothing is raised.

    A folder within a folder is first moved up to the top: so neither the length of a path nor the number of
    open folders grows with the depth, and no function calls itself. No link is followed.
    """
    if not BY_HANDLE:
        _remove_by_path(root)
        return
    with suppress(OSError):
        os.chmod(root, 0o700)
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        _empty(top)
    finally:
        os.close(top)
    with suppress(OSError):
        os.rmdir(root)


def _remove_by_path(root: Path) -> None:
    """Delete a tree by the names of what is in it, and once more where something forbade it."""
    place = long_path(str(root))
    with suppress(RecursionError):  # Python 3.12 and older call themselves for each folder in a folder
        if sys.version_info >= (3, 12):
            shutil.rmtree(place, onexc=_permit)
        else:
            shutil.rmtree(place, onerror=_permit)
        shutil.rmtree(place, ignore_errors=True)


def _permit(function: object, path: str, error: object) -> None:
    """Let a file be deleted that may only be read, or a folder be emptied."""
    for place in (os.path.dirname(path), path):
        with suppress(OSError):
            os.chmod(place, 0o700)


def _empty(top: int) -> None:
    waiting = _clear(top)
    number = 0
    while waiting:
        name = waiting.pop()
        try:
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
        except OSError:
            continue
        try:
            for inner in _clear(folder):
                number += 1
                moved = f".agenteval-removed-{number}"
                with suppress(OSError):
                    os.rename(inner, moved, src_dir_fd=folder, dst_dir_fd=top)
                    waiting.append(moved)
        finally:
            os.close(folder)
        with suppress(OSError):
            os.rmdir(name, dir_fd=top)


def _clear(folder: int) -> list[str]:
    """Delete the files of an open folder; give the names of the folders in it."""
    folders = []
    for name in os.listdir(folder):
        with suppress(OSError):
            if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                folders.append(name)
            else:
                os.unlink(name, dir_fd=folder)
    # A fixture or an agent made folders that may not be written to: those can be neither emptied nor moved.
    for name in folders:
        with suppress(OSError):
            os.chmod(name, 0o700, dir_fd=folder)
    return folders

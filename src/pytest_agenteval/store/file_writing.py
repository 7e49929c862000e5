"""Files that only grow, one write at a time, and files that are replaced whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_agenteval.processes.files import APPEND, make_pointer, replace_file, replace_pointer
from pytest_agenteval.text.json_values import compact_json


def replace_json(path: Path, value: object) -> None:
    """Write a JSON value as a file's whole content."""
    replace_text(path, compact_json(value) + "\n")


def replace_text(path: Path, text: str) -> None:
    """Write a text as a file's whole content."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a place to write a file's whole content to; it becomes the file when all is written."""
    beside = _beside(path)
    try:
        yield beside
        # Whoever reads meanwhile sees the old file or the new one, and never a half.
        replace_file(beside, path)
    finally:  # a full disk would only be fuller
        beside.unlink(missing_ok=True)


def replace_link(path: Path, target: str) -> None:
    """Make a relative link; where links cannot be made, a file with the target as its text."""
    beside = _beside(path)
    try:
        make_pointer(beside, target)
        replace_pointer(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """Give a name next to the file that no other process uses."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    return beside


class AppendedFile:
    """A file of lines, opened when first written to; made for one writer.

    What a crash or a full disk left of a line stays alone on its line: the next write begins a new one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._torn = False

    def append(self, data: bytes) -> int:
        """Add data in one write and give the offset at which it begins.

        The offset is asked of the system afterwards, not counted: it stays right if someone else wrote too.
        """
        fd = self._open() if self._fd is None else self._fd
        if self._torn:
            os.write(fd, b"\n")
        self._torn = True
        count = os.write(fd, data)
        while count < len(data):  # the disk is nearly full: go on until it says so
            count += os.write(fd, data[count:])
        self._torn = False
        return os.lseek(fd, 0, os.SEEK_CUR) - len(data)

    def close(self) -> None:
        """Close the file if it was opened; a later write opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        fd = self._fd = os.open(self.path, APPEND, 0o644)
        end = os.lseek(fd, 0, os.SEEK_END)
        if end:
            os.lseek(fd, end - 1, os.SEEK_SET)
            self._torn = os.read(fd, 1) != b"\n"
        return fd

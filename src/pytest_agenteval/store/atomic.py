"""Files that are replaced whole: a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_agenteval.canonical import compact


def replace_json(path: Path, value: object) -> None:
    """Write a JSON value as a file's whole content."""
    replace_text(path, compact(value) + "\n")


def replace_text(path: Path, text: str) -> None:
    """Write a text as a file's whole content."""
    beside = _beside(path)
    try:
        beside.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        os.replace(beside, path)
    finally:  # a full disk would only be fuller
        beside.unlink(missing_ok=True)


def replace_link(path: Path, target: str) -> None:
    """Make a relative link; where links cannot be made, a file with the target as its text."""
    beside = _beside(path)
    try:
        beside.symlink_to(target, target_is_directory=True)
    except (OSError, NotImplementedError):
        replace_text(path, target + "\n")
    else:
        try:
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """Give a name next to the file that no other process uses."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    return beside

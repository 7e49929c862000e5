"""Files that ``agenteval init`` writes: what is there already is named and left, or added to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import UsageMistake


class NewFile(FrozenValue, frozen=True):
    """A file and its whole content; ``adds`` says that it goes on from what was there."""

    path: Path
    content: bytes
    adds: bool = False


def refuse_existing(files: Iterable[NewFile], way_out: str) -> None:
    """Raise UsageMistake that names each file which is there already and would be written over."""
    there = [short_path(file.path) for file in files if not file.adds and file.path.exists()]
    if there:
        verb = "is" if len(there) == 1 else "are"
        raise UsageMistake(f"{', '.join(there)} {verb} there already, and nothing was written; {way_out}")


def write_files(files: Sequence[NewFile]) -> None:
    """Write files, and the folders that they lie in; raises UsageMistake where one cannot be written."""
    for file in files:
        try:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            file.path.write_bytes(file.content)
        except OSError as refused:
            name = short_path(file.path)
            raise UsageMistake(f"{name}: cannot be written ({refused.strerror})") from None


def with_lines(path: Path, lines: str, mark: str) -> NewFile | None:
    """Give a file with lines added at its end; None where it holds ``mark`` already."""
    before = path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else ""
    if mark in before:
        return None
    between = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    return edited_file(path, f"{before}{between}{lines}")


def edited_file(path: Path, text: str) -> NewFile:
    """Give a file with this text, whose lines end as those do that it has."""
    before, content = path.read_bytes() if path.is_file() else b"", text.encode("utf-8", "surrogateescape")
    content = content.replace(b"\n", b"\r\n") if b"\r\n" in before else content
    return NewFile(path, content, adds=bool(before))

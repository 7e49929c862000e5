"""The knowledge base that the tools work on, and how their arguments name places in it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_agenteval import Clock, ToolFailed, Workspace
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import did_you_mean

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def parts_of(path: str) -> tuple[str, ...]:
    """Give the names that lead from the root to a path; none for the root itself.

    A path may start with ``/`` or not; ``.`` and doubled slashes mean nothing, and ``..`` goes up. Names stay
    letter by letter as they are written: no Unicode form is made of another, so a composed and a
    decomposed ``é`` are two names, as they are on the disk.

    Raises ToolFailed for what can be no path of the knowledge base.
    """
    if path.startswith("~") or "/~/" in path or path.endswith("/~"):
        raise bad_path(path, "~ means no folder here")
    if "\\" in path or re.match(r"[A-Za-z]:(?:/|$)", path):
        raise bad_path(path, "names are parted by /, and there are no drives")
    if _CONTROL.search(path):
        raise bad_path(path, "a name must not hold control characters")
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise bad_path(path, ".. leads out of the root")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def format_path(parts: tuple[str, ...]) -> str:
    return "/" + "/".join(parts)


def bad_path(path: str, why: str) -> ToolFailed:
    hint = "write it from the root, like /Areas/Bread.md"
    return ToolFailed(f"no path in the knowledge base: {path[:80]!r}: {why}; {hint}", "outside")


# Longer lines are cut when they are shown.
MAX_LINE_CHARS = 2000


def lines_of(text: str) -> list[str]:
    """Give the lines of a text without their ends; the end of the last one begins no further line."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def cut_line(line: str) -> str:
    """Cut a line that is too long to be shown, and say so."""
    more = len(line) - MAX_LINE_CHARS
    return line if more <= 0 else f"{line[:MAX_LINE_CHARS]}… ({more} more characters)"


def count_of(count: int, noun: str = "line", plural: str = "s") -> str:
    """Write a count with its noun, as in ``1 line`` or ``3 lines``."""
    return f"{count} {noun}{'' if count == 1 else plural}"


FOLDER = "PKM"

# Folders at the root of a machine: an agent that names one most likely means the real disk.
_MACHINE_FOLDERS = frozenset(
    (
        "Users", "bin", "dev", "etc", "home", "mnt", "opt", "private", "proc", "root", "sbin", "srv",
        "sys", "tmp", "usr", "var",
    )
)  # fmt: skip


class PkmPath(FrozenValue, frozen=True):
    """Something in the knowledge base, there or not: its names from the root, and where it really is."""

    parts: tuple[str, ...]
    real: Path

    def __str__(self) -> str:
        return format_path(self.parts)

    @property
    def is_folder(self) -> bool:
        return self.real.is_dir()

    def below(self, name: str) -> PkmPath:
        return PkmPath((*self.parts, name), self.real / name)


class KnowledgeBase:
    """Reads and writes the knowledge base of one trial, and remembers what was written last.

    No symbolic link is followed, wherever it leads: not to read, not to write, not in lists. The order of
    writing is remembered because the times of files say nothing: those of a fixture are the times of its
    checkout, on whichever machine.
    """

    def __init__(self, workspace: Workspace, clock: Clock) -> None:
        self.workspace, self.clock = workspace, clock
        # By the names that lead to a file, which of the trial's writes to it was the last.
        self.write_numbers: dict[tuple[str, ...], int] = {}

    def place(self, path: str) -> PkmPath:
        """Find the place that a path means; raises ToolFailed where it means none in the knowledge base."""
        parts = parts_of(path)
        here = self.root()
        # What is meant for the real disk is refused: else it would make a folder /tmp among the notes.
        is_absolute = path.startswith("/") and len(parts) > 1
        if is_absolute and parts[0] in _MACHINE_FOLDERS and not (here.real / parts[0]).is_dir():
            raise bad_path(path, "/ is the root of the knowledge base, not of the machine")
        # Name by name, because any folder on the way may be a link that leads out.
        for name in parts:
            if here.real.exists() and not here.is_folder:
                raise ToolFailed(f"{here} is a file, so nothing lies below it", "not_a_folder")
            here = here.below(name)
            with disk_errors(here, "entered"):
                if here.real.is_symlink():
                    raise ToolFailed(f"{here} is a symbolic link, which is not followed", "outside")
        return here

    def folder(self, path: str, hint: str) -> PkmPath:
        """Find a folder that is there, or the root; the hint says what to do with a file."""
        place = self.place(path)
        self.must_exist(place)
        if place.real.exists() and not place.is_folder:
            raise ToolFailed(f"{place} is a file{', ' if hint[:3] == 'and' else '; '}{hint}", "not_a_folder")
        return place

    def root(self) -> PkmPath:
        """Give the root, which may not be there yet."""
        real = self.workspace.path / FOLDER
        if real.is_symlink() or (real.exists() and not real.is_dir()):
            raise ToolFailed("the knowledge base is no folder", "outside")
        return PkmPath((), real)

    def inside(self, folder: PkmPath) -> list[PkmPath]:
        """Give what a folder holds, by name: files and folders, without hidden names and links."""
        with disk_errors(folder, "listed"):
            names = sorted(os.listdir(folder.real)) if folder.is_folder else []
            places = [folder.below(name) for name in names if not name.startswith(".")]
            # lstat: of the place itself, not of what it may be a link to.
            modes = [place.real.lstat().st_mode for place in places]
        return [p for p, mode in zip(places, modes, strict=True) if stat.S_ISREG(mode) or stat.S_ISDIR(mode)]

    def files(self, top: PkmPath) -> list[PkmPath]:
        """Give a file itself, or all files below a folder, by path; see ``inside``."""
        if not top.is_folder:
            return [top] if top.real.exists() else []
        files: list[PkmPath] = []
        waiting = [top]
        while waiting:
            for place in self.inside(waiting.pop()):
                (waiting if place.is_folder else files).append(place)
        return sorted(files, key=lambda place: place.parts)

    def text(self, place: PkmPath) -> str:
        """Read a file; raises ToolFailed where there is none, or none with text."""
        self.must_exist(place)
        if place.is_folder or not place.parts:
            raise ToolFailed(f"{place} is a folder; LS lists it", "is_a_folder")
        with disk_errors(place, "read"):
            content = place.real.read_bytes()
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolFailed(f"{place} is not text (UTF-8), and stays as it is", "not_text") from None

    def save(self, place: PkmPath, text: str) -> None:
        """Write a file, with the folders it lies in; its line ends stay as they are."""
        with disk_errors(place, "written"):
            place.real.parent.mkdir(parents=True, exist_ok=True)
            # Bytes, because writing text would turn the line ends into those of the machine.
            place.real.write_bytes(text.encode("utf-8"))
        self.write_numbers[place.parts] = max(self.write_numbers.values(), default=0) + 1

    def must_exist(self, place: PkmPath) -> None:
        """Raise ToolFailed where there is nothing at a place; the root need not be there yet."""
        if place.parts and not place.real.exists():
            folder = PkmPath(place.parts[:-1], place.real.parent)
            hint = did_you_mean(place.parts[-1], [other.parts[-1] for other in self.inside(folder)])
            raise ToolFailed("; ".join(filter(None, (f"there is no {place}", hint))), "not_found")


@contextmanager
def disk_errors(place: PkmPath, done: str) -> Iterator[None]:
    """Turn the disk's errors into the tool's, which name no real path."""
    try:
        yield
    except OSError as failed:
        why = failed.strerror or type(failed).__name__
        raise ToolFailed(f"{place} could not be {done}: {why}", "disk") from failed

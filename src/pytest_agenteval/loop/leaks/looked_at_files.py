"""The files whose texts are looked at: as they are now, and as they were at a commit."""

from __future__ import annotations

import codecs
import glob
import os
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.workspace.globs import matches
from pytest_agenteval.text.errors import UsageMistake

MOVED_SHARE = 0.5
"""The share of a file's lines that stand in a new file, from which on it has moved there."""


class OldFiles(FrozenValue, frozen=True):
    """Files as they were: the commit that was looked at, or nothing where there is none, and their texts."""

    commit: str
    texts: Mapping[str, str]


def files_of(globs: Iterable[str]) -> dict[str, str]:
    """Give the texts of the files that globs name, from the current folder, by their paths.

    Raises UsageMistake for a glob that names none, and for a file that cannot be read.
    """
    texts: dict[str, str] = {}
    for pattern in globs:
        named = [path for path in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(path)]
        if not named:
            raise UsageMistake(f"{pattern}: {_what_is_wrong(pattern)}")
        for path in named:
            texts[short_path(Path(os.path.abspath(path)))] = _read(Path(path))
    return texts


def old_files(globs: Sequence[str], new: Mapping[str, str], since: str | None, suites: Path) -> OldFiles:
    """Give the files that the globs named at a commit, and those that have since moved to where they name.

    ``since`` is HEAD where it is None. Without git, and before the first commit, nothing is old. Raises
    UsageMistake for a commit that there is not. What lay below the suites was no prompt.
    """
    top = _git(["rev-parse", "--show-toplevel"], Path.cwd())
    commit = _commit(since or "HEAD") if top else ""
    if since and not commit:
        raise UsageMistake(
            f"--since {since}: {'no such commit' if top else 'there is no git repository here'}"
        )
    if not top or not commit:
        return OldFiles("", {})
    root = Path(top.decode("utf-8", "surrogateescape").rstrip("\n"))
    named = _git(["ls-tree", "-r", "-z", "--full-tree", "--name-only", commit], root) or b""
    names = [name.decode("utf-8", "surrogateescape") for name in named.split(b"\0") if name]
    patterns = [os.path.relpath(os.path.abspath(pattern), root) for pattern in globs]
    known = [name for name in names if any(matches(pattern, name) for pattern in patterns)]
    below = os.path.abspath(suites if suites.is_dir() else suites.parent)
    gone = [
        name
        for name in set(names).difference(known)
        if not os.path.lexists(root / name) and not (root / name).is_relative_to(below)
    ]
    moved = {name: text for name, text in _contents(root, commit, gone) if _has_moved(text, new.values())}
    return OldFiles(commit, {**dict(_contents(root, commit, known)), **moved})


def _what_is_wrong(pattern: str) -> str:
    if os.path.isdir(pattern):
        return f"a folder; for the files below it write {os.path.join(pattern, '**')!r}"
    return f"no file there; write a glob from {Path.cwd()}, in quotes"


def _read(path: Path) -> str:
    try:
        return _decoded(path.read_bytes())
    except OSError as refused:
        raise UsageMistake(f"{path}: cannot be read ({refused.strerror})") from None


def _decoded(data: bytes) -> str:
    """Read UTF-8, or UTF-16 where the first bytes say so."""
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")


def _commit(rev: str) -> str:
    asked = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}"]
    return (_git(asked, Path.cwd()) or b"").decode().strip()


def _has_moved(text: str, new: Collection[str]) -> bool:
    lines = {line.strip() for line in text.splitlines()} - {""}
    return any(
        len(lines.intersection(line.strip() for line in each.splitlines())) >= MOVED_SHARE * len(lines) > 0
        for each in new
    )


def _contents(root: Path, commit: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Give the texts of files at a commit; links and what is no file are left out."""
    if not names:
        return
    asked = "".join(f"{commit}:{name}\n" for name in names if "\n" not in name)
    answer = _git(["cat-file", "--batch"], root, asked.encode("utf-8", "surrogateescape")) or b""
    place = 0
    for name in (name for name in names if "\n" not in name):
        head, _, _ = answer[place : place + 4096].partition(b"\n")
        place += len(head) + 1
        if head.split(b" ")[1:2] == [b"blob"]:
            size = int(head.rpartition(b" ")[2])
            yield name, _decoded(answer[place : place + size])
            place += size + 1


def _git(arguments: Sequence[str], folder: Path, given: bytes = b"") -> bytes | None:
    """Ask git; None where there is no git, or it refuses."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, input=given, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None

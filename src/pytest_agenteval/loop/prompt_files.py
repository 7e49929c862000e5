"""The prompt files that globs name, as they are and as they were at a commit."""

from __future__ import annotations

import codecs
import glob
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.globs import matches
from pytest_agenteval.text.errors import UsageMistake

# If a new file holds this share of a file's lines, the file has moved there.
MOVED_SHARE = 0.5


class FilesAtCommit(FrozenValue, frozen=True):
    """Files as they were: the commit that was looked at, or nothing where there is none, and their texts."""

    commit: str
    texts: Mapping[str, str]


def read_files(globs: Iterable[str]) -> dict[str, str]:
    """Give the texts of the files that globs name, from the current folder, by their paths.

    Raises UsageMistake for a glob that names none, and for a file that cannot be read.
    """
    texts: dict[str, str] = {}
    for pattern in globs:
        named = [path for path in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(path)]
        if not named:
            why = f"no file there; write a glob from {Path.cwd()}, in quotes"
            if os.path.isdir(pattern):
                why = f"a folder; for the files below it write {os.path.join(pattern, '**')!r}"
            raise UsageMistake(f"{pattern}: {why}")
        for path in map(Path, named):
            try:
                texts[short_path(Path(os.path.abspath(path)))] = _decoded(path.read_bytes())
            except OSError as refused:
                raise UsageMistake(f"{path}: cannot be read ({refused.strerror})") from None
    return texts


def files_at_commit(
    globs: Sequence[str], new: Mapping[str, str], since: str | None, suites: Iterable[Path]
) -> FilesAtCommit:
    """Give the files that the globs named at a commit, and those that have since moved to where they name.

    ``since`` is HEAD where it is None. Without git, and before the first commit, nothing is old. Raises
    UsageMistake for a commit that there is not. What lay in the folders of ``suites`` was no prompt.
    """
    top = _git(["rev-parse", "--show-toplevel"], Path.cwd())
    rev = since or "HEAD"
    arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}"]
    commit = (_git(arguments, Path.cwd()) or b"").decode().strip() if top else ""
    if since and not commit:
        why = "no such commit" if top else "there is no git repository here"
        raise UsageMistake(f"--since {since}: {why}")
    if not top or not commit:
        return FilesAtCommit("", {})
    root = Path(top.decode("utf-8", "surrogateescape").rstrip("\n"))
    named = _git(["ls-tree", "-r", "-z", "--full-tree", "--name-only", commit], root) or b""
    names = [name.decode("utf-8", "surrogateescape") for name in named.split(b"\0") if name]
    # git names files from the top of the repository.
    patterns = [os.path.relpath(os.path.abspath(pattern), root) for pattern in globs]
    known = [name for name in names if any(matches(pattern, name) for pattern in patterns)]
    folders = {os.path.abspath(place if place.is_dir() else place.parent) for place in suites}
    # A prompt may have been renamed since. What lay below the suites was a task and no prompt.
    gone = [
        name
        for name in set(names).difference(known)
        if not os.path.lexists(root / name) and folders.isdisjoint(map(str, (root / name).parents))
    ]
    texts = dict(_texts_at_commit(root, commit, known))
    new_lines = [{line.strip() for line in text.splitlines()} for text in new.values()]
    for name, text in _texts_at_commit(root, commit, gone):
        lines = {line.strip() for line in text.splitlines()} - {""}
        # A file without lines has moved nowhere.
        if any(len(lines & each) >= MOVED_SHARE * len(lines) > 0 for each in new_lines):
            texts[name] = text
    return FilesAtCommit(commit, texts)


def _decoded(data: bytes) -> str:
    """Read UTF-8, or UTF-16 where the first bytes say so."""
    # Some editors write UTF-16; read byte by byte it would hide every text.
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")


def _texts_at_commit(root: Path, commit: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Give the texts of files at a commit; links and what is no file are left out."""
    if not names:
        return
    # A name with a line end in it cannot be requested in this protocol of git.
    objects = "".join(f"{commit}:{name}\n" for name in names if "\n" not in name)
    answer = _git(["cat-file", "--batch"], root, objects.encode("utf-8", "surrogateescape")) or b""
    place = 0
    for name in (name for name in names if "\n" not in name):
        head, _, _ = answer[place : place + 4096].partition(b"\n")
        place += len(head) + 1
        # For what is no file git names another type, or says that it is missing.
        if head.split(b" ")[1:2] == [b"blob"]:
            size = int(head.rpartition(b" ")[2])
            yield name, _decoded(answer[place : place + size])
            place += size + 1


def _git(arguments: Sequence[str], folder: Path, given: bytes = b"") -> bytes | None:
    """Run git; None where there is no git, or it refuses."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, input=given, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None

"""The prompt files that globs name, as they are and as they were at a commit."""

from __future__ import annotations

import codecs
import glob
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.globs import matches
from pytest_agenteval.text.errors import UsageMistake


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


def files_at_commit(globs: Sequence[str], since: str | None, suites: Iterable[Path]) -> FilesAtCommit:
    """Give the files that globs named at a commit, and those that are gone since, and may have moved there.

    ``since`` is HEAD where it is None. Without git, and before the first commit, nothing is old. Raises
    UsageMistake for a commit that there is not. What lay in the folders of ``suites`` was no prompt.
    """
    top = _git(["rev-parse", "--show-toplevel"], Path.cwd())
    arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{since or 'HEAD'}^{{commit}}"]
    commit = (_git(arguments, Path.cwd()) or b"").decode().strip() if top else ""
    if since and not commit:
        why = "no such commit" if top else "there is no git repository here"
        raise UsageMistake(f"--since {since}: {why}")
    if not top or not commit:
        return FilesAtCommit("", {})
    root = Path(os.fsdecode(top).rstrip("\n"))
    listed = _git(["ls-tree", "-r", "-z", "--full-tree", "--name-only", commit], root) or b""
    names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    # git names files from the top of the repository.
    patterns = [os.path.relpath(os.path.abspath(pattern), root) for pattern in globs]
    folders = {os.path.abspath(place if place.is_dir() else place.parent) for place in suites}
    suffixes = tuple(os.path.splitext(pattern)[1] for pattern in globs)
    gone = (name for name in names if name.endswith(suffixes) and not os.path.lexists(root / name))
    known = [name for name in names if any(matches(pattern, name) for pattern in patterns)]
    known += [name for name in gone if folders.isdisjoint(map(str, (root / name).parents))]
    # None for what is no file, such as a repository inside.
    blobs = {name: _git(["cat-file", "blob", f"{commit}:{name}"], root) for name in known}
    texts = {name: _decoded(blob) for name, blob in blobs.items() if blob is not None}
    return FilesAtCommit(commit, texts)


def _decoded(data: bytes) -> str:
    """Read UTF-8, or UTF-16 where the first bytes say so."""
    # Some editors write UTF-16; read byte by byte it would hide every text.
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")


def _git(arguments: Sequence[str], folder: Path) -> bytes | None:
    """Run git; None where there is no git, or it refuses."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None

"""The prompt files that globs name, as they are and as they were at a commit."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_agenteval.loop.improve.repository import GitFailed, Repository
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
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError as refused:
                raise UsageMistake(f"{path}: cannot be read ({refused.strerror})") from None
            texts[short_path(Path(os.path.abspath(path)))] = text
    return texts


def files_at_commit(globs: Sequence[str], since: str | None, suites: Iterable[Path]) -> FilesAtCommit:
    """Give the files that globs named at a commit, and those that are gone since, and may have moved there.

    ``since`` is HEAD where it is None. Without git, and before the first commit, nothing is old. Raises
    UsageMistake for a commit that there is not. What lay in the folders of ``suites`` was no prompt.
    """
    try:
        repository = Repository.around(Path.cwd())
        commit = repository.commit_of(since or "HEAD")
    except (GitFailed, UsageMistake) as missing:
        if since:
            why = "no such commit" if isinstance(missing, GitFailed) else "there is no git repository here"
            raise UsageMistake(f"--since {since}: {why}") from None
        return FilesAtCommit("", {})
    root, names = repository.root, repository.files(commit)
    # git names files from the top of the repository.
    patterns = [os.path.relpath(os.path.abspath(pattern), root) for pattern in globs]
    folders = {os.path.abspath(place if place.is_dir() else place.parent) for place in suites}
    suffixes = tuple(os.path.splitext(pattern)[1] for pattern in globs)
    gone = (name for name in names if name.endswith(suffixes) and not os.path.lexists(root / name))
    known = [name for name in names if any(matches(pattern, name) for pattern in patterns)]
    known += [name for name in gone if folders.isdisjoint(map(str, (root / name).parents))]
    texts: dict[str, str] = {}
    for name in known:
        # A repository inside is no file.
        with suppress(GitFailed):
            texts |= repository.texts(commit, [name])
    return FilesAtCommit(commit, texts)

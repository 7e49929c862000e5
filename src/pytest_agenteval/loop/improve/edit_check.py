"""What a coding agent left behind: which prompts it changed, and what it touched that is not its to touch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pytest_agenteval.loop.improve.repository import NO_FILE, REGULAR, ChangedFile, Repository
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.formatting import one_line, pluralize

MOST_NAMES = 4
MOST_NAME = 200
MOST_BYTES = 1_000_000
"""A prompt that is larger is none."""

WATCHED = ("config", "config.worktree", "hooks", "info", "objects/info")
"""What in a repository makes git run programs, overlook files or look elsewhere."""


class RepositoryState(FrozenValue, frozen=True):
    """What a repository looked like before a coding agent worked in a tree of it."""

    start: str
    tree: Path
    tree_dir: Path
    refs: Mapping[str, str]
    settings: Mapping[str, str]


class Edit(FrozenValue, frozen=True):
    """The prompt files that were changed; ``refusal`` says why the change counts for nothing, if it does."""

    files: tuple[str, ...]
    refusal: str = ""


def pathspecs_of(globs: Sequence[str], folder: str) -> list[str]:
    """Give globs, which are meant from a folder below the top, as git's own; ``**`` is any depth."""
    return [
        f":(top,glob){os.path.normpath(os.path.join(folder, glob)).replace(os.sep, '/')}" for glob in globs
    ]


def repository_state(repository: Repository, start: str, tree: Path, tree_dir: Path) -> RepositoryState:
    """Note what must be the same after a coding agent has worked in ``tree``, which is at ``start``."""
    return RepositoryState(start, tree, tree_dir, repository.refs(), _settings(repository, tree, tree_dir))


def check_edit(repository: Repository, before: RepositoryState, pathspecs: Sequence[str]) -> Edit:
    """Say which prompt files were changed, or why the round is refused.

    What git is told about the repository comes first: until that is sure, git is asked nothing else.
    """
    settings = _settings(repository, before.tree, before.tree_dir)
    names = {**before.settings, **settings}
    if tampered := [name for name in names if settings.get(name) != before.settings.get(name)]:
        return Edit((), f"git's own files were changed, look at them: {_listed(tampered)}")
    if committed := _commits(repository, before):
        return Edit((), committed)
    changes = repository.changes(before.start, before.tree, pathspecs)
    if outside := [change.path for change in changes if not change.matching]:
        return Edit((), f"{pluralize(len(outside), 'file')} outside the prompts changed: {_listed(outside)}")
    if odd := [reason for change in changes if (reason := _oddity(change, before.tree))]:
        return Edit((), _listed(odd))
    return Edit(tuple(change.path for change in changes))


def _commits(repository: Repository, before: RepositoryState) -> str:
    """Say that commits were made, and put back the branches that they were made on; nothing without any.

    Whoever's history holds the start was made by the agent: the start is a commit that nobody else knows.
    """
    head = (before.tree_dir / "HEAD").read_text(encoding="utf-8").strip()
    moved = repository.refs_on(before.start)
    for ref in moved:
        repository.put_back(ref, before.refs.get(ref))
    if moved:
        return f"it made commits or branches of its own, which were taken back: {_listed(moved)}"
    return "" if head == before.start else "it made a commit of its own: changes are to be left uncommitted"


def _settings(repository: Repository, tree: Path, tree_dir: Path) -> dict[str, str]:
    """Give a digest of each file that git obeys, by its path."""
    common = [path for name in WATCHED for path in _files(repository.common_dir / name)]
    own = [tree_dir / name for name in ("gitdir", "commondir", "config.worktree")]
    return {
        str(path): _digest(path)
        for path in (*common, *own, tree / ".git")
        if path.is_file() or path.is_symlink()
    }


def _files(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir():
        yield from (Path(place, name) for place, _, files in os.walk(path) for name in files)


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    return f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _oddity(change: ChangedFile, tree: Path) -> str:
    """Say why a changed file among the prompts is no changed prompt; nothing where it is one."""
    name = one_line(change.path, MOST_NAME)
    if change.new_mode == NO_FILE:
        return ""
    if change.new_mode not in (change.old_mode, REGULAR):
        kinds = {"120000": "a link", "160000": "a repository or folder", "100755": "a file to be run"}
        return f"{name} was made {kinds.get(change.new_mode, change.new_mode)}"
    if change.new_mode != change.old_mode != NO_FILE:
        return f"{name} was made another kind of file"
    path = tree / change.path
    if change.new_mode == "120000":
        return f"{name} is a link, and leads elsewhere now"
    if path.stat().st_size > MOST_BYTES:
        return f"{name} is larger than {MOST_BYTES:,} bytes"
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return f"{name} is no text in UTF-8"
    return ""


def _listed(names: Sequence[str]) -> str:
    lines = [one_line(name, MOST_NAME) for name in names[:MOST_NAMES]]
    left = len(names) - MOST_NAMES
    return ", ".join([*lines, *([f"and {left} more"] if left > 0 else [])])

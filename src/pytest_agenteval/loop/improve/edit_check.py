"""What a coding agent left behind: which prompts it changed, and what it touched that is not its to touch."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_agenteval.loop.improve.paired_runs import CONFIGURATION
from pytest_agenteval.loop.improve.repository import (
    NO_FILE,
    REGULAR,
    STASH,
    ChangedFile,
    Repository,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.formatting import one_line, pluralize

MOST_NAMES = 4
MOST_NAME = 200
MOST_BYTES = 1_000_000
"""A prompt that is larger is none."""

WATCHED = (
    *("config", "config.worktree", "hooks", "info/attributes", "info/exclude", "info/grafts"),
    *("info/sparse-checkout", "objects/info/alternates", "objects/info/http-alternates"),
)
"""What in a repository makes git run programs, overlook files or look elsewhere.

Not what git's own tidying writes beside that, which may come at any time.
"""

REPLACEMENTS = "refs/replace/"
OWN_NAMES = ("refs/heads/", "refs/tags/", STASH)
"""How names begin that only whoever works in the repository moves; others move with each fetch."""


class RepositoryState(FrozenValue, frozen=True):
    """What a repository looked like before a coding agent worked in a tree of it."""

    start: str
    tree: Path
    tree_dir: Path
    refs: Mapping[str, str]
    config_files: tuple[Path, ...]
    settings: Mapping[str, str]


class Edit(FrozenValue, frozen=True):
    """The prompt files that were changed; ``refusal`` says why the change counts for nothing, if it does."""

    files: tuple[str, ...]
    refusal: str = ""


def pathspecs_of(globs: Sequence[str], folder: str) -> list[str]:
    """Give globs, which are meant from a folder below the top, as git's own; ``**`` is any depth."""
    place = re.sub(r"([*?\[\\])", r"\\\1", folder)
    paths = [posixpath.join(place, glob.replace(os.sep, "/")) for glob in globs]
    return [f":(top,glob){posixpath.normpath(path)}" for path in paths]


def repository_state(repository: Repository, start: str, tree: Path, tree_dir: Path) -> RepositoryState:
    """Note what must be the same after a coding agent has worked in ``tree``, which is at ``start``."""
    config_files = (*repository.config_files(), *_pytest_files(tree))
    settings = _settings(repository, tree, tree_dir, config_files)
    return RepositoryState(start, tree, tree_dir, repository.refs(), config_files, settings)


def check_edit(repository: Repository, before: RepositoryState, pathspecs: Sequence[str]) -> Edit:
    """Say which prompt files were changed, or why the round is refused.

    What git is told about the repository comes first: until that is sure, git is asked nothing else.
    """
    settings = _settings(repository, before.tree, before.tree_dir, before.config_files)
    names = {**before.settings, **settings}
    if tampered := [name for name in names if settings.get(name) != before.settings.get(name)]:
        return Edit((), f"files that git or pytest obeys were changed, look at them: {_listed(tampered)}")
    if named := _commits(repository, before) or _lost_names(repository, before):
        return Edit((), named)
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
    head = _first_line(before.tree_dir / "HEAD")
    if not head:
        _put_head_back(before)
    replaced = [name for name in _moved(repository, before) if name.startswith(REPLACEMENTS)]
    moved = [*repository.refs_on(before.start), *replaced]
    for ref in moved:
        repository.put_back(ref, before.refs.get(ref))
    if moved:
        return f"it made commits or branches of its own, which were taken back: {_listed(moved)}"
    if not head:
        return "git no longer knows what its tree is a tree of"
    return "" if head == before.start else "it made a commit of its own: changes are to be left uncommitted"


def _put_head_back(before: RepositoryState) -> None:
    """Let git know again what the tree is one of: it reads this of every tree, and would wait for a pipe."""
    head = before.tree_dir / "HEAD"
    with suppress(OSError):
        head.unlink(missing_ok=True)
        head.write_text(f"{before.start}\n", encoding="utf-8", newline="\n")


def _moved(repository: Repository, before: RepositoryState) -> list[str]:
    now = repository.refs()
    return [name for name in {**before.refs, **now} if now.get(name) != before.refs.get(name)]


def _lost_names(repository: Repository, before: RepositoryState) -> str:
    """Say which branches, tags and stashes lead nowhere any more, or elsewhere; nothing where all are there.

    They are not put back: the user may have done it himself meanwhile.
    """
    now = repository.refs()
    lost = [
        f"{name} (was {before.refs[name]})"
        for name in _moved(repository, before)
        if name.startswith(OWN_NAMES)
        and name in before.refs
        and repository.is_lost(name, before.refs[name], now.get(name))
    ]
    return f"while it worked, names were taken away or led elsewhere: {_listed(lost)}" if lost else ""


def _pytest_files(tree: Path) -> list[Path]:
    """Give the files above a tree, there or not, from which a pytest in it would be told how to run."""
    return [place / name for place in tree.parents for name in (*CONFIGURATION, "conftest.py")]


def _first_line(path: Path) -> str:
    """Give what a file begins with; nothing where it is none."""
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else ""


def _settings(
    repository: Repository, tree: Path, tree_dir: Path, config_files: Sequence[Path]
) -> dict[str, str]:
    """Give a digest of each file that git and pytest obey, by its path."""
    common = [path for name in WATCHED for path in _files(repository.common_dir / name)]
    own = [tree_dir / name for name in ("gitdir", "commondir", "config.worktree")]
    return {
        str(path): _digest(path)
        for path in (*common, *own, *config_files, tree / ".git")
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
    if not stat.S_ISREG(path.lstat().st_mode):  # git takes a pipe for a file, and reading it would wait
        return f"{name} is no file"
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

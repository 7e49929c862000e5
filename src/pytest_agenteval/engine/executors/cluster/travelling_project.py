"""The project as it travels to other machines: the files below pytest's rootdir that are its author's."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from pytest_agenteval.engine.executors.executor import ExecutorBroken

LEFT_HOME = frozenset({".git", ".hg", ".agenteval", "__pycache__", "node_modules", ".tox", ".nox", ".eggs"})
"""Folders that never travel, beside caches (``.*_cache``) and virtual environments."""

MOST_BYTES = 512 * 1024 * 1024
"""Of all files together: more is hardly meant to be sent, and every actor holds it once."""

MOST_NAMED = 3


def pack_project(root: Path) -> bytes:
    """Give the project as a compressed archive; raises ExecutorBroken for one that is too large to travel.

    In a git repository what git ignores stays at home. A link that leads out of the project travels as what
    it leads to.
    """
    files = {name: path for path in _files(root) for name, path in _followed(path, root)}
    _check_size(root, files)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as packed:
        for name, path in files.items():
            with suppress(FileNotFoundError):  # gone since it was listed: another run's, say
                packed.add(
                    path, name.as_posix(), recursive=False, filter=partial(_leading_within, path, root)
                )
    return archive.getvalue()


def unpack_project(archive: bytes, folder: Path) -> None:
    """Write the project of an archive into a folder, with the times of its files."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
        packed.extractall(folder, filter="tar")


def _files(root: Path) -> Iterator[Path]:
    known = _known_to_git(root)
    if known is not None:
        yield from known
        return
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if _travels(here / name))
        yield from (here / name for name in sorted(names))
        # A link to a folder is not walked into, and an empty folder may be a workspace.
        yield from (here / name for name in folders if (here / name).is_symlink())
        if not folders and not names and here != root:
            yield here


def _known_to_git(root: Path) -> list[Path] | None:
    """List what git does not ignore; None where there is no repository, or no git."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    names = dict.fromkeys(os.fsdecode(listed).split("\0"))
    paths = (root / name for name in names if name)
    there = [path for path in paths if os.path.lexists(path)]
    # A repository within it, which git lists as a folder, has files of its own.
    inner = [path for path in there if path.is_dir() and not path.is_symlink()]
    files = [path for path in there if path not in inner and _all_travel(path, root)]
    return files + [file for folder in inner for file in _files(folder)]


def _all_travel(path: Path, root: Path) -> bool:
    return not LEFT_HOME.intersection(path.relative_to(root).parts[:-1])


def _travels(folder: Path) -> bool:
    name = folder.name
    is_cache = name.startswith(".") and name.endswith("_cache")
    return not (name in LEFT_HOME or is_cache or (folder / "pyvenv.cfg").is_file())


def _followed(path: Path, root: Path) -> Iterator[tuple[Path, Path]]:
    """Give what is packed for a path, by its name: of a link out of the project, all that it leads to."""
    name = path.relative_to(root)
    if not path.is_symlink() or path.resolve().is_relative_to(root.resolve()):
        yield name, path
        return
    yield name, (real := path.resolve())
    if real.is_dir():
        yield from ((name / inner.relative_to(real), inner) for inner in _files(real))


def _leading_within(path: Path, root: Path, member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Have a link within the project lead to the copy, however it is written."""
    if member.issym() and os.path.isabs(member.linkname) and path.resolve().is_relative_to(root.resolve()):
        member.linkname = os.path.relpath(path.resolve(), path.parent.resolve())
    return member


def _check_size(root: Path, files: Mapping[Path, Path]) -> None:
    sizes: Counter[str] = Counter()
    for name, path in files.items():
        with suppress(OSError):
            sizes[name.parts[0]] += path.lstat().st_size
    if (whole := sum(sizes.values())) <= MOST_BYTES:
        return
    largest = ", ".join(f"{name} ({_mb(size)})" for name, size in sizes.most_common(MOST_NAMED))
    raise ExecutorBroken(
        f"{root}: expected a project of at most {_mb(MOST_BYTES)}, for it travels to the cluster; "
        f"found {_mb(whole)}: {largest}. What .gitignore names stays at home"
    )


def _mb(size: int) -> str:
    return f"{size / 1024 / 1024:.0f} MiB"

"""Looking at a tree: every file's text, bounded, with the digest of the whole content."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pytest_agenteval.canonical import DIGEST_CHARS
from pytest_agenteval.records.bounds import MOST_DEEP
from pytest_agenteval.records.evidence import FileText, Tree

MOST_BYTES = 256 * 1024
"""A file larger than this is kept by digest only."""

MOST_TEXT = 64 * 1024 * 1024
"""So many bytes of new or changed text are kept of one tree; further files by digest only."""

MOST_NEW = 20_000
"""So many files that were not there before are looked at."""

MORE = "…"
"""The entry that stands for all files beyond ``MOST_NEW``."""

EMPTY = Tree()


def snapshot(root: Path, earlier: Tree = EMPTY) -> Tree:
    """Read a tree; a file equal to one of ``known`` shares its text. Links are not followed.

    Files of ``known`` are looked at wherever they are, of others so many as a trial can hold: what is left
    out is never taken for deleted, and an entry says that it is there.
    """
    files: dict[str, FileText] = {}
    new, texts = 0, 0
    for path, folder in _paths(root):
        if path not in earlier.files:
            new += 1
            if new > MOST_NEW:
                files[MORE] = FileText(_digest(b""), 0, None, "too many")
                break
        if folder:
            files[path] = FileText(_digest(b""), 0, None, "too deep")
            continue
        files[path] = file = _read_file(root / path, earlier.files.get(path), MOST_TEXT - texts)
        texts += file.size if file.text is not None and file is not earlier.files.get(path) else 0
    else:
        return Tree(dict(sorted(files.items()))) if files else EMPTY
    # Reached only where the walk stopped at MOST_NEW: files it did not come to would count as deleted.
    for path in earlier.files.keys() - files.keys():
        through_link = any(os.path.islink(root / folder) for folder in _folders_above(path))
        if os.path.lexists(root / path) and not through_link:
            files[path] = _read_file(root / path, earlier.files[path], 0)
    return Tree(dict(sorted(files.items())))


def snapshot_layers(layers: Sequence[Path]) -> Tree:
    """Give the tree that layers make together, read once per process."""
    if not layers:
        return EMPTY
    return _merged_layers(tuple(layers))


def with_texts(tree: Tree, texts: Mapping[str, str]) -> Tree:
    """Give a tree with these texts in it, whatever stood at their paths."""
    if not texts:
        return tree
    raw = {path: text.encode("utf-8", "replace") for path, text in texts.items()}
    laid = {path: FileText(_digest(data), len(data), data.decode()) for path, data in raw.items()}
    return Tree(dict(sorted({**tree.files, **laid}.items())))


# Kept: all trials of a task, and all tasks of one base fixture, start from the same texts.
@lru_cache(maxsize=4096)
def _merged_layers(layers: tuple[Path, ...]) -> Tree:
    if len(layers) == 1:
        return snapshot(layers[0])
    below, above = _merged_layers(layers[:-1]), _merged_layers(layers[-1:])
    folders = {folder for path in above for folder in _folders_above(path)}
    files = {path: file for path, file in below.files.items() if path not in folders}
    files = {
        path: file
        for path, file in files.items()
        if not any(folder in above for folder in _folders_above(path))
    }
    return Tree(dict(sorted({**files, **above.files}.items())))


def _folders_above(path: str) -> Iterator[str]:
    """Give the folders that a path lies in."""
    cut = path.rfind("/")
    while cut > 0:
        yield path[:cut]
        cut = path.rfind("/", 0, cut)


def _paths(root: Path) -> Iterator[tuple[str, bool]]:
    """Give the path of every file, by name within each folder, and of folders too deep to be looked into."""
    waiting = [""]
    while waiting:
        above = waiting.pop()
        folders = []
        for name, is_folder in _inside(root / above):
            path = f"{above}/{name}" if above else name
            if not is_folder:
                yield path, False
            elif path.count("/") >= MOST_DEEP:
                yield path, True
            else:
                folders.append(path)
        waiting.extend(reversed(folders))


def _inside(folder: Path) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError:  # a folder that may not be read
        return []


def _read_file(path: Path, earlier: FileText | None, room: int) -> FileText:
    """Look at a file; a text that is new is kept while there is room for so many bytes."""
    if path.is_symlink():
        target = os.readlink(path).encode("utf-8", "surrogateescape")
        return FileText(_digest(target), len(target), None, "link")
    try:
        size = _size(path)
        if size > MOST_BYTES:
            return FileText(_digest_of(path), size, None, "too large")
        content = path.read_bytes()
    except OSError:  # a pipe, a socket, a file that may not be read: it is there, and that is all
        return FileText(_digest(b""), 0, None, "binary")
    digest = _digest(content)
    if earlier is not None and earlier.digest == digest:
        return earlier
    if len(content) > room:
        return FileText(digest, len(content), None, "too large")
    try:
        return FileText(digest, len(content), content.decode("utf-8"))
    except UnicodeDecodeError:
        return FileText(digest, len(content), None, "binary")


def _size(path: Path) -> int:
    """Give the size of a file; raises OSError for what is none: reading a pipe would wait for ever."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"no file: {path}")
    return status.st_size


def _digest_of(path: Path) -> str:
    """Give the digest of a file that is too large to be read at once."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:DIGEST_CHARS]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGEST_CHARS]

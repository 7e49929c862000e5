"""The tree of files that an agent works in, and snapshots of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pytest_agenteval.processes.files import NamedFolder, remove_tree
from pytest_agenteval.records.evidence import FileText, Tree, Why
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.truncation import MOST_DEEP
from pytest_agenteval.text.errors import FixtureBroken
from pytest_agenteval.text.json_values import DIGEST_CHARS

# Of a larger file only the digest is recorded.
MOST_BYTES = 256 * 1024

# The digest of a larger file covers only its size, its beginning and its end.
MOST_HASHED = 64 * 1024 * 1024

# How much is read at either end of a file that is too large to be hashed in full.
END_BYTES = 64 * 1024

# How many bytes of new or changed text are recorded of one tree; of further files only the digest.
MOST_TEXT = 64 * 1024 * 1024

# How many new files are looked at, and how many folders beyond the earlier number of files.
MOST_NEW = 20_000

# The entry that stands for all files beyond ``MOST_NEW``.
MORE = "…"

EMPTY = Tree()


def snapshot(root: Path, earlier: Tree = EMPTY) -> Tree:
    """Read a tree; a file equal to one of ``earlier`` shares its text. Links are not followed.

    All files of ``earlier`` are read, wherever they are, and as many others as a trial can hold. So a file
    that is left out is never taken for deleted; an entry says that there are more.
    """
    files: dict[str, FileText] = {}
    new, room = 0, MOST_TEXT
    for path, folder in _paths(root, MOST_NEW + len(earlier.files)):
        if path not in earlier.files:
            new += 1
            if new > MOST_NEW or folder == "too many":
                files[MORE] = _unseen("too many")
                break
        known = earlier.files.get(path)
        file = _unseen(folder) if folder else _read_file(root / path, known, room)
        if file is not None:
            files[path] = file
            # An unchanged file takes no room: the text that is there already is shared.
            room -= file.size if file.text is not None and file is not known else 0
    else:
        if "unreadable" not in {file.why for file in files.values()}:
            return Tree(dict(sorted(files.items()))) if files else EMPTY
    # Files that the walk did not reach would count as deleted.
    for path in earlier.files.keys() - files.keys():
        above = [*_folders_above(path)]
        if any(folder in files and files[folder].why == "unreadable" for folder in above):
            files[path] = _unseen("unreadable")
        elif os.path.lexists(root / path) and not any(os.path.islink(root / folder) for folder in above):
            file = _read_file(root / path, earlier.files[path], 0)
            files |= {path: file} if file is not None else {}
    return Tree(dict(sorted(files.items())))


def _unseen(why: Why) -> FileText:
    return FileText(_digest(b""), 0, None, why)


def snapshot_layers(layers: Sequence[Path]) -> Tree:
    """Give the tree that layers make together; it is read once per process."""
    return _merged_layers(tuple(layers)) if layers else EMPTY


def with_texts(tree: Tree, texts: Mapping[str, str]) -> Tree:
    """Give a tree with these texts in it, in place of the files at their paths."""
    if not texts:
        return tree
    # These are the bytes that ``build`` writes.
    raw = {path: text.encode("utf-8", "replace") for path, text in texts.items()}
    laid = {path: FileText(_digest(data), len(data), data.decode()) for path, data in raw.items()}
    return Tree(dict(sorted({**tree.files, **laid}.items())))


# Read once: all trials of a task, and all tasks of one base fixture, start from the same texts.
@lru_cache(maxsize=4096)
def _merged_layers(layers: tuple[Path, ...]) -> Tree:
    if len(layers) == 1:
        return snapshot(layers[0])
    below, above = _merged_layers(layers[:-1]), _merged_layers(layers[-1:])
    # A file above takes the place of a folder below, and a folder above that of a file.
    folders = {folder for path in above for folder in _folders_above(path)}
    files = {
        path: file
        for path, file in below.files.items()
        if path not in folders and not any(folder in above for folder in _folders_above(path))
    }
    return Tree(dict(sorted({**files, **above.files}.items())))


def _folders_above(path: str) -> Iterator[str]:
    cut = path.rfind("/")
    while cut > 0:
        yield path[:cut]
        cut = path.rfind("/", 0, cut)


def _paths(root: Path, most_folders: int) -> Iterator[tuple[str, Why]]:
    """Give the path of every file, by name within each folder, and of folders that are not read, with why."""
    waiting, looked_into = [""], 0
    while waiting:
        above = waiting.pop()
        looked_into += 1
        try:
            with os.scandir(root / above) as entries:
                inside = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except FileNotFoundError:  # gone since
            continue
        except OSError:
            if above:
                yield above, "unreadable"
            continue
        folders: list[str] = []
        for name, is_folder in inside:
            path = f"{above}/{name}" if above else name
            if not is_folder:
                yield path, ""
            elif path.count("/") >= MOST_DEEP:
                yield path, "too deep"
            # Empty folders are no files, and take as long to look into: they have a bound of their own.
            elif looked_into + len(waiting) + len(folders) > most_folders:
                yield path, "too many"
            else:
                folders.append(path)
        # Reversed, for the last folder is the next to be looked into.
        waiting.extend(reversed(folders))


def _read_file(path: Path, earlier: FileText | None, room: int) -> FileText | None:
    """Read a file, with a new text of at most so many bytes. None where the file is gone."""
    try:
        if path.is_symlink():
            target = os.readlink(path).encode("utf-8", "surrogateescape")
            return FileText(_digest(target), len(target), None, "link")
        status = path.stat()
        size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            # Reading a pipe would wait for ever.
            raise OSError(f"no file: {path}")
        if size > MOST_HASHED:
            return FileText(_digest_of_ends(path, size), size, None, "too large")
        if size > MOST_BYTES:
            with path.open("rb") as large:
                digest = hashlib.file_digest(large, "sha256").hexdigest()[:DIGEST_CHARS]
            return FileText(digest, size, None, "too large")
        content = path.read_bytes()
    # Programs that the agent has left running go on working.
    except FileNotFoundError:
        return None
    except PermissionError:
        # An agent may forbid a file to everybody, itself included.
        return _unseen("unreadable")
    # A pipe or a socket: it is there, and has no text.
    except OSError:
        return _unseen("binary")
    digest = _digest(content)
    if earlier is not None and earlier.digest == digest:
        return earlier
    if len(content) > room:
        return FileText(digest, len(content), None, "too large")
    try:
        return FileText(digest, len(content), content.decode("utf-8"))
    except UnicodeDecodeError:
        return FileText(digest, len(content), None, "binary")


def _digest_of_ends(path: Path, size: int) -> str:
    """Give a digest of a file that is too large to be hashed, such as a hole of many gigabytes."""
    with path.open("rb") as file:
        begin = file.read(END_BYTES)
        file.seek(max(0, size - END_BYTES))
        return _digest(b"%d %b %b" % (size, begin, file.read(END_BYTES)))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGEST_CHARS]


class OutsideWorkspace(Exception):
    """A path leaves the workspace: by ``..``, as an absolute path, or through a link."""


class Workspace:
    """The folder of one trial, shared with no other.

    ``layers`` are copied in order, later ones over earlier ones, and ``texts`` are written into the tree by
    their paths. Where ``at`` is given the tree is already there, and is used as it is. ``broken`` says why it
    could not be built: an agent may catch that error and hide it.
    """

    def __init__(
        self,
        layers: Sequence[Path],
        *,
        texts: Mapping[str, str] = NOTHING,
        parent: Path | None = None,
        at: Path | None = None,
        name: str = "",
    ) -> None:
        self._name = name
        self._folder: NamedFolder | None = None
        self._layers = tuple(layers)
        self._texts = texts
        self._parent = parent
        self._path = at
        self._given = at is not None
        self.broken: FixtureBroken | None = None
        self._before = snapshot(at) if at is not None else None

    @property
    def exists(self) -> bool:
        """Whether the tree has been made."""
        return self._path is not None

    @property
    def path(self) -> Path:
        """The root of the tree, which is made if it is not there yet."""
        if self._path is None:
            try:
                if self._name and self._parent is None:
                    self._folder = NamedFolder(f"agenteval-{self._name}")
                root = self._folder.path if self._folder else None
                self._path = build(self._layers, self._parent, self._texts, root)
            except FixtureBroken as broken:
                self.broken = broken
                raise
        return self._path

    def inside(self, relative: str) -> Path:
        """Give the real path of something in the tree.

        Raises OutsideWorkspace when it would leave the tree. The path need not exist.
        """
        root = self.path.resolve()
        try:
            target = (root / relative).resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, a zero byte: no path of this tree
            raise OutsideWorkspace(f"no path in the workspace: {relative!r}") from None
        if target.is_symlink():  # a loop of links, which Python 3.13 resolves to itself
            raise OutsideWorkspace(f"no path in the workspace: {relative!r}")
        if not target.is_relative_to(root):
            raise OutsideWorkspace(f"outside the workspace: {relative}")
        return target

    def before(self) -> Tree:
        """Give the tree as the trial found it."""
        if self._before is None:
            self._before = with_texts(snapshot_layers(self._layers), self._texts)
        return self._before

    def after(self) -> Tree:
        """Give the tree as it is now; a tree that was never made is as it was."""
        if self._path is None:
            return self.before()
        return snapshot(self._path, earlier=self.before())

    def remove(self) -> None:
        """Delete the tree, unless it was given from outside."""
        if self._folder is not None:
            self._folder.remove()
        elif self._path is not None and not self._given:
            remove_tree(self._path)


def build(
    layers: Sequence[Path], parent: Path | None, texts: Mapping[str, str] = NOTHING, root: Path | None = None
) -> Path:
    """Make a new folder from layers and texts; raises FixtureBroken when one cannot be copied or written.

    A ``root`` is a folder that is there already, and empty.
    """
    try:
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        root = root or Path(tempfile.mkdtemp(prefix="agenteval-", dir=parent))
        for layer in layers:
            if layer is not layers[0]:
                _remove_conflicts(layer, root)
            # Links are copied as links: what they lead to is no part of the tree.
            shutil.copytree(layer, root, symlinks=True, dirs_exist_ok=True)
        for path, text in texts.items():
            place = root / path
            if not place.resolve().is_relative_to(root.resolve()):
                raise OSError(f"{path} is behind a link that leads out of the workspace")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.encode("utf-8", "replace"))
    # ``copytree`` calls itself for each folder: a tree may be deeper than Python can go.
    except (OSError, shutil.Error, RecursionError) as broken:
        if root is not None:
            remove_tree(root)
        raise FixtureBroken(f"the workspace could not be built: {broken}") from broken
    return root


def _remove_conflicts(layer: Path, root: Path) -> None:
    """Remove what a layer replaces with something of another kind, so that no link is written through."""
    for folder, folders, names in os.walk(layer):
        for coming in (Path(folder, name) for name in [*folders, *names]):
            there = root / coming.relative_to(layer)
            if _kind(there) in ("", _kind(coming)) and not there.is_symlink():
                continue
            if there.is_dir() and not there.is_symlink():
                remove_tree(there)
            else:
                there.unlink()


def _kind(path: Path) -> str:
    # Links come first: the other checks follow a link to its target.
    if path.is_symlink():
        return "link"
    if path.is_dir():
        return "folder"
    return "file" if path.exists() else ""

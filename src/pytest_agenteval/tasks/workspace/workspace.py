"""One trial's own tree: built from layers when first used, gone when the trial is over."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_agenteval.processes.files import remove_tree
from pytest_agenteval.records.evidence import Tree
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.tasks.workspace.snapshot import snapshot, snapshot_layers, with_texts
from pytest_agenteval.text.errors import FixtureBroken


class OutsideWorkspace(Exception):
    """A path that leaves the workspace: by ``..``, by being absolute, or through a link."""


class Workspace:
    """A folder of one trial; nothing in it is shared with any other.

    ``layers`` are copied in order, later ones over earlier ones, and ``texts`` are written into the tree by
    their paths. Where ``at`` is given the tree is already there, and is used as it is. ``broken`` is why it
    could not be built, for those from whom an agent hides it.
    """

    def __init__(
        self,
        layers: Sequence[Path],
        *,
        texts: Mapping[str, str] = NOTHING,
        parent: Path | None = None,
        at: Path | None = None,
    ) -> None:
        self._layers = tuple(layers)
        self._texts = texts
        self._parent = parent
        self._path = at
        self._given = at is not None
        self.broken: FixtureBroken | None = None
        self._before = snapshot(at) if at is not None else None

    @property
    def exists(self) -> bool:
        """Whether anyone has asked for the tree."""
        return self._path is not None

    @property
    def path(self) -> Path:
        """The root of the tree, which is made if it is not there yet."""
        if self._path is None:
            try:
                self._path = build(self._layers, self._parent, self._texts)
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
        """Give the tree as it is now; a tree that nobody asked for is as it was."""
        if self._path is None:
            return self.before()
        return snapshot(self._path, earlier=self.before())

    def remove(self) -> None:
        """Delete the tree, unless it was given from outside."""
        if self._path is not None and not self._given:
            remove_tree(self._path)


def build(layers: Sequence[Path], parent: Path | None, texts: Mapping[str, str] = NOTHING) -> Path:
    """Make a new folder from layers and texts; raises FixtureBroken when one cannot be copied or written."""
    root = None
    try:
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        root = Path(tempfile.mkdtemp(prefix="agenteval-", dir=parent))
        for layer in layers:
            if layer is not layers[0]:
                _remove_conflicts(layer, root)
            shutil.copytree(layer, root, symlinks=True, dirs_exist_ok=True)
        for path, text in texts.items():
            _write_text(root, path, text)
    except (OSError, shutil.Error, RecursionError) as broken:
        if root is not None:
            remove_tree(root)
        raise FixtureBroken(f"the workspace could not be built: {broken}") from broken
    return root


def _write_text(root: Path, path: str, text: str) -> None:
    place = root / path
    if not place.resolve().is_relative_to(root.resolve()):
        raise OSError(f"{path} is behind a link that leads out of the workspace")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text.encode("utf-8", "replace"))


def _remove_conflicts(layer: Path, root: Path) -> None:
    """Take away what a layer replaces with something of another kind; a link is never written through."""
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
    if path.is_symlink():
        return "link"
    if path.is_dir():
        return "folder"
    return "file" if path.exists() else ""

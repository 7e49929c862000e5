"""The rubrics that are registered by folder, listed when a name is first looked up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from pytest_agenteval.registry.name_table import NameTable, located
from pytest_agenteval.text.errors import UsageMistake

Place: TypeAlias = "Path | str"
"""A file or folder: its path, or ``package:path`` for one that is installed with a package."""


class RubricFolders:
    """Folders of rubrics, with who registered them; ``files`` finds each rubric's file by its name.

    ``complete`` gives what installed benchmarks could not register, ``note_broken`` is told of a folder that
    cannot be used.
    """

    def __init__(self, complete: Callable[[], Sequence[str]], note_broken: Callable[[str], None]) -> None:
        self._complete, self._note_broken = complete, note_broken
        self._folders: list[tuple[Place, str]] = []
        self.files: NameTable[Path] = NameTable("rubric", self._list_folders)

    def add(self, folder: Place, claimant: str) -> None:
        """Take a folder, whose disk is not read yet."""
        self._folders.append((folder, claimant))

    def _list_folders(self) -> Sequence[str]:
        broken = self._complete()
        while self._folders:
            folder, by = self._folders[0]
            files = {file.stem: file for file in self._rubrics_in(folder, by)}
            # The folder stays in the list where one of its names is taken, so that every look-up says so.
            for name in sorted(files, key=lambda name: name not in self.files):
                self.files.take(name, files[name], by)
            del self._folders[0]
        return broken

    def _rubrics_in(self, folder: Place, by: str) -> Sequence[Path]:
        """List a folder's rubrics; one that is not there is noted, and keeps nobody from those of others."""
        try:
            path = located(folder)
            if path.is_dir():
                return sorted(path.glob("*.jinja"))
            missing = f"expected a folder: {path}; found none"
        except UsageMistake as mistake:
            missing = str(mistake)
        self._note_broken(f"the rubrics that {by} registered cannot be used: {missing}")
        return ()

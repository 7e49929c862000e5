"""The project that a first suite is written into: its root as pytest sees it, its suites, its repository."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.session.planning.suites import SuiteSearch, read_suite
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake

OWN_CONFIGS = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
SHARED_CONFIGS = {"pyproject.toml": "[tool.pytest", "tox.ini": "[pytest]", "setup.cfg": "[tool:pytest]"}
"""Files that configure pytest only where they have this section."""


class Project(FrozenValue, frozen=True):
    """A project's folder: pytest's rootdir as soon as it has a configuration, where ``has_config`` says so.

    ``suites`` has the file of every suite, by the suite's name; ``repository`` is where Git has its top, the
    root itself where there is no Git.
    """

    root: Path
    has_config: bool
    suites: dict[str, Path]
    repository: Path

    @property
    def evals(self) -> Path:
        """The folder that suites lie in: ``evals``, or where the project's first suite lies."""
        usual = self.root / "evals"
        if usual.is_dir() or not self.suites:
            return usual
        folder = next(iter(self.suites.values())).parent
        return folder.parent if folder != self.root else usual


def find_project(folder: str | None) -> Project:
    """Give the project of a folder that is named, or else the one that the current folder lies in.

    Raises UsageMistake where the name is that of a file.
    """
    here = Path.cwd()
    if folder is None:
        root = config_folder(here) or _repository_above(here) or here
    else:
        root = Path(os.path.abspath(here / folder))
        if root.exists() and not root.is_dir():
            raise UsageMistake(f"{folder}: expected a folder; found a file")
    suites = dict(_suites_below(root)) if root.is_dir() else {}
    return Project(root, config_folder(root) == root, suites, _repository_above(root) or root)


def config_folder(place: Path) -> Path | None:
    """Give what is pytest's rootdir for what lies in a folder; None where that hangs on how it is called."""
    folders = (place, *place.parents)
    tests = (_configures_pytest, lambda at: (at / "pyproject.toml").is_file(), _has_setup)
    return next((folder for test in tests for folder in folders if test(folder)), None)


def _configures_pytest(folder: Path) -> bool:
    if any((folder / name).is_file() for name in OWN_CONFIGS):
        return True
    return any(section in _text(folder / name) for name, section in SHARED_CONFIGS.items())


def _has_setup(folder: Path) -> bool:
    return (folder / "setup.py").is_file()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _repository_above(place: Path) -> Path | None:
    return next((folder for folder in (place, *place.parents) if (folder / ".git").exists()), None)


def _suites_below(root: Path) -> Iterator[tuple[str, Path]]:
    """Give each suite's name and file; a file that cannot be read is passed over: it is not ours to mend."""
    for file in SuiteSearch(root).all:
        with suppress(ProblemsFound):
            if suite := read_suite(file, root):
                yield suite.name, file


def module_name(suite: str) -> str:
    """Give a suite's name as Python modules may be called."""
    return re.sub(r"\W", "_", suite)

"""Reading every task of the suites below a folder, held-out ones too, and the trees that they start from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.session.planning.suites import Suites, SuiteSearch, read_suite, tasks_of_suite
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.file_names import SUITE_NAMES, find_suite
from pytest_agenteval.tasks.load import LoadedTask, load_suite
from pytest_agenteval.tasks.referenced_files import workspace_layers
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.text.errors import UsageMistake

MOST_WORKSPACE_TEXT = 200_000
"""Bytes of a file of a starting tree beyond which it is no text that anybody copies from."""

_ROOT_MARKS = (".git", "pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg")


class SuiteTasks(FrozenValue, frozen=True):
    """A suite and all of its tasks, each with the folders that make its starting workspace."""

    suite: Suite
    tasks: tuple[LoadedTask, ...]
    layers: tuple[tuple[Path, ...], ...]


def read_suites(place: Path) -> list[SuiteTasks]:
    """Read the suites below a folder, or the one in whose folder it lies, or that of a suite's file.

    A suite is read as a whole, whatever part of it is named.

    Raises UsageMistake where there is none, and ProblemsFound for a file with problems.
    """
    place = Path(os.path.abspath(place))
    root = _root_of(place)
    if place.name in SUITE_NAMES and place.is_file():
        files_and_suites = [(place, load_suite(place))]
    else:
        every = ((file, read_suite(file, root)) for file in SuiteSearch(place).collected)
        files_and_suites = [(file, suite) for file, suite in every if suite is not None]
    if not files_and_suites and place.is_dir() and (above := find_suite(place, root)):
        files_and_suites = [(above, load_suite(above))]
    if not files_and_suites:
        raise UsageMistake(f"there is no suite.yaml below {short_path(place)}")
    suites = Suites(root)
    return [_read(file, suite, suites, root) for file, suite in files_and_suites]


def workspace_texts(folder: Path) -> Iterator[str]:
    """Give the texts of the files of a starting tree; what is no text in UTF-8, or very long, is left out."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            try:
                if path.stat().st_size <= MOST_WORKSPACE_TEXT:
                    yield path.read_bytes().decode("utf-8")
            except (OSError, UnicodeDecodeError):
                continue


def _read(file: Path, suite: Suite, suites: Suites, root: Path) -> SuiteTasks:
    tasks = tuple(tasks_of_suite(suites, file, suite))
    layers = (workspace_layers(each.task, file.parent, each.file, root) for each in tasks)
    return SuiteTasks(suite, tasks, tuple(layers))


def _root_of(place: Path) -> Path:
    """Give the folder that pytest would take for its root: the nearest with a mark of a project."""
    folder = place if place.is_dir() else place.parent
    for above in (folder, *folder.parents):
        if any((above / mark).exists() for mark in _ROOT_MARKS):
            return above
    return Path.cwd() if folder.is_relative_to(Path.cwd()) else folder

"""Which files are suites and tasks, by name alone, so that every file of a tree can be checked cheaply."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

SUITE_NAMES = ("suite.yaml", "suite.yml", "suite.json")
_SUFFIXES = (".json", ".yaml", ".yml")
# A pattern, for the file of a suite may be too broken to be parsed.
_NAMES_ROWS = re.compile(rb"""^\s*["']?tasks?["']?\s*:""", re.MULTILINE)
# The first key of a baseline's file, which may lie among tasks and is none.
BASELINE_MARK = "agenteval_baseline"
# Files that may hold pytest's settings.
PYTEST_SETTINGS = (
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini"),
    *("pyproject.toml", "tox.ini", "setup.cfg"),
)


def folder_of(path: Path) -> Path:
    """Give the folder of a file, as one object for all of its files: a new path is slow to look up."""
    return _path(os.path.dirname(str(path)))


@lru_cache(maxsize=64)
def _path(text: str) -> Path:
    return Path(text)


def project_root(place: Path) -> Path:
    """Give the nearest folder from here upwards with a repository, or a file such as pyproject.toml.

    Without one it is the current folder where the place lies below it, else the place's own.
    """
    folder, here = place if place.is_dir() else place.parent, Path.cwd()
    marks = (".git", *PYTEST_SETTINGS)
    marked = (at for at in (folder, *folder.parents) if any((at / mark).exists() for mark in marks))
    return next(marked, here if folder.is_relative_to(here) else folder)


def find_suite(folder: Path, stop: Path) -> Path | None:
    """Give the suite file of the nearest folder upward, up to ``stop`` itself, that has one."""
    for place in (folder, *folder.parents):
        suites = [path for name in SUITE_NAMES if (path := place / name).is_file()]
        # Which of two suite files counts is not guessed.
        if len(suites) > 1:
            from pytest_agenteval.text.errors import Problem, ProblemsFound

            names = " and ".join(path.name for path in suites)
            raise ProblemsFound([Problem(str(suites[0]), None, (), "one suite file in a folder", names)])
        if suites or place == stop:
            return suites[0] if suites else None
    return None


def in_suite(folder: Path, stop: Path) -> bool:
    """Whether this folder, or one above it up to ``stop``, holds a suite file."""
    for place in (folder, *folder.parents):
        if any((place / name).is_file() for name in SUITE_NAMES):
            return True
        if place == stop:
            return False
    return False


def is_data_name(name: str) -> bool:
    """Whether a file of this name may hold tasks below a suite: JSON or YAML, no suite, not set aside."""
    stem, _, suffix = name.lower().rpartition(".")
    return bool(stem) and f".{suffix}" in _SUFFIXES and stem != "suite" and not is_set_aside(name)


def names_rows(suite: Path) -> bool:
    """Whether a suite's file, however broken, looks as if it made tasks of rows."""
    try:
        return _NAMES_ROWS.search(suite.read_bytes()) is not None
    except OSError:
        return False


def is_set_aside(name: str) -> bool:
    """Whether the name of a file or folder says that it holds no tasks."""
    return name.startswith(("_", "."))


def is_set_aside_folder(name: str) -> bool:
    """Whether a folder of this name holds no tasks: data of a task, another tool's packages, or set aside."""
    return name in ("workspace", "node_modules") or is_set_aside(name)


def is_task_name(path: Path) -> bool:
    """Whether a file is called ``task``, with an ending of JSON or YAML."""
    stem, _, suffix = path.name.lower().rpartition(".")
    return stem == "task" and f".{suffix}" in _SUFFIXES


def is_calibration_name(path: Path) -> bool:
    """Whether a file's name says that it compares judges with labels: ``NAME.calibration.yaml``."""
    stem, _, suffix = path.name.lower().rpartition(".")
    return (stem == "calibration" or stem.endswith(".calibration")) and suffix in ("yaml", "yml")


def holds_baseline(path: Path) -> bool:
    """Whether the first bytes of a file say that it is a baseline."""
    try:
        with path.open("rb") as file:
            # The mark is the first key: only a brace and white space come before it.
            head = file.read(2 * len(BASELINE_MARK))
    except OSError:
        return False
    return head.lstrip(b" \t\r\n{").startswith(f'"{BASELINE_MARK}"'.encode())

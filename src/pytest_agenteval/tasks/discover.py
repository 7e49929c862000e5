"""Which files are suites and tasks, by name alone: cheap enough to ask of every file of a tree."""

from __future__ import annotations

from pathlib import Path

from pytest_agenteval.errors import Problem, ProblemsFound

SUITE_NAMES = ("suite.yaml", "suite.yml", "suite.json")
_SUFFIXES = (".json", ".yaml", ".yml")


def find_suite(folder: Path, stop: Path) -> Path | None:
    """Give the suite file of the nearest folder upward, up to ``stop`` itself, that has one."""
    for place in (folder, *folder.parents):
        found = [path for name in SUITE_NAMES if (path := place / name).is_file()]
        if len(found) > 1:
            names = " and ".join(path.name for path in found)
            raise ProblemsFound([Problem(str(found[0]), None, (), "one suite file in a folder", names)])
        if found or place == stop:
            return found[0] if found else None
    return None


def in_suite(folder: Path, stop: Path) -> bool:
    """Tell whether this folder, or one above it up to ``stop``, holds a suite file."""
    for place in (folder, *folder.parents):
        if any((place / name).is_file() for name in SUITE_NAMES):
            return True
        if place == stop:
            return False
    return False


def is_data_name(name: str) -> bool:
    """Tell whether a file of that name, below a suite, may hold tasks: JSON or YAML, not hidden, no suite."""
    stem, _, suffix = name.lower().rpartition(".")
    return bool(stem) and f".{suffix}" in _SUFFIXES and stem != "suite" and not name.startswith(".")


def is_task_name(path: Path) -> bool:
    """Tell whether a file's own name says that it is a task."""
    stem, _, suffix = path.name.lower().rpartition(".")
    return stem == "task" and f".{suffix}" in _SUFFIXES


def is_calibration_name(path: Path) -> bool:
    """Tell whether a file's own name says that it compares judges with labels: ``NAME.calibration.yaml``."""
    stem, _, suffix = path.name.lower().rpartition(".")
    return (stem == "calibration" or stem.endswith(".calibration")) and suffix in ("yaml", "yml")

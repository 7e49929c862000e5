"""Task files that belong to no suite, and suite files under a wrong name: said in a line, never judged."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_agenteval.errors import ProblemsFound
from pytest_agenteval.session.suites import Suites
from pytest_agenteval.tasks.discover import SUITE_NAMES, is_data_name
from pytest_agenteval.tasks.documents import parse_document, shown
from pytest_agenteval.tasks.load import WORDS_OF_A_TASK
from pytest_agenteval.tasks.resemblance import is_whole

LARGEST = 1_000_000
"""Bytes of the largest file that is looked into: it may be anybody's."""

MOST_FOLDERS = 3


def hints(paths: Iterable[Path], root: Path) -> list[str]:
    """Say which suite file has a wrong name, or else which file looks like a task without a suite.

    ``paths`` are files that were left alone. One line for each folder, but for those below a folder that has
    one, where a suite would rule them too; at the root a file may be anybody's, and hides no folder.
    """
    suites = Suites(root)
    loose = [path for path in paths if is_data_name(path.name) and suites.belongs_to_none(path)]
    misnamed = {path.parent: (path, right) for path in loose if (right := _right_name(path))}
    tasks: dict[Path, Path] = {}
    for path in loose:
        above = {*path.parents} - ({root} - {path.parent})
        if above.isdisjoint(misnamed) and above.isdisjoint(tasks) and _looks_like_tasks(path):
            tasks[path.parent] = path
    return [
        *_few([f"{shown(path)}: did you mean {right!r}? {_RULES}" for path, right in misnamed.values()]),
        *_few(
            [
                f"{shown(path)} looks like a task, but no suite.yaml rules its folder"
                for path in tasks.values()
            ]
        ),
    ]


_RULES = "It makes the files below it tasks"


def _few(lines: list[str]) -> list[str]:
    left = len(lines) - MOST_FOLDERS
    more = [f"and the same in {left} more {'folder' if left == 1 else 'folders'}"] if left > 0 else []
    return [*lines[:MOST_FOLDERS], *more]


def _right_name(path: Path) -> str:
    """Give the name that a suite file should have had; nothing for another file."""
    stem = path.stem.casefold()
    if difflib.SequenceMatcher(None, stem, "suite").ratio() < 0.8:
        return ""
    right = f"suite{path.suffix.lower()}"
    keys = _map_of(path) if right in SUITE_NAMES else None
    return right if keys is not None and "name" in keys else ""


def _looks_like_tasks(path: Path) -> bool:
    data = _bytes_of(path)
    if not all(word.search(data) for word in WORDS_OF_A_TASK):
        return False
    return any(map(is_whole, _entries(path, data)))


def _map_of(path: Path) -> dict[str, object] | None:
    return next((entry for entry in _entries(path, _bytes_of(path)) if isinstance(entry, dict)), None)


def _entries(path: Path, data: bytes) -> Iterator[object]:
    try:
        value = parse_document(path, data).value
    except ProblemsFound:
        return
    yield from value if isinstance(value, list) else [value]


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.stat().st_size <= LARGEST else b""
    except OSError:
        return b""

"""What a suite and its tasks name: files and folders that hold no tasks, whatever stands in them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.errors import ProblemsFound
from pytest_agenteval.tasks.documents import parse_document, read_bytes
from pytest_agenteval.tasks.file_names import is_data_name, is_set_aside_folder
from pytest_agenteval.tasks.task_detection import is_task

_NAMES_A_FILE = re.compile(rb"base_fixture|fixture_dir|prompts|\.(?:json|ya?ml)\b")


class ReferencedFiles:
    """Files, and folders with all that is in them; a folder that holds the suite itself names nothing."""

    def __init__(self, paths: Iterable[Path], suite_dir: Path) -> None:
        named = {str(path) for path in paths if not suite_dir.is_relative_to(path)}
        self._files = frozenset(named)
        self._folders = tuple(f"{path}{os.sep}" for path in named)

    def __contains__(self, path: Path) -> bool:
        """Whether a file is named, or lies in a folder that is."""
        text = str(path)
        return text in self._files or text.startswith(self._folders)


def files_named_by_tasks(suite_dir: Path, root: Path, is_of_suite: Callable[[Path], bool]) -> ReferencedFiles:
    """Find what the tasks of a suite name: starting trees, prompts, and files that graders read.

    Every task file below the suite is looked into, those too that pytest was not asked to collect.
    """
    places = (suite_dir, root / "fixtures", root)
    paths = (
        Path(os.path.normpath(place / name))
        for file in _data_files(suite_dir)
        if is_of_suite(file)
        for name in _names_in(file)
        for place in (file.parent, *places)
    )
    return ReferencedFiles(paths, suite_dir)


def _data_files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = (name for name in folders if not is_set_aside_folder(name))
        yield from (Path(place, name) for name in names if is_data_name(name))


def _names_in(file: Path) -> Iterator[str]:
    try:
        data = read_bytes(file)
        value = parse_document(file, data).value if _NAMES_A_FILE.search(data) else None
    except ProblemsFound:  # told where the file itself is collected
        return
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, dict) and is_task(entry):
            yield from (name for name in _names_of(entry) if isinstance(name, str) and name.strip())


def _names_of(task: Mapping[str, Any]) -> Iterator[Any]:
    tree = task.get("input")
    if isinstance(tree, dict):
        yield from (tree.get("base_fixture"), tree.get("fixture_dir"))
    prompts = task.get("prompts")
    yield from prompts.values() if isinstance(prompts, dict) else ()
    graders = task.get("graders")
    for grader in graders if isinstance(graders, list) else ():
        config = grader.get("config") if isinstance(grader, dict) else None
        yield from config.values() if isinstance(config, dict) else ()

"""Hints for authors: keys beside the map they belong into, and files that no suite rules."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from pytest_agenteval.session.planning.suites import Suites
from pytest_agenteval.tasks.documents import parse_document, read_document, short_path
from pytest_agenteval.tasks.file_names import SUITE_NAMES, is_data_name
from pytest_agenteval.tasks.load import WORDS_OF_A_TASK
from pytest_agenteval.tasks.task_detection import is_task
from pytest_agenteval.tasks.validation_errors import belongs_in_hint
from pytest_agenteval.text.errors import Problem, ProblemsFound

_BESIDE_CONFIG = "a grader's own settings stand in `config: {...}`"

_OF_INPUT = ("content", "base_fixture", "fixture_dir")


class KnowsSettings(Protocol):
    """Knows the settings of graders and agents by their names; of an unknown name, none."""

    def settings_of_grader(self, name: str) -> Collection[str]:
        """Give the names of a grader's settings."""
        ...

    def settings_of_agent(self, name: str) -> Collection[str]:
        """Give the names of an agent's settings."""
        ...


def add_placement_hints(
    problems: tuple[Problem, ...], registered: KnowsSettings, agent: str
) -> Iterator[Problem]:
    """Give problems of task and suite files; an unknown key that is a setting is told where it stands.

    ``agent`` is whose settings are meant where a file names none.
    """
    for problem in problems:
        if problem.path and problem.found.startswith("unknown key "):
            hint = _hint(problem, registered, agent)
            yield replace(problem, hint=hint) if hint else problem
        else:
            yield problem


def _hint(problem: Problem, registered: KnowsSettings, agent: str) -> str:
    *above, key = problem.path
    owner = _map_at(problem, above)
    if len(above) > 1 and above[-2] == "graders":
        is_setting = key in registered.settings_of_grader(str(owner.get("name")))
        return belongs_in_hint("config", key) if is_setting else problem.hint or _BESIDE_CONFIG
    if all(isinstance(step, int) for step in above):  # a task, a task of a list, or a suite
        if key in _OF_INPUT and "graders" in owner:
            return belongs_in_hint("input", key)
        is_setting = key in registered.settings_of_agent(str(owner.get("agent") or agent))
        return belongs_in_hint("settings", key) if is_setting else ""
    return ""


def _map_at(problem: Problem, path: list[str | int]) -> Mapping[str, Any]:
    try:
        value: Any = read_document(Path(problem.file)).value
        for step in path:
            value = value[step]
    except (ProblemsFound, LookupError, TypeError):  # changed since it was read
        return {}
    return value if isinstance(value, dict) else {}


LARGEST = 1_000_000
"""Bytes of the largest file that is looked into: it may be anybody's."""

MOST_FOLDERS = 3


def missing_suite_hints(paths: Iterable[Path], root: Path) -> list[str]:
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
        *_first_few(
            [f"{short_path(path)}: did you mean {right!r}? {_RULES}" for path, right in misnamed.values()]
        ),
        *_first_few(
            [
                f"{short_path(path)} looks like a task, but no suite.yaml rules its folder"
                for path in tasks.values()
            ]
        ),
    ]


_RULES = "It makes the files below it tasks"


def _first_few(lines: list[str]) -> list[str]:
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
    return any(map(is_task, _entries(path, data)))


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

"""Where a task's files lie: the trees its workspace starts from, and its prompts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_agenteval.errors import KeyPath, Problem, ProblemsFound, nearest
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import read_document, short_path
from pytest_agenteval.tasks.file_names import SUITE_NAMES, is_task_name
from pytest_agenteval.tasks.spec import Suite, Task, resolve_settings

_LAYERS = ("base_fixture", "fixture_dir")
_EXISTS: Mapping[str, Callable[[Path], bool]] = {
    "folder": os.path.isdir,
    "file": os.path.isfile,
    "file or folder": os.path.exists,
}


def workspace_layers(task: Task, suite_dir: Path | None, task_file: Path, root: Path) -> tuple[Path, ...]:
    """Give the folders that are copied over each other, first to last, to make the starting workspace.

    ``input.base_fixture`` and ``input.fixture_dir`` are looked up from the suite's folder, then from
    ``fixtures/`` at the root; without a ``fixture_dir``, a ``workspace/`` beside a ``task.*`` file is taken.
    """
    look_up = _PathLookup((suite_dir or task_file.parent, root / "fixtures"), root, "folder")
    named = {key: task.input[key] for key in _LAYERS if task.input.get(key) is not None}
    found = {key: look_up.find(name) for key, name in named.items()}
    _raise(("input",), found, task, task_file)
    layers = tuple(one for one in found.values() if isinstance(one, Path))
    beside = task_file.parent / "workspace"
    if "fixture_dir" not in named and is_task_name(task_file) and beside.is_dir():
        return (*layers, beside)
    return layers


def prompt_files(
    task: Task, suite: Suite | None, suite_dir: Path | None, task_file: Path, root: Path
) -> dict[str, Path]:
    """Give the file of each prompt that task and suite name, from the suite's folder, then the task's."""
    prompts = resolve_settings(task, suite).prompts
    look_up = _PathLookup((suite_dir or task_file.parent, task_file.parent), root, "file")
    found = {name: look_up.find(path) for name, path in prompts.items()}
    own = {name: one for name, one in found.items() if name in task.prompts}
    _raise(("prompts",), own, task, task_file)
    if suite_dir is not None:
        _raise(("prompts",), found, None, _suite_file(suite_dir))
    return {name: one for name, one in found.items() if isinstance(one, Path)}


def grader_files(
    task: Task, index: int, endings: Mapping[str, str], suite_dir: Path | None, task_file: Path, root: Path
) -> dict[str, Path]:
    """Give the file of each setting of a grader that names one, from the task's folder, then the suite's.

    ``endings`` holds the settings that may name a file, each with the ending by which such a name is known.
    """
    config = task.graders[index].config
    named = {
        key: config[key]
        for key, ending in endings.items()
        if isinstance(config.get(key), str) and config[key].endswith(ending) and "\n" not in config[key]
    }
    look_up = _PathLookup((task_file.parent, suite_dir or task_file.parent), root, "file")
    found = {key: look_up.find(name) for key, name in named.items()}
    _raise(("graders", index, "config"), found, task, task_file)
    return {key: one for key, one in found.items() if isinstance(one, Path)}


def suite_paths(
    suite_dir: Path, key: str, entries: Sequence[str], also: Path, root: Path, kind: str
) -> tuple[Path, ...]:
    """Give what each entry of a suite's list names, from the suite's folder, then from ``also``.

    ``kind`` is ``file``, ``folder`` or ``file or folder``.
    """
    look_up = _PathLookup((suite_dir, also), root, kind)
    found = {index: look_up.find(entry) for index, entry in enumerate(entries)}
    _raise((key,), found, None, _suite_file(suite_dir))
    return tuple(one for one in found.values() if isinstance(one, Path))


class _LookupProblem(FrozenValue, frozen=True):
    """Why a path that an author wrote leads nowhere."""

    expected: str
    found: str
    hint: str = ""


class _PathLookup(FrozenValue, frozen=True):
    """Looks for a folder or a file below several places, and never outside of them and the root."""

    places: tuple[Path, ...]
    root: Path
    kind: str

    def find(self, name: object) -> Path | _LookupProblem:
        """Give the first that exists, or say where was looked."""
        if not isinstance(name, str) or not name.strip():
            return _LookupProblem(f"the path of a {self.kind}: a text", repr(name))
        if Path(name).is_absolute():
            return _LookupProblem(f"a path relative to {self._listed('')}", f"{name!r}, an absolute path")
        tried = [Path(os.path.normpath(place / name)) for place in self.places]
        inside = [path for place, path in zip(self.places, tried, strict=True) if self._inside(path, place)]
        if not inside:
            return _LookupProblem(
                f"a path below {self._below(self.root)}", f"{name!r}, which leads out of it"
            )
        here = next(filter(_EXISTS[self.kind], inside), None)
        expected = f"a {self.kind}: {self._listed(name)}"
        return here or _LookupProblem(expected, f"{name!r}, which is not there", self._hint(name))

    def _inside(self, path: Path, place: Path) -> bool:
        return path.is_relative_to(self.root) or path.is_relative_to(place)

    def _listed(self, name: str) -> str:
        return " or ".join(dict.fromkeys(self._below(place / name) for place in self.places))

    def _below(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def _hint(self, name: str) -> str:
        return nearest(name, dict.fromkeys(self._neighbours(name)))

    def _neighbours(self, name: str) -> Iterator[str]:
        for place in self.places:
            folder = (place / name).parent
            for path in sorted(folder.iterdir()) if os.path.isdir(folder) else ():
                if _EXISTS[self.kind](path):
                    yield (Path(name).parent / path.name).as_posix()


def _raise(above: KeyPath, found: Mapping[Any, Path | _LookupProblem], task: Task | None, file: Path) -> None:
    problems = {(*above, name): one for name, one in found.items() if isinstance(one, _LookupProblem)}
    if problems:
        raise ProblemsFound(
            Problem(short_path(file), *_place(file, task, path), one.expected, one.found, one.hint)
            for path, one in problems.items()
        )


def _place(file: Path, task: Task | None, path: KeyPath) -> tuple[int | None, KeyPath]:
    """Find the line of a key in a file that has been read before, and perhaps was changed since."""
    try:
        document = read_document(file)
    except ProblemsFound:
        return None, path
    entries: Sequence[Any] = document.value if isinstance(document.value, list) else ()
    for index, entry in enumerate(entries):
        if task is not None and isinstance(entry, dict) and entry.get("id") == task.id:
            path = (index, *path)
            break
    return document.line_of(path), path


def _suite_file(suite_dir: Path) -> Path:
    return next((suite_dir / name for name in SUITE_NAMES if (suite_dir / name).is_file()), suite_dir)

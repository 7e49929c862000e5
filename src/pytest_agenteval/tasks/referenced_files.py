"""The files that tasks and suites name: finds them, and makes sure that none of them is taken for a task."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import (
    is_task,
    parse_document,
    read_bytes,
    read_document,
    short_path,
    task_entries,
)
from pytest_agenteval.tasks.file_names import SUITE_NAMES, is_data_name, is_set_aside_folder, is_task_name
from pytest_agenteval.tasks.suite_spec import Suite, resolve_settings
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean

_EXISTS: Mapping[str, Callable[[Path], bool]] = {
    "folder": os.path.isdir,
    "file": os.path.isfile,
    "file or folder": os.path.exists,
}


def workspace_layers(task: Task, suite_dir: Path | None, task_file: Path, root: Path) -> tuple[Path, ...]:
    """Give the folders that are copied over each other, first to last, to make the starting workspace.

    ``input.base_fixture`` and ``input.fixture_dir`` are looked up from the suite's folder, then from
    ``fixtures/`` at the root, and lie below one of them; without a ``fixture_dir``, a ``workspace/`` beside a
    ``task.*`` file is taken.
    """
    places = (suite_dir or task_file.parent, root / "fixtures")
    look_up = _PathLookup(places, root, "folder", below_places=True)
    named = {
        key: task.input_map[key]
        for key in ("base_fixture", "fixture_dir")
        if task.input_map.get(key) is not None
    }
    lookups = {key: look_up.find(name) for key, name in named.items()}
    if suite_dir is None:
        lookups = {key: _with_suite_hint(name, lookups[key], task_file, root) for key, name in named.items()}
    # Only a file of one task has such a folder: a list of tasks does not share a workspace by accident.
    if "fixture_dir" not in named and is_task_name(task_file) and (task_file.parent / "workspace").is_dir():
        beside = _PathLookup((task_file.parent,), root, "folder", below_places=True)
        lookups["workspace"] = beside.find("workspace")
    _raise(("input",), lookups, task, task_file)
    return tuple(path for path in lookups.values() if isinstance(path, Path))


def _with_suite_hint(
    name: object, lookup: Path | _LookupProblem, task_file: Path, root: Path
) -> Path | _LookupProblem:
    """Add to a problem where a suite.yaml has to be: beside the folder that exists further up.

    Tasks that are pasted from elsewhere often lack one.
    """
    if isinstance(lookup, Path) or not isinstance(name, str) or Path(name).is_absolute() or ".." in name:
        return lookup
    above = (folder for folder in task_file.parents[1:] if folder.is_relative_to(root))
    suite_dir = next((folder for folder in above if os.path.isdir(folder / name)), None)
    if suite_dir is None:
        return lookup
    expected, found, _ = lookup
    file = short_path(suite_dir / SUITE_NAMES[0])
    return expected, found, f"write {file}: folders are looked up from the folder of suite.yaml"


def prompt_files(
    task: Task, suite: Suite | None, suite_dir: Path | None, task_file: Path, root: Path
) -> dict[str, Path]:
    """Give the file of each prompt that task and suite name, from the suite's folder, then the task's."""
    prompts = resolve_settings(task, suite).prompts
    look_up = _PathLookup((suite_dir or task_file.parent, task_file.parent), root, "file")
    lookups = {name: look_up.find(path) for name, path in prompts.items()}
    # What the task itself names is reported in its own file, everything else in the suite's.
    own = {name: lookup for name, lookup in lookups.items() if name in task.prompts}
    _raise(("prompts",), own, task, task_file)
    if suite_dir is not None:
        _raise(("prompts",), lookups, None, _suite_file(suite_dir))
    return {name: path for name, path in lookups.items() if isinstance(path, Path)}


def grader_files(
    task: Task, index: int, endings: Mapping[str, str], suite_dir: Path | None, task_file: Path, root: Path
) -> dict[str, Path]:
    """Give the file of each setting of a grader that names one, from the task's folder, then the suite's.

    ``endings`` holds the settings that may name a file, each with the ending of such names.
    """
    config = task.graders[index].config
    named = {
        key: config[key]
        for key, ending in endings.items()
        if isinstance(config.get(key), str) and config[key].endswith(ending) and "\n" not in config[key]
    }
    look_up = _PathLookup((task_file.parent, suite_dir or task_file.parent), root, "file")
    lookups = {key: look_up.find(name) for key, name in named.items()}
    _raise(("graders", index, "config"), lookups, task, task_file)
    return {key: path for key, path in lookups.items() if isinstance(path, Path)}


def suite_paths(
    suite_dir: Path, key: str, entries: Mapping[int, str], also: Path, root: Path, kind: str
) -> tuple[Path, ...]:
    """Give the paths that entries of a suite's list name, from the suite's folder, then from ``also``.

    The keys of ``entries`` are their places in the list; ``kind`` is ``file``, ``folder`` or ``file or
    folder``.
    """
    look_up = _PathLookup((suite_dir, also), root, kind)
    lookups = {index: look_up.find(entry) for index, entry in entries.items()}
    _raise((key,), lookups, None, _suite_file(suite_dir))
    return tuple(path for path in lookups.values() if isinstance(path, Path))


# Why a path that an author wrote leads nowhere: what is expected, what was found, and a hint.
_LookupProblem: TypeAlias = tuple[str, str, str]


class _PathLookup(FrozenValue, frozen=True):
    """Looks for a folder or a file from several places, and never outside of them and the root.

    With ``below_places`` the path has to be below one of the places, for it is copied. Prompts and tool files
    may lie elsewhere in the root, for suites share them. A link may lead anywhere within the root and the
    places.
    """

    places: tuple[Path, ...]
    root: Path
    kind: str
    below_places: bool = False

    def find(self, name: object) -> Path | _LookupProblem:
        """Give the first path that exists, or the problem with the places where it was looked for."""
        if not isinstance(name, str) or not name.strip():
            return f"the path of a {self.kind}: a text", repr(name), ""
        paths = [Path(os.path.normpath(place / name)) for place in self.places]
        tops = self.places if self.below_places else (self.root,)
        below = " or ".join(dict.fromkeys(map(self._below, tops)))
        # An absolute path may well lie below: that it is one is what is wrong with it.
        why = "an absolute path" if Path(name).is_absolute() else "which leads out of it"
        outside = f"a path below {below}", f"{name!r}, {why}", ""
        inside = [path for path in paths if any(map(path.is_relative_to, (self.root, *self.places)))]
        if Path(name).is_absolute() or not inside:
            return outside
        here = next(filter(_EXISTS[self.kind], inside), None)
        if here is None:
            hint = did_you_mean(name, dict.fromkeys(self._neighbours(name)))
            return f"a {self.kind}: {self._listed(name)}", f"{name!r}, which is not there", hint
        # A link out of all of them would copy what is not the project's.
        real = Path(os.path.realpath(here))
        is_inside = any(real.is_relative_to(os.path.realpath(top)) for top in (self.root, *self.places))
        return here if is_inside and any(map(here.is_relative_to, (*tops, *self.places))) else outside

    def _listed(self, name: str) -> str:
        return " or ".join(dict.fromkeys(self._below(place / name) for place in self.places))

    def _below(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def _neighbours(self, name: str) -> Iterator[str]:
        for place in self.places:
            folder = (place / name).parent
            for path in sorted(folder.iterdir()) if os.path.isdir(folder) else ():
                if _EXISTS[self.kind](path):
                    yield (Path(name).parent / path.name).as_posix()


def _raise(
    above: KeyPath, lookups: Mapping[Any, Path | _LookupProblem], task: Task | None, file: Path
) -> None:
    problems = [
        Problem(short_path(file), *_place(file, task, (*above, name)), *lookup)
        for name, lookup in lookups.items()
        if not isinstance(lookup, Path)
    ]
    if problems:
        raise ProblemsFound(problems)


def _place(file: Path, task: Task | None, path: KeyPath) -> tuple[int | None, KeyPath]:
    """Find the line of a key in a file that has been read before, and perhaps was changed since."""
    try:
        document = read_document(file)
    except ProblemsFound:
        return None, path
    # In a file with several tasks the key is below the place of its task.
    for at, entry in task_entries(document) if task is not None else ():
        if task is not None and isinstance(entry, dict) and entry.get("id") == task.id:
            path = (*at, *path)
            break
    return document.line_of(path), path


def _suite_file(suite_dir: Path) -> Path:
    return next((suite_dir / name for name in SUITE_NAMES if (suite_dir / name).is_file()), suite_dir)


# Searched for first: most files of tasks name no file, and need not be parsed here.
_NAMES_A_FILE = re.compile(rb"base_fixture|fixture_dir|prompts|\.(?:json|ya?ml)\b")


class ReferencedFiles:
    """Named files, and named folders with everything in them."""

    def __init__(self, paths: Iterable[Path], suite_dir: Path) -> None:
        # A folder that holds the suite itself does not count: else no file of the suite would be a task.
        named = {str(path) for path in paths if not suite_dir.is_relative_to(path)}
        self._files = frozenset(named)
        self._folders = tuple(f"{path}{os.sep}" for path in named)

    def __contains__(self, path: Path) -> bool:
        text = str(path)
        return text in self._files or text.startswith(self._folders)


def files_named_by_tasks(suite_dir: Path, root: Path, files: Iterable[Path]) -> ReferencedFiles:
    """Find what the tasks in a suite's files name: starting trees, prompts, files that graders read."""
    places = (suite_dir, root / "fixtures", root)
    # A name is looked up from each place that any kind of name may start from. A path too many does no harm.
    paths = (
        Path(os.path.normpath(place / name))
        for file in files
        for name in _names_in(file)
        for place in (file.parent, *places)
    )
    return ReferencedFiles(paths, suite_dir)


def data_files(folder: Path) -> Iterator[Path]:
    """Give each file below a folder that may hold tasks, judged by its name and the names of its folders."""
    for place, folders, names in os.walk(folder):
        folders[:] = (name for name in folders if not is_set_aside_folder(name))
        yield from (Path(place, name) for name in names if is_data_name(name))


def _names_in(file: Path) -> Iterator[str]:
    try:
        data = read_bytes(file)
        entries = task_entries(parse_document(file, data)) if _NAMES_A_FILE.search(data) else []
    except ProblemsFound:  # reported where the file itself is collected
        return
    for _, entry in entries:
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

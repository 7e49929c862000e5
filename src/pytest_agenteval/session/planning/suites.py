"""Suite files: found, loaded with their tools, and hints where one is missing or misspelt."""

from __future__ import annotations

import dataclasses
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stderr
from glob import iglob
from pathlib import Path

import pytest

from pytest_agenteval.processes.files import same_file_key, unportable_name_reason
from pytest_agenteval.records.plan import McpServer
from pytest_agenteval.records.record import FrozenValue, Record
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.suite_tools import ToolSources, find_tools
from pytest_agenteval.tasks.documents import is_task, parse_document, read_document, short_path
from pytest_agenteval.tasks.file_names import (
    SUITE_NAMES,
    find_suite,
    folder_of,
    is_calibration_name,
    is_data_name,
    is_set_aside_folder,
    is_task_name,
    names_rows,
)
from pytest_agenteval.tasks.load import (
    PROMOTED_FILE,
    WORDS_OF_A_TASK,
    DoubtfulFile,
    LoadedTask,
    load_suite,
    load_tasks,
    promoted_beside,
)
from pytest_agenteval.tasks.referenced_files import (
    ReferencedFiles,
    data_files,
    files_named_by_tasks,
    suite_paths,
)
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean, nearest_names
from pytest_agenteval.text.formatting import first_few


class SuiteResources(Record, frozen=True):
    """A suite's tool files, toolsets and servers, the names of all their tools, and its shared cassettes."""

    tools: tuple[str | McpServer, ...] = ()
    names: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()  # those that were read for the tools


def recordings_of(file: Path, root: Path) -> str:
    """Give the path of a file's recordings, without suffix: its path with ``cassettes/`` for ``evals/``."""
    top = str(root).rstrip(os.sep) + os.sep
    stem = str(file).rpartition(".")[0]
    below = stem[len(top) :] if stem.startswith(top) else Path(stem).name
    place = below.removeprefix(f"evals{os.sep}").removesuffix(f"{os.sep}task")
    return f"{top}cassettes{os.sep}{place}"


class LoadedSuite(FrozenValue, frozen=True):
    """A suite and the folder it rules; a file without a suite has an unnamed one of kind ``mixed``."""

    suite: Suite | None
    folder: Path | None
    resources: SuiteResources = SuiteResources()
    # The files that the suite names, which are not read as tasks.
    names: ReferencedFiles = ReferencedFiles((), Path())
    in_code: bool = False  # it is written in Python


NO_SUITE = LoadedSuite(None, None)


class Suites:
    """The suites below a root; each is read once."""

    def __init__(self, root: Path, sources: ToolSources | None = None) -> None:
        self._root, self._sources = root, sources or ToolSources(Registry())
        self._suites: dict[Path, LoadedSuite | ProblemsFound] = {}
        self._folders: dict[Path, Path | None] = {}
        self._apart: dict[Path, bool] = {}
        self._files_by_suite_name: dict[str, Path] = {}
        self._names_by_key: dict[str, str] = {}
        self._in_code: dict[str, tuple[Suite, str]] = {}
        self._by_tasks: dict[Path, ReferencedFiles] = {}

    def may_hold_tasks(self, path: Path) -> bool:
        """Whether a file may hold tasks, by its name, the suite above it and the folders on the way."""
        folder = folder_of(path)
        if path.name in SUITE_NAMES:
            # A suite file holds tasks if it names rows. A broken one may be meant to name some.
            loaded = self.suite_of(path)
            if isinstance(loaded, ProblemsFound):
                return names_rows(path) and not self._set_apart(folder)
            return bool(loaded.suite and loaded.suite.tasks) and not self._set_apart(folder)
        if self.file_of(folder) is None:
            return (is_task_name(path) or is_calibration_name(path)) and not self._set_apart(folder)
        return is_data_name(path.name) and not self._set_apart(folder)

    def belongs_to_none(self, path: Path) -> bool:
        """Whether a file lies in no suite and in no folder that is set apart."""
        return self.file_of(path.parent) is None and not self._set_apart(path.parent)

    def suite_of_name(self, name: str) -> Suite | None:
        """Give the suite of that name, among those that were read."""
        if name in self._in_code:
            return self._in_code[name][0]
        loaded_suites = (loaded for loaded in self._suites.values() if isinstance(loaded, LoadedSuite))
        return next((each.suite for each in loaded_suites if each.suite and each.suite.name == name), None)

    def file_named(self, name: str) -> Path | None:
        """Give the file of the suite of that name, among those that were read."""
        return self._files_by_suite_name.get(name)

    def file_of(self, folder: Path) -> Path | None:
        """Give the suite file that rules a folder, if one does."""
        if folder not in self._folders:
            try:
                self._folders[folder] = find_suite(folder, self._root)
            except ProblemsFound as wrong:  # two suite files in one folder: the first stands for both
                self._folders[folder] = file = Path(wrong.problems[0].file)
                self._suites[file] = ProblemsFound(
                    dataclasses.replace(problem, file=short_path(file)) for problem in wrong.problems
                )
        return self._folders[folder]

    def _set_apart(self, folder: Path) -> bool:
        """Whether a folder holds no tasks: what tasks work on, or what is set aside by its name."""
        # A suite of its own may lie in a folder of any name, unless it lies inside another suite.
        if folder not in self._apart:
            inner = folder != self._root and folder.is_relative_to(self._root)
            # A suite at the root also rules the root's own folders of starting trees and recordings, which
            # hold no tasks.
            top = self.file_of(folder) if folder.parent == self._root else None
            is_ours = (
                top is not None and top.parent == self._root and folder.name in ("fixtures", "cassettes")
            )
            has_set_aside_name = inner and (is_set_aside_folder(folder.name) or is_ours)
            suite = self.file_of(folder) if has_set_aside_name else None
            own = suite is not None and suite.parent == folder and self.file_of(folder.parent) is None
            self._apart[folder] = (has_set_aside_name and not own) or (
                inner and self._set_apart(folder.parent)
            )
        return self._apart[folder]

    def is_named(self, path: Path) -> bool:
        """Whether a file is named by its suite or by a task of the suite, or lies in a folder that is."""
        # The first call reads every task of the suite, so it is only made for files that cannot be tasks.
        loaded = self.suite_of(path)
        if isinstance(loaded, ProblemsFound) or loaded.folder is None:
            return False
        if path in loaded.names:
            return True
        folder = loaded.folder
        if folder not in self._by_tasks:
            # Every task file below the suite, also those that pytest does not collect.
            own = self.file_of(folder)
            files = (
                file
                for file in data_files(folder)
                if self.may_hold_tasks(file) and self.file_of(file.parent) == own
            )
            named = files_named_by_tasks(folder, self._root, (*files, *filter(None, (own,))))
            self._by_tasks[folder] = named
        return path in self._by_tasks[folder]

    def suite_of(self, path: Path) -> LoadedSuite | ProblemsFound:
        """Give the suite that rules a file, or everything that is wrong with it."""
        file = self.file_of(folder_of(path))
        if file is None:
            return NO_SUITE
        if file not in self._suites:
            self._suites[file] = self._load(file)
        return self._suites[file]

    def resources_of(self, suite: Suite, file: Path) -> SuiteResources:
        """Find what a suite names; raises ProblemsFound for what is not there or cannot be read."""
        root = self._root
        cassettes = dict(enumerate(suite.cassettes))
        shared = suite_paths(file.parent, "cassettes", cassettes, root / "cassettes", root, "file or folder")
        tools = find_tools(suite, file, recordings_of(file, root), root, self._sources) if suite.tools else ()
        return SuiteResources(
            tools=tuple(entry.planned for entry in tools),
            names=tuple(name for entry in tools for name in entry.names),
            shared=tuple(map(str, shared)),
            files=tuple(path for entry in tools for path in entry.files),
        )

    def take_in_code(self, suite: Suite, place: str) -> str:
        """Claim the name of a suite written in Python; return the place of another that has it, if any."""
        file = self._files_by_suite_name.get(suite.name)
        if file is not None:
            return short_path(file)
        first = self._in_code.setdefault(suite.name, (suite, place))[1]
        return "" if first == place else first

    def unknown_promoted(
        self, met: Mapping[str, Mapping[str, tuple[str, str]]], collected: Iterable[Path] | None
    ) -> list[Problem]:
        """Give the promoted or gated names that no task of their suite has.

        ``met`` holds the bucket and split of the tasks of each suite that were collected. pytest may have
        passed over others, so the suite's files are read where it lacks a name; a suite is left out where one
        of them has problems of its own.
        """
        below = None if collected is None else list(collected)
        problems: list[Problem] = []
        for file, loaded in self._suites.items():
            suite = loaded.suite if isinstance(loaded, LoadedSuite) else None
            if suite is None or suite.name not in met:
                continue
            if below is not None and not any(file.parent.is_relative_to(path) for path in below):
                continue
            known = {
                "tasks": {*met[suite.name]},
                "buckets": {bucket for bucket, _ in met[suite.name].values()},
            }
            promoted = [*_promoted_names(suite, file)]
            if all(name in known[kind] for _, kind, name, _ in promoted):
                continue
            try:
                for task in tasks_of_suite(self, file, suite):
                    known["tasks"].add(task.task.id)
                    known["buckets"].add(task.bucket)
            except ProblemsFound:
                continue
            for place, kind, name, path in promoted:
                if name not in known[kind]:
                    line = read_document(place).line_of(path)
                    expected = f"one of the suite's {kind}: {nearest_names(name, known[kind])}"
                    hint = did_you_mean(name, known[kind])
                    problems.append(Problem(short_path(place), line, path, expected, repr(name), hint))
        return problems

    def _load(self, file: Path) -> LoadedSuite | ProblemsFound:
        folder = file.parent
        try:
            suite = load_suite(file)
            self._take_name(suite.name, file)
            resources = self.resources_of(suite, file)
            prompts = (Path(os.path.normpath(folder / name)) for name in suite.prompts.values())
            named = [*resources.files, *map(Path, resources.shared), *prompts]
            if suite.tables:  # the files and folders whose rows are tasks
                from pytest_agenteval.tasks.row_tasks import rows_path, source_of

                named += filter(None, (rows_path(source_of(rows), folder) for rows in suite.tables.values()))
            return LoadedSuite(suite, folder, resources, ReferencedFiles(tuple(named), folder))
        except ProblemsFound as wrong:
            return wrong

    def _take_name(self, name: str, file: Path) -> None:
        """Refuse a name that another suite has: the trials of both would be averaged in one line."""
        expected, found = "a name that no other suite uses", ""
        first = self._files_by_suite_name.setdefault(name, file)
        other = self._names_by_key.setdefault(same_file_key(name), name)
        if trouble := unportable_name_reason(name):
            expected, found = "a name that every file system allows", trouble
        elif first != file or name in self._in_code:
            place = self._in_code[name][1] if name in self._in_code else short_path(first)
            found = f"which is also the name of {place}"
        elif other != name:
            found = f"which some file systems do not distinguish from the suite {other!r}"
        if found:
            line = read_document(file).line_of(("name",))
            raise ProblemsFound([Problem(short_path(file), line, ("name",), expected, f"{name!r}, {found}")])


class _SettingsReader:
    """Stores pytest's settings as soon as they are read, and ends pytest before it collects anything."""

    config: pytest.Config | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        self.config = config
        return 0


def is_suite_name(name: str) -> bool:
    return name in SUITE_NAMES


class SuiteSearch:
    """The suite files below a folder, in order: first those that a bare ``pytest`` in it would collect.

    Without ``testpaths``, or in a folder that is not pytest's rootdir, that is all of them. Folders that
    pytest passes over (``norecursedirs``, virtual environments) are passed over here.
    """

    def __init__(self, folder: Path) -> None:
        from pytest_agenteval.session.inner_pytest import pytest_here

        reader = _SettingsReader()
        with redirect_stderr(io.StringIO()):
            pytest_here(("--noconftest", str(folder)), reader)
        self.config = config = reader.config  # None where pytest cannot read its settings
        places: list[Path] = []
        if config is not None and folder == config.rootpath:
            for pattern in config.getini("testpaths"):
                places += (folder / name for name in sorted(iglob(pattern, root_dir=folder, recursive=True)))
        collected = list(self._below(places, is_suite_name))
        self.all = list(dict.fromkeys((*collected, *self._below([folder], is_suite_name))))
        self.collected = list(dict.fromkeys(collected)) or self.all
        self._places = places if collected else [folder]

    @property
    def rootdir(self) -> Path | None:
        """pytest's rootdir for files in the folder; None where it depends on pytest's arguments."""
        if (config := self.config) is None:
            return None
        has_settings = config.inipath is not None or (config.rootpath / "setup.py").is_file()
        return config.rootpath if has_settings else None

    def files(self, is_meant: Callable[[str], bool]) -> Iterator[Path]:
        """Give the files with such names that a bare ``pytest`` in the folder would see, in order."""
        return self._below(self._places, is_meant)

    def _below(self, places: Iterable[Path], is_meant: Callable[[str], bool]) -> Iterator[Path]:
        for place, folders, files in (each for top in places for each in os.walk(top)):
            inner = [Path(place, name) for name in sorted(folders) if not is_set_aside_folder(name)]
            if (config := self.config) is not None:
                ignore = config.hook.pytest_ignore_collect
                inner = [each for each in inner if not ignore(collection_path=each, config=config)]
            folders[:] = [each.name for each in inner]
            yield from (Path(place, name) for name in sorted(files) if is_meant(name))


def read_suite(file: Path, top: Path) -> Suite | None:
    """Read a suite's file; None for one that is no suite and lies in a Python package below ``top``."""
    # Such a file is data of the package, for example a template. Elsewhere a file with problems raises
    # ProblemsFound.
    try:
        return load_suite(file)
    except ProblemsFound:
        folders = (folder for folder in file.parents if folder.is_relative_to(top) and folder != top)
        if any((folder / "__init__.py").is_file() for folder in folders):
            return None
        raise


def tasks_of_suite(
    suites: Suites, file: Path, suite: Suite, *, lenient: bool = False
) -> Iterator[LoadedTask]:
    """Read every task that a suite's file rules, in the order of their paths; rows of tables come last."""
    # Raises ProblemsFound for a file that cannot be read or holds a task with problems, unless ``lenient`` is
    # set. A file that may be a broken task counts as one, unless a task names the file as its data.
    folder = file.parent
    for path in [*sorted(data_files(folder)), *([file] if suite.tasks else [])]:
        if path == file or (suites.may_hold_tasks(path) and suites.file_of(path.parent) == file):
            try:
                yield from load_tasks(path, suite, folder)
            except ProblemsFound as wrong:
                is_data = isinstance(wrong, DoubtfulFile) and not is_task_name(path) and suites.is_named(path)
                if not (lenient or is_data):
                    raise


def _promoted_names(suite: Suite, file: Path) -> Iterator[tuple[Path, str, str, KeyPath]]:
    """Give the tasks and buckets that a suite promotes or gates, each with the file and key that names it."""
    beside = promoted_beside(file)
    for kind in ("buckets", "tasks"):
        names: tuple[str, ...] = getattr(beside, kind)
        for at, name in enumerate(getattr(suite.regression, kind)):
            if name in names:
                yield file.with_name(PROMOTED_FILE), kind, name, (kind, names.index(name))
            else:
                yield file, kind, name, ("regression", kind, at)
    for name in suite.gate.buckets:
        yield file, "buckets", name, ("gate", "buckets", name)


LARGEST_FILE = 1_000_000  # bytes of the largest file that hints look into: it may be anybody's
MOST_FOLDERS = 3
_WORDS_OF_A_SUITE = (re.compile(rb"\btasks\b"), re.compile(rb"\bagent\b"), re.compile(rb"\bgraders\b"))


def missing_suite_hints(paths: Iterable[Path], root: Path) -> list[str]:
    """Name files that look like tasks although no suite rules their folder."""
    # ``paths`` are files that were not collected. Each folder gets one line, except folders below one that
    # has a line: a suite there would rule them too. A file at the root may be anybody's, so it hides no
    # folder.
    suites = Suites(root)
    tasks: dict[Path, Path] = {}
    misnamed: list[str] = []
    for path in paths:
        if _looks_like_a_suite(path) and suites.belongs_to_none(path):
            ending = path.suffix.lower()
            misnamed.append(f"{short_path(path)} looks like a suite: rename it to suite{ending}")
            continue
        above = {*path.parents} - ({root} - {path.parent})
        if above.isdisjoint(tasks) and suites.belongs_to_none(path) and _looks_like_a_task(path):
            tasks[path.parent] = path
    lines = [
        f"{short_path(path)} looks like a task, but there is no suite.yaml in its folder or above"
        for path in tasks.values()
    ]
    return first_few([*misnamed, *lines], MOST_FOLDERS, "and the same in {} more folders")


def _looks_like_a_suite(path: Path) -> bool:
    """Whether a file that is no suite by its name holds tasks beside the agent that does them."""
    # As in suites.yaml, Suite.yaml or support.yaml; another tool's file has no graders.
    value = _value_of(path, _WORDS_OF_A_SUITE)
    return isinstance(value, dict) and {"agent", "tasks"} <= value.keys() and path.name not in SUITE_NAMES


def _value_of(path: Path, words: Iterable[re.Pattern[bytes]]) -> object:
    """Give what a JSON or YAML file with such words holds; None where that cannot be read."""
    try:
        data = path.read_bytes() if path.stat().st_size <= LARGEST_FILE else b""
        return parse_document(path, data).value if all(word.search(data) for word in words) else None
    except (OSError, ProblemsFound):
        return None


def _looks_like_a_task(path: Path) -> bool:
    value = _value_of(path, WORDS_OF_A_TASK) if is_data_name(path.name) else None
    return any(map(is_task, value if isinstance(value, list) else [value]))

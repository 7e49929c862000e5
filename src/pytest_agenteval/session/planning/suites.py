"""Which suite rules a folder, what it brings along, and which files below it may hold tasks."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.processes.files import name_trouble, same_file_key
from pytest_agenteval.records.plan import McpServer
from pytest_agenteval.records.record import FrozenValue, Record
from pytest_agenteval.session.planning.suite_tools import ToolSources, find_tools
from pytest_agenteval.tasks.documents import read_document, short_path
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
from pytest_agenteval.tasks.load import load_suite
from pytest_agenteval.tasks.referenced_files import ReferencedFiles, files_named_by_tasks, suite_paths
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.text.errors import Problem, ProblemsFound


class SuiteResources(Record, frozen=True):
    """A suite's tool files, toolsets and servers, the names of all their tools, and its shared cassettes.

    ``files`` are those that were read for the tools.
    """

    tools: tuple[str | McpServer, ...] = ()
    names: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()


NO_RESOURCES = SuiteResources()
NO_SOURCES = ToolSources()


def load_suite_resources(suite: Suite, file: Path, root: Path, sources: ToolSources) -> SuiteResources:
    """Find what a suite file names; raises ProblemsFound for what is not there or cannot be read."""
    cassettes = dict(enumerate(suite.cassettes))
    shared = suite_paths(file.parent, "cassettes", cassettes, root / "cassettes", root, "file or folder")
    tools = find_tools(suite, file, recordings_of(file, root), root, sources) if suite.tools else ()
    return SuiteResources(
        tools=tuple(entry.planned for entry in tools),
        names=tuple(name for entry in tools for name in entry.names),
        shared=tuple(map(str, shared)),
        files=tuple(path for entry in tools for path in entry.files),
    )


def recordings_of(file: Path, root: Path) -> str:
    """Give a file's path below ``cassettes/`` in place of ``evals/``, without its ending: its recordings."""
    top = str(root).rstrip(os.sep) + os.sep
    stem = str(file).rpartition(".")[0]
    below = stem[len(top) :] if stem.startswith(top) else Path(stem).name
    place = below.removeprefix(f"evals{os.sep}").removesuffix(f"{os.sep}task")
    return f"{top}cassettes{os.sep}{place}"


NO_FILES = ReferencedFiles((), Path())


class LoadedSuite(FrozenValue, frozen=True):
    """A suite and the folder it rules; a file without a suite has an unnamed one of kind ``mixed``.

    ``names`` are the files and folders that the suite names: they hold no tasks. One that is written in
    Python is ``in_code``.
    """

    suite: Suite | None
    folder: Path | None
    resources: SuiteResources = NO_RESOURCES
    names: ReferencedFiles = NO_FILES
    in_code: bool = False


NO_SUITE = LoadedSuite(None, None)


class Suites:
    """The suites below a root; each is read once."""

    def __init__(self, root: Path, sources: ToolSources = NO_SOURCES) -> None:
        self._root, self._sources = root, sources
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
            return self._names_rows(path) and not self._set_apart(folder)
        if self.file_of(folder) is None:
            return (is_task_name(path) or is_calibration_name(path)) and not self._set_apart(folder)
        return is_data_name(path.name) and not self._set_apart(folder)

    def _names_rows(self, file: Path) -> bool:
        """Whether a suite's file makes tasks of rows, or is broken and may be meant to."""
        loaded = self.of(file)
        if isinstance(loaded, ProblemsFound):
            return names_rows(file)
        return loaded.suite is not None and bool(loaded.suite.tasks)

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
            except ProblemsFound as wrong:  # two suite files in one folder
                self._folders[folder] = file = Path(wrong.problems[0].file)
                self._suites[file] = ProblemsFound(
                    dataclasses.replace(problem, file=short_path(file)) for problem in wrong.problems
                )
        return self._folders[folder]

    def _set_apart(self, folder: Path) -> bool:
        """Whether a folder holds what tasks work on, or what nobody is to look at, and no tasks.

        A suite of its own may lie in a folder of any name, unless it lies inside another suite.
        """
        if folder not in self._apart:
            inner = folder != self._root and folder.is_relative_to(self._root)
            has_set_aside_name = inner and (is_set_aside_folder(folder.name) or self._is_ours(folder))
            suite = self.file_of(folder) if has_set_aside_name else None
            own = suite is not None and suite.parent == folder and self.file_of(folder.parent) is None
            self._apart[folder] = (has_set_aside_name and not own) or (
                inner and self._set_apart(folder.parent)
            )
        return self._apart[folder]

    def _is_ours(self, folder: Path) -> bool:
        """Whether a suite at the root meets the root's folder of starting trees or of recordings."""
        file = self.file_of(folder) if folder.parent == self._root else None
        return file is not None and file.parent == self._root and folder.name in ("fixtures", "cassettes")

    def is_named(self, path: Path) -> bool:
        """Whether a file is named by its suite or by a task of the suite, or lies in a folder that is.

        The first time, every task of the suite is read: ask only of a file that is no task for certain.
        """
        loaded = self.of(path)
        if isinstance(loaded, ProblemsFound) or loaded.folder is None:
            return False
        return path in loaded.names or path in self._named_by_tasks(loaded.folder)

    def _named_by_tasks(self, folder: Path) -> ReferencedFiles:
        if folder not in self._by_tasks:
            of_suite = self.file_of(folder)
            self._by_tasks[folder] = files_named_by_tasks(
                folder,
                self._root,
                lambda file: self.may_hold_tasks(file) and self.file_of(file.parent) == of_suite,
            )
        return self._by_tasks[folder]

    def of(self, path: Path) -> LoadedSuite | ProblemsFound:
        """Give the suite that rules a file, or everything that is wrong with it."""
        file = self.file_of(folder_of(path))
        if file is None:
            return NO_SUITE
        if file not in self._suites:
            self._suites[file] = self._load(file)
        return self._suites[file]

    def resources_in_code(self, suite: Suite, file: Path) -> SuiteResources:
        """Find what a suite names that is written in a Python file; raises ProblemsFound."""
        return load_suite_resources(suite, file, self._root, self._sources)

    def take_in_code(self, suite: Suite, place: str) -> str:
        """Take the name of a suite that is written in Python; gives the place of another that has it."""
        file = self._files_by_suite_name.get(suite.name)
        if file is not None:
            return short_path(file)
        first = self._in_code.setdefault(suite.name, (suite, place))[1]
        return "" if first == place else first

    def _take_name(self, name: str, file: Path) -> None:
        """See that no other suite has this name: their trials would be averaged in one line."""
        expected, found = "a name that no other suite has", ""
        first = self._files_by_suite_name.setdefault(name, file)
        other = self._names_by_key.setdefault(same_file_key(name), name)
        if trouble := name_trouble(name):
            expected, found = "a name that files of any system may have", trouble
        elif first != file or name in self._in_code:
            place = self._in_code[name][1] if name in self._in_code else short_path(first)
            found = f"which is also the name of {place}"
        elif other != name:
            found = f"which some systems take for {other!r}, another suite"
        if found:
            line = read_document(file).line_of(("name",))
            raise ProblemsFound([Problem(short_path(file), line, ("name",), expected, f"{name!r}, {found}")])

    def _load(self, file: Path) -> LoadedSuite | ProblemsFound:
        try:
            suite = load_suite(file)
            self._take_name(suite.name, file)
            folder = file.parent
            resources = load_suite_resources(suite, file, self._root, self._sources)
            prompts = (Path(os.path.normpath(folder / name)) for name in suite.prompts.values())
            named = (*resources.files, *map(Path, resources.shared), *prompts, *_tables(suite, folder))
            names = ReferencedFiles(named, folder)
            return LoadedSuite(suite, folder, resources, names)
        except ProblemsFound as wrong:
            return wrong


def _tables(suite: Suite, folder: Path) -> Iterator[Path]:
    """Give the files and folders whose rows are tasks."""
    if not suite.tasks:
        return
    from pytest_agenteval.tasks.rows.row_tasks import rows_path, source_of

    yield from filter(None, (rows_path(source_of(rows), folder) for rows in suite.tables))

"""Are the buckets and tasks there that a suite's file names: promoted ones, and those of its gate?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pytest_agenteval.session.planning.suites import LoadedSuite, Suites
from pytest_agenteval.tasks.documents import read_document, short_path
from pytest_agenteval.tasks.file_names import is_task_name
from pytest_agenteval.tasks.load import DoubtfulFile, LoadedTask, load_tasks
from pytest_agenteval.tasks.referenced_files import data_files
from pytest_agenteval.tasks.suite_spec import NOTHING_PROMOTED, Suite
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, nearest, nearest_names


def tasks_of_suite(suites: Suites, file: Path, suite: Suite) -> Iterator[LoadedTask]:
    """Read every task that a suite's file rules, in the order of their paths; rows of tables come last.

    Raises ProblemsFound for a file that cannot be read, or holds a task with problems; what may be a broken
    task is one, unless a task names the file as its data.
    """
    folder = file.parent
    for path in sorted(data_files(folder)):
        if suites.may_hold_tasks(path) and suites.file_of(path.parent) == file:
            try:
                yield from load_tasks(path, suite, folder)
            except DoubtfulFile:
                if is_task_name(path) or not suites.is_named(path):
                    raise
    if suite.tasks:
        yield from load_tasks(file, suite, folder)


class PromotedNames:
    """What suites' files name, beside the buckets and tasks that were met while collecting."""

    def __init__(self, suites: Suites) -> None:
        self._suites = suites
        self._promoting: dict[Path, Suite] = {}
        self._buckets: dict[Path, set[str]] = defaultdict(set)
        self._tasks: dict[Path, set[str]] = defaultdict(set)

    def meet(self, loaded_suite: LoadedSuite, tasks: Iterable[LoadedTask]) -> None:
        """Take note of tasks, where their suite has promoted anything, or has a gate for a bucket."""
        suite, folder = loaded_suite.suite, loaded_suite.folder
        file = self._suites.file_of(folder) if suite and folder else None
        if suite is None or file is None or not (suite.regression != NOTHING_PROMOTED or suite.gate.buckets):
            return
        self._promoting[file] = suite
        self._meet(file, tasks)

    def _meet(self, file: Path, tasks: Iterable[LoadedTask]) -> None:
        for loaded in tasks:
            self._buckets[file].add(loaded.bucket)
            self._tasks[file].add(loaded.task.id)

    def problems(self, collected: Iterable[Path] | None = None) -> list[Problem]:
        """Say which of these names no task of their suite has; of suites below the ``collected`` paths only.

        What was not met is looked up in the files of the suite: pytest may have been told to pass them over.
        Where one of these has problems of its own nobody can tell.
        """
        below = None if collected is None else list(collected)
        problems: list[Problem] = []
        for file, suite in self._promoting.items():
            if below is not None and not any(file.parent.is_relative_to(path) for path in below):
                continue
            if next(self._unknown(file, suite), None):
                try:
                    self._meet(file, tasks_of_suite(self._suites, file, suite))
                except ProblemsFound:
                    continue
                problems += self._unknown(file, suite)
        return problems

    def _unknown(self, file: Path, suite: Suite) -> Iterator[Problem]:
        regression = suite.regression
        promoted_buckets = [("regression", "buckets", at) for at in range(len(regression.buckets))]
        promoted_tasks = [("regression", "tasks", at) for at in range(len(regression.tasks))]
        gated = [("gate", "buckets", name) for name in suite.gate.buckets]
        yield from self._missing(file, "buckets", regression.buckets, promoted_buckets)
        yield from self._missing(file, "tasks", regression.tasks, promoted_tasks)
        yield from self._missing(file, "buckets", list(suite.gate.buckets), gated)

    def _missing(
        self, file: Path, kind: str, names: Sequence[str], paths: Sequence[KeyPath]
    ) -> Iterator[Problem]:
        known = self._buckets[file] if kind == "buckets" else self._tasks[file]
        for name, path in zip(names, paths, strict=True):
            if name not in known:
                line = read_document(file).line_of(path)
                expected = f"one of the suite's {kind}: {nearest_names(name, known)}"
                yield Problem(short_path(file), line, path, expected, repr(name), nearest(name, known))

"""Today's files of suites: all tasks of a suite, and those of which a run has trials."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.session.planning.suites import Suites, tasks_of_suite
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.file_names import project_root
from pytest_agenteval.tasks.load import LoadedTask, load_suite
from pytest_agenteval.tasks.referenced_files import prompt_files, workspace_layers
from pytest_agenteval.tasks.suite_spec import Suite, resolve_settings
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.errors import ProblemsFound

# A text among an agent's settings counts as an instruction if it has this many characters.
SHORTEST_INSTRUCTION = 60


class SuiteWithTasks(FrozenValue, frozen=True):
    """A suite, its file, and its tasks, each with the folders that make its starting workspace."""

    file: Path
    suite: Suite
    tasks: tuple[LoadedTask, ...]
    layers: tuple[tuple[Path, ...], ...]


def suite_with_tasks(file: Path) -> SuiteWithTasks:
    """Read a suite's file and all of its tasks; raises ProblemsFound for a file with problems."""
    file = Path(os.path.abspath(file))
    root = project_root(file)
    return _with_tasks(Suites(root), root, file, load_suite(file))


def _with_tasks(
    suites: Suites, root: Path, file: Path, suite: Suite, *, lenient: bool = False
) -> SuiteWithTasks:
    tasks, layers = [], []
    for loaded in tasks_of_suite(suites, file, suite, lenient=lenient):
        try:
            layers.append(workspace_layers(loaded.task, file.parent, loaded.file, root))
        except ProblemsFound:
            if not lenient:
                raise
            layers.append(())
        tasks.append(loaded)
    return SuiteWithTasks(file, suite, tuple(tasks), tuple(layers))


def files_root(run: Run) -> Path:
    """Give the folder from which the task files of a run are named: pytest's rootdir."""
    # A verb may be started below it, or from elsewhere.
    places = dict.fromkeys((Path.cwd(), *Path.cwd().parents, *run.folder.resolve().parents))
    names = {entry.file for entry in run.entries if entry.file}
    return next((at for at in places if any((at / name).is_file() for name in names)), Path.cwd())


class TodaysTasks:
    """The suites of a run as their files are today.

    A file that is missing or has problems is passed over: feedback is about trials of the past.
    """

    def __init__(self, run: Run, root: Path | None) -> None:
        self._root = root or files_root(run)
        suites, self.suites = Suites(self._root), list[SuiteWithTasks]()
        names = sorted({entry.file for entry in run.entries if entry.file})
        for file in dict.fromkeys(suites.file_of((self._root / name).parent) for name in names):
            try:
                suite = load_suite(file) if file else None
            except ProblemsFound:
                continue
            if file and suite:
                self.suites.append(_with_tasks(suites, self._root, file, suite, lenient=True))
        every = ((of, loaded) for of in self.suites for loaded in of.tasks)
        self._tasks = {(of.suite.name, loaded.task.id): (loaded, of) for of, loaded in every}

    def task(self, key: TrialKey) -> Task | None:
        """Give a trial's task as its file has it today; None where there is none."""
        place = self._tasks.get((key.suite, key.task))
        return place[0].task if place else None

    def without_file(self, entries: Iterable[JournalEntry]) -> int:
        """Count the tasks that a file had when they were tried, and none has today."""
        return len({entry.key[:2] for entry in entries if entry.file and self.task(entry.key) is None})

    def split(self, entry: JournalEntry) -> str:
        """Give the split of a trial: ``dev``, ``held_out``, or empty where it is not known."""
        task = self.task(entry.key)
        # Held out is whatever either the journal or today's file calls held out.
        splits = {entry.split, task.split if task else None}
        return next((split for split in ("held_out", "dev") if split in splits), "")

    def tried(self, entries: Iterable[JournalEntry]) -> Iterator[tuple[LoadedTask, SuiteWithTasks]]:
        """Give the tasks of these trials, each once, as far as there are files of them today."""
        keys = dict.fromkeys((entry.key.suite, entry.key.task) for entry in entries)
        yield from (self._tasks[key] for key in keys if key in self._tasks)

    def prompt_files(self, loaded: LoadedTask, of: SuiteWithTasks) -> Mapping[str, Path]:
        try:
            return prompt_files(loaded.task, of.suite, of.file.parent, loaded.file, self._root)
        except ProblemsFound:
            return {}


def instructions(loaded: LoadedTask, of: SuiteWithTasks) -> Mapping[tuple[str, Path], str]:
    """Give the long texts among a task's settings by their names and the files that they stand in."""
    return {
        (f"settings.{name}", loaded.file if name in loaded.task.settings else of.file): text
        for name, text in resolve_settings(loaded.task, of.suite).settings.items()
        if isinstance(text, str) and len(text) >= SHORTEST_INSTRUCTION
    }

"""A suite in a worktree: its tasks, the files of those that are held out, and its prompts by their names."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.session.planning.suites import Suites, tasks_of_suite
from pytest_agenteval.tasks.file_names import is_task_name
from pytest_agenteval.tasks.load import load_suite
from pytest_agenteval.tasks.referenced_files import prompt_files


class TaskPlace(FrozenValue, frozen=True):
    """A task of a suite, and the paths of its file and prompts from the top of the tree.

    ``table`` is the file whose row the task is, if it is one.
    """

    id: str
    bucket: str
    held_out: bool
    file: str
    prompts: Mapping[str, str]
    table: str = ""

    @property
    def written_in(self) -> str:
        """The file in which the task's own words stand."""
        return self.table or self.file


class SuiteTasks(FrozenValue, frozen=True):
    """A suite's name, and its tasks in the order of their files."""

    name: str
    tasks: tuple[TaskPlace, ...]

    @property
    def dev(self) -> tuple[TaskPlace, ...]:
        """The tasks that one works with."""
        return tuple(task for task in self.tasks if not task.held_out)

    @property
    def held_out(self) -> tuple[TaskPlace, ...]:
        """The tasks that nobody looks at."""
        return tuple(task for task in self.tasks if task.held_out)

    def focus(self, buckets: Collection[str]) -> tuple[TaskPlace, ...]:
        """The tasks that one works with, of these buckets."""
        return tuple(task for task in self.dev if task.bucket in buckets)

    @property
    def dev_buckets(self) -> tuple[str, ...]:
        """The buckets of the tasks that one works with."""
        return tuple(dict.fromkeys(task.bucket for task in self.dev))


def read_suite_tasks(tree: Path, suite_file: str) -> SuiteTasks:
    """Read a suite in a tree, by the path of its file from the top; raises ProblemsFound for a broken one."""
    file = tree / suite_file
    suite = load_suite(file)
    tasks = [
        TaskPlace(
            id=loaded.task.id,
            bucket=loaded.bucket,
            held_out=loaded.task.split == "held_out",
            file=_from_top(loaded.file, tree),
            prompts={
                name: _from_top(path, tree)
                for name, path in prompt_files(loaded.task, suite, file.parent, loaded.file, tree).items()
            },
            table=_from_top(loaded.place.file, tree) if loaded.place and loaded.place.file else "",
        )
        for loaded in tasks_of_suite(Suites(tree), file, suite)
    ]
    return SuiteTasks(suite.name, tuple(tasks))


def held_out_files(tasks: Iterable[TaskPlace], files: Iterable[str]) -> list[str]:
    """Give those of a tree's files that are of held-out tasks: theirs, what lies beside them, recordings.

    What lies in a folder of a task's own is the task's, unless a task of split dev lies there too. A file
    that holds tasks of both splits is among them.
    """
    every = list(tasks)
    own = {task.written_in for task in every if task.held_out}
    dev = [
        PurePosixPath(task.written_in) for task in every if not task.held_out and task.written_in not in own
    ]
    folders = {
        folder
        for file in own
        if is_task_name(Path(file))
        and not any(each.is_relative_to(folder := PurePosixPath(file).parent) for each in dev)
    }
    files_of_own = {task.file for task in every if task.held_out}
    recordings = {recording for file in files_of_own for recording in _recordings(PurePosixPath(file))}
    return [
        file
        for file in files
        if file in own
        or any(PurePosixPath(file).is_relative_to(folder) for folder in folders)
        or any(f"/{file}".find(f"/{recording}") >= 0 for recording in recordings)
    ]


def _recordings(file: PurePosixPath) -> Iterator[str]:
    """Give how the paths of a task's recordings begin below the project's root."""
    parts = file.parts
    below = parts[parts.index("evals") + 1 :] if "evals" in parts else parts
    place = PurePosixPath(*below)
    place = place.parent if is_task_name(Path(place.name)) else place.with_suffix("")
    yield from (f"cassettes/{place}{end}" for end in "./")


def prompts_to_replace(
    tasks: Iterable[TaskPlace], changed: Collection[str], texts: Mapping[str, str]
) -> dict[str, str]:
    """Give the new texts of the changed files by the names that the suite has for them.

    Empty where replacing them by name would not be what the files are: a file has no name, its name is that
    of another file for some task, or no file can bear it.
    """
    places: dict[str, set[str | None]] = {}
    every = list(tasks)
    for name in {name for task in every for name in task.prompts}:
        places[name] = {task.prompts.get(name) for task in every}
    named = {name: path for name, paths in places.items() for path in paths if path in changed}
    whole = all(places[name] == {path} for name, path in named.items()) and set(named.values()) == set(
        changed
    )
    if not whole or not all(path in texts for path in changed) or not all(map(_is_plain, named)):
        return {}
    return {name: texts[path] for name, path in named.items() if path is not None}


def _is_plain(name: str) -> bool:
    return bool(name) and not set("./\\") & set(name) and name.isprintable()


def _from_top(path: Path, tree: Path) -> str:
    return Path(os.path.relpath(path, tree)).as_posix()

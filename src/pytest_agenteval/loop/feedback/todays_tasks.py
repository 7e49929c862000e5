"""The tasks of a run as their files have them today, and earlier rounds without what quotes held-out ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.loop.contamination.search import suite_leaks
from pytest_agenteval.loop.contamination.task_texts import Leak, SuiteWithTasks, read_suites
from pytest_agenteval.loop.feedback.content import EarlierRound
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.session.planning.suites import Suites
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.load import LoadedTask, load_suite, load_tasks
from pytest_agenteval.tasks.referenced_files import data_files, prompt_files, workspace_layers
from pytest_agenteval.tasks.suite_spec import Suite, resolve_settings
from pytest_agenteval.tasks.task_spec import Task, Turn
from pytest_agenteval.text.errors import AgentEvalError, ProblemsFound

SHORTEST_TEXT = 12
"""Characters from which on a text of a held-out task tells of it, and is no common word."""

SHORTEST_INSTRUCTION = 60
"""Characters from which on a text among an agent's settings is taken for an instruction."""

ROUND_TEXTS = ("summary", "decision", "diff", "sentence")
HIDDEN = "(a line that quotes a held-out task)"


class _SuiteFolder(FrozenValue, frozen=True):
    """A suite of today: what its file says, and its tasks."""

    suite: Suite
    file: Path
    tasks: tuple[LoadedTask, ...]


class TodaysTasks:
    """The files of today of the suites of a run, by the names that the run has for them.

    A file that is not there, or has problems, tells nothing: feedback is about trials that were.
    """

    def __init__(self, run: Run, root: Path | None) -> None:
        roots = [root] if root else [Path.cwd(), *run.folder.resolve().parents]
        files = {entry.file for entry in run.entries if entry.file}
        self._root = next((at for at in roots if any((at / file).is_file() for file in files)), roots[0])
        self._suites = tuple(self._folders(self._root / file for file in sorted(files)))
        self._tasks: Mapping[tuple[str, str], tuple[LoadedTask, _SuiteFolder]] = {
            (each.suite.name, loaded.task.id): (loaded, each)
            for each in self._suites
            for loaded in each.tasks
        }

    def _folders(self, files: Iterable[Path]) -> Iterator[_SuiteFolder]:
        suites, seen = Suites(self._root), set[Path]()
        for path in files:
            file = suites.file_of(path.parent)
            if file is None or file in seen:
                continue
            seen.add(file)
            try:
                suite = load_suite(file)
            except ProblemsFound:
                continue
            yield _SuiteFolder(suite, file, tuple(_tasks_below(suites, file, suite)))

    @property
    def suite_folders(self) -> list[Path]:
        """Give the folders of the suites."""
        return [each.file.parent for each in self._suites]

    def task(self, entry: JournalEntry) -> Task | None:
        """Give a trial's task as its file has it today; None where there is none."""
        return self.task_named(entry.key.suite, entry.key.task)

    def task_named(self, suite: str, task: str) -> Task | None:
        """Give a task by its suite and its id; None where no file of today has it."""
        place = self._tasks.get((suite, task))
        return place[0].task if place else None

    def without_file(self, entries: Iterable[JournalEntry]) -> int:
        """Count the tasks that a file had when they were tried, and none has today."""
        return len({entry.key[:2] for entry in entries if entry.file and self.task(entry) is None})

    def split(self, entry: JournalEntry) -> str:
        """Tell of which split a trial is: ``dev``, ``held_out``, or empty where nobody can tell.

        Held out is what either the journal or the file of today says is held out.
        """
        task = self.task(entry)
        splits = {entry.split, task.split if task else None}
        return next((split for split in ("held_out", "dev") if split in splits), "")

    def prompt_files(self, entry: JournalEntry) -> Mapping[str, Path]:
        """Give the files of the prompts that a trial's task and suite name."""
        place = self._tasks.get((entry.key.suite, entry.key.task))
        if place is None:
            return {}
        loaded, of = place
        try:
            return prompt_files(loaded.task, of.suite, of.file.parent, loaded.file, self._root)
        except ProblemsFound:
            return {}

    def instructions(self, entry: JournalEntry) -> Mapping[str, tuple[Path, str]]:
        """Give the long texts among a trial's settings: where each stands, and the text."""
        place = self._tasks.get((entry.key.suite, entry.key.task))
        if place is None:
            return {}
        loaded, of = place
        settings = resolve_settings(loaded.task, of.suite).settings
        texts = {name: text for name, text in settings.items() if isinstance(text, str)}
        return {
            f"settings.{name}": (loaded.file if name in loaded.task.settings else of.file, text)
            for name, text in texts.items()
            if len(text) >= SHORTEST_INSTRUCTION
        }

    @cached_property
    def held_out_texts(self) -> frozenset[str]:
        """The lines that held-out tasks have and no task of split dev: ids, inputs, what is expected."""
        held_out, dev = set[str](), set[str]()
        trees: dict[Path, bool] = {}
        for loaded, of in self._tasks.values():
            is_held_out = loaded.task.split == "held_out"
            (held_out if is_held_out else dev).update((loaded.task.id, *_texts_of(loaded.task)))
            for layer in self._layers(loaded, of):
                trees[layer] = trees.get(layer, True) and is_held_out
        # A tree that dev tasks start from as well gives nothing away.
        held_out.update(text for tree, only in trees.items() if only for text in _texts_below(tree))
        return frozenset(held_out - dev)

    def _layers(self, loaded: LoadedTask, of: _SuiteFolder) -> tuple[Path, ...]:
        try:
            return workspace_layers(loaded.task, of.file.parent, loaded.file, self._root)
        except ProblemsFound:
            return ()


def _tasks_below(suites: Suites, file: Path, suite: Suite) -> Iterator[LoadedTask]:
    files = [*sorted(data_files(file.parent)), *([file] if suite.tasks else [])]
    for path in files:
        if suites.may_hold_tasks(path) and suites.file_of(path.parent) == file:
            try:
                yield from load_tasks(path, suite, file.parent)
            except ProblemsFound:
                continue


def _texts_below(folder: Path) -> Iterator[str]:
    """Give the longer lines of the files of a starting workspace."""
    for file in sorted(folder.rglob("*")):
        try:
            yield from _texts_of(file.read_text(encoding="utf-8")) if file.is_file() else ()
        except (OSError, UnicodeDecodeError):
            continue


def _texts_of(value: object) -> Iterator[str]:
    """Give the longer lines of what somebody could quote of a task."""
    if isinstance(value, Task):
        configs = [grader.config for grader in value.graders]
        solution = value.reference_solution.turns if value.reference_solution else ()
        yield from _texts_of([value.description, value.input, solution, configs])
    elif isinstance(value, str):
        yield from (text for line in value.splitlines() if len(text := line.strip()) >= SHORTEST_TEXT)
    elif isinstance(value, Mapping):
        yield from (text for part in value.values() for text in _texts_of(part))
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in _texts_of(part))
    elif isinstance(value, Turn):
        yield from _texts_of([value.text, [call.args for call in value.calls]])


def hide_held_out(rounds: Sequence[EarlierRound], tasks: TodaysTasks) -> tuple[EarlierRound, ...]:
    """Take out each line that has a line of a held-out task, or what ``leaks`` would find of one."""
    if not rounds:
        return ()
    suites = [suite for folder in tasks.suite_folders for suite in _readable_suites(folder)]
    texts = {
        f"{at}/{name}": _hide_lines(getattr(each, name), tasks.held_out_texts)
        for at, each in enumerate(rounds)
        for name in ROUND_TEXTS
    }
    clean = dict(texts)
    while leaks := _held_out_leaks(clean, suites):
        for leak in leaks:
            lines = clean[leak.file].split("\n")
            lines[leak.line - 1] = HIDDEN
            clean[leak.file] = "\n".join(lines)
    return tuple(
        replace(each, **{name: clean[f"{at}/{name}"] for name in ROUND_TEXTS})
        for at, each in enumerate(rounds)
    )


def _readable_suites(folder: Path) -> Iterator[SuiteWithTasks]:
    try:
        yield from read_suites(folder)
    except AgentEvalError:  # a suite with problems: its lines are known all the same
        return


def _hide_lines(text: str, lines: frozenset[str]) -> str:
    if not any(line in text for line in lines):
        return text
    return "\n".join(HIDDEN if any(line in own for line in lines) else own for own in text.splitlines())


def _held_out_leaks(texts: Mapping[str, str], suites: Sequence[SuiteWithTasks]) -> list[Leak]:
    """Give where a text quotes a held-out task; a line that is hidden already quotes nothing."""
    leaks = suite_leaks({}, texts, suites)
    return [leak for leak in leaks if leak.split == "held_out" and leak.text != HIDDEN]

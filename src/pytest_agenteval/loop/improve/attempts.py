"""What an improvement has pytest run: the start, a round's old and new, held-out tasks; and what it takes."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from statistics import fmean as mean
from typing import Literal

from msgspec.structs import replace

from pytest_agenteval.loop.feedback.trial_selection import worst_first
from pytest_agenteval.loop.improve.acceptance import confirm, focus_change, repetitions_to_confirm
from pytest_agenteval.loop.improve.paired_runs import (
    PairedRuns,
    RunFailed,
    RunOrder,
    count_collected,
    run_one,
    run_pair,
    spent_on,
)
from pytest_agenteval.loop.improve.progress import HeldOut, Improvement, StartRun, TriedPair
from pytest_agenteval.loop.improve.repository import Repository
from pytest_agenteval.loop.todays_tasks import suite_with_tasks
from pytest_agenteval.processes.files import portable_name
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.comparison_text import headline
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import HEADER, keeping_latest, list_runs
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.tasks.file_names import SUITE_NAMES, is_task_name
from pytest_agenteval.tasks.referenced_files import prompt_files
from pytest_agenteval.text.formatting import one_line, pluralize

HELD_OUT = "held-out"
MOST_MESSAGE = 200
NO_EFFECT = (
    "every trial scored the same: the agent may read these files from where it is installed "
    "(pip install -e), and not from the checkout that it runs in"
)

MOST_REPETITIONS = 8


class TreeTask(FrozenValue, frozen=True):
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


class TreeSuite(FrozenValue, frozen=True):
    """A suite's name, and its tasks in the order of their files."""

    name: str
    tasks: tuple[TreeTask, ...]

    @property
    def dev(self) -> tuple[TreeTask, ...]:
        """The tasks of split dev, which feedback may show."""
        return tuple(task for task in self.tasks if not task.held_out)

    @property
    def held_out(self) -> tuple[TreeTask, ...]:
        """The tasks of split held_out, which no coding agent may see."""
        return tuple(task for task in self.tasks if task.held_out)

    def focus(self, buckets: Collection[str]) -> tuple[TreeTask, ...]:
        return tuple(task for task in self.dev if task.bucket in buckets)

    @property
    def dev_buckets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(task.bucket for task in self.dev))


def read_tree_suite(tree: Path, suite_file: str) -> TreeSuite:
    """Read a suite in a tree, by the path of its file from the top; raises ProblemsFound for a broken one."""
    of = suite_with_tasks(tree / suite_file)
    tasks = [
        TreeTask(
            id=loaded.task.id,
            bucket=loaded.bucket,
            held_out=loaded.task.split == "held_out",
            file=_path_from_top(loaded.file, tree),
            prompts={
                name: _path_from_top(path, tree)
                for name, path in prompt_files(
                    loaded.task, of.suite, of.file.parent, loaded.file, tree
                ).items()
            },
            table=_path_from_top(loaded.place.file, tree) if loaded.place and loaded.place.file else "",
        )
        for loaded in of.tasks
    ]
    return TreeSuite(of.suite.name, tuple(tasks))


def held_out_files(tasks: Iterable[TreeTask], files: Iterable[str]) -> list[str]:
    """Give those of a tree's files that belong to held-out tasks: task files, folders, recordings.

    A folder whose task file is called task.json or task.yaml belongs to that task, unless a task of split dev
    lies there too. A file that holds tasks of both splits is among the files.
    """
    every = list(tasks)
    # The words of a table's task stand in the table, so that is what has to be hidden.
    own = {task.written_in for task in every if task.held_out}
    of_dev = {task.written_in for task in every if not task.held_out} - own
    dev = [PurePosixPath(file) for file in of_dev]
    # A folder of a task's own is one whose task file is called task.json or task.yaml.
    own_folders = (PurePosixPath(file).parent for file in own if is_task_name(Path(file)))
    folders = {folder for folder in own_folders if not any(each.is_relative_to(folder) for each in dev)}
    # Recordings mirror the path of a task below evals/, in a folder cassettes/: "pkm/a." begins the file of
    # one task, "pkm/a/" the folder with one file for each model.
    recordings: list[str] = []
    for task in (task for task in every if task.held_out):
        parts = PurePosixPath(task.file).parts
        place = PurePosixPath(*(parts[parts.index("evals") + 1 :] if "evals" in parts else parts))
        if place.name in SUITE_NAMES and not task.table:
            # A task in a suite's file is recorded as if it had a file of its own.
            place = place.with_name(portable_name(task.id))
        else:
            place = place.parent if is_task_name(Path(place.name)) else place.with_suffix("")
        recordings += (f"/cassettes/{place}.", f"/cassettes/{place}/")
    return [
        file
        for file in files
        if file in own
        or any(PurePosixPath(file).is_relative_to(folder) for folder in folders)
        or any(recording in f"/{file}" for recording in recordings)
    ]


def prompts_to_replace(
    tasks: Iterable[TreeTask], changed: Collection[str], texts: Mapping[str, str]
) -> dict[str, str]:
    """Give the new texts of the changed files by the names that the suite has for them.

    Empty where replacing them by name would not be what the files are: a file has no name, its name is that
    of another file for some task, or no file can bear it.
    """
    every = list(tasks)
    names = {name for task in every for name in task.prompts}
    places = {name: {task.prompts.get(name) for task in every} for name in names}
    named = {name: path for name, paths in places.items() for path in paths if path in changed}
    # Where a changed file has no name, only a second tree can show the change.
    if set(named.values()) != set(changed) or not all(path in texts for path in changed):
        return {}
    for name, path in named.items():
        # The texts are handed to pytest as files NAME.md in one folder: a name has to be a plain file name.
        if places[name] != {path} or not name or set("./\\") & set(name) or not name.isprintable():
            return {}
    return {name: texts[path] for name, path in named.items() if path is not None}


def _path_from_top(path: Path, tree: Path) -> str:
    return Path(os.path.relpath(path, tree)).as_posix()


class Attempts:
    """Has pytest try trees of one improvement, and counts what all of that takes."""

    def __init__(self, improvement: Improvement, repository: Repository, folder: Path) -> None:
        self._of, self.repository, self._folder = improvement, repository, folder
        self._results = Path(improvement.results)

    def order(
        self, what: str, split: Literal["dev", "held_out"], repetitions: int, paths: Iterable[str] = ()
    ) -> RunOrder:
        return RunOrder(
            checkout=self.repository.root,
            folder=self._of.folder,
            # Several tasks of the focus may share a file, which pytest is to get once.
            paths=tuple(dict.fromkeys(paths)) or (str(Path(self._of.suite_file).parent),),
            results=self._results,
            name=f"{self._of.name}-{what}",
            outputs=self._folder / "pytest",
            split=split,
            repetitions=repetitions,
            options=self._of.options,
        )

    @property
    def trials(self) -> int:
        """How many trials have ended so far, in interrupted runs too."""
        return sum(spent_on(run).trials for run in self._runs())

    def _runs(self) -> list[Run]:
        # Counted from the runs on disk, so that trials of an interrupted process count too.
        names = sorted(self._results.glob(f"{self._of.name}-*/{HEADER}"))
        return [load_run(path.parent) for path in names]

    def has_room(self, trials: int) -> bool:
        room = self.room()
        return room is None or trials <= room

    def room(self) -> int | None:
        """Give how many more trials may start; None for any number."""
        most = self._of.limits.max_trials
        if most is None:
            return None
        # A trial that an interruption cut off has started, and may have cost as much as any other.
        cut_off = sum(len(run.begun) for run in self._runs())
        return max(0, most - self.trials - cut_off)

    def count(self, tree: Path, order: RunOrder) -> int:
        """Have pytest count the trials of an order; 0 without a limit, where the number is not needed."""
        return 0 if self._of.limits.max_trials is None else count_collected(tree, order)

    def start(self, tree: Path) -> StartRun:
        """Try the dev split where nothing is changed yet; raises RunFailed where no trial has a score."""
        began = time.monotonic()
        run = run_one(tree, self.order("start", "dev", self._of.repetitions))
        start = summarize_start(run, self._of.suite, time.monotonic() - began)
        if start.score is None:
            errored = next((entry for entry in run.entries if entry.message), None)
            why = f": {one_line(errored.message, MOST_MESSAGE)}" if errored else ""
            raise RunFailed(f"no trial of the first run has a score{why} (agenteval show {run.name})")
        return start

    def pair(
        self, tasks: TreeSuite, commits: tuple[str, str], trees: tuple[Path, Path], order: RunOrder
    ) -> tuple[PairedRuns, TriedPair]:
        """Try old and new, of which nothing is decided yet; raises RunFailed where pytest could not run.

        The old tree is checked out already, the new one is checked out if it is needed.
        """
        began = time.monotonic()
        (old, new), changed = trees, self.repository.changed_paths(*commits)
        prompts: Mapping[str, str] = {}
        # With prompts by name both sides run in the old tree, where these are all that differs.
        if {*self.repository.files(commits[0])}.intersection(self.repository.files(commits[1])) >= {*changed}:
            texts = self.repository.texts(commits[1], changed)
            prompts = prompts_to_replace(tasks.tasks, changed, texts)
        if not prompts:
            self.repository.add_tree(new, commits[1])
        paired = run_pair(old, new, order, prompts)
        focus = focus_change(paired.comparison, self._of.focus)
        return paired, TriedPair(
            runs=paired.runs,
            sentence=headline(paired.comparison),
            decision="",
            reason="",
            focus_old=focus.old,
            focus_new=focus.new,
            repetitions=order.repetitions,
            in_one_run=bool(prompts),
            spent=paired.spent,
            seconds=time.monotonic() - began,
            note="; ".join(_pair_notes(paired)),
        )


def _pair_notes(paired: PairedRuns) -> Iterator[str]:
    """Say what makes a comparison doubtful: nothing differs at all, or more trials error on the new side."""
    # Suites that differ in prompts or settings may well score alike. Where nothing differs either, the agent
    # may never have read the new files.
    if paired.identical and not any(suite.differs for suite in paired.comparison.suites):
        yield NO_EFFECT
    runs = (paired.old, paired.new)
    old, new = ([entry for entry in run.entries if entry.ending == "errored"] for run in runs)
    if len(new) > len(old):
        words = one_line(new[0].message, MOST_MESSAGE)
        yield f"{pluralize(len(new), 'trial')} errored with the new prompts: {new[0].cause}: {words}"


def summarize_start(run: Run, suite: str, seconds: float) -> StartRun:
    of_suite = [entry for entry in run.entries if _is_dev(entry, suite)]
    scores = [entry.score for entry in of_suite if entry.averaged and entry.score is not None]
    score = mean(scores) if scores else None
    return StartRun(run.folder.name, score, spent_on(run), seconds)


def trial_needs(improvement: Improvement, start: Run, tasks: TreeSuite) -> dict[str, int]:
    """Give how many trials a round's parts take, both sides together, and the confirmation at the least."""
    dev = {
        (entry.key.task, entry.key.agent, entry.key.model, entry.key.variant)
        for entry in start.entries
        if _is_dev(entry, improvement.suite)
    }
    # pytest gets files, so other tasks in a file of the focus run as well.
    files = {task.file for task in tasks.focus(improvement.focus)}
    beside = {task.id for task in tasks.dev if task.file in files}
    screen = [once for once in dev if once[0] in beside] if len(beside) < len(tasks.dev) else []
    models = max(1, round(len(dev) / max(1, len(tasks.dev))))
    both = 2 * improvement.repetitions
    confirmation = both * len(tasks.held_out) * models
    return {"screen": both * len(screen), "dev": both * len(dev), "confirmation": confirmation}


def _is_dev(entry: JournalEntry, suite: str) -> bool:
    return entry.key.suite == suite and entry.split != "held_out"


def worst_bucket(run: Run, suite: str, buckets: Collection[str]) -> str | None:
    """Give the bucket with the lowest mean over tasks among those with a miss; None where nothing missed."""
    entries = [entry for entry in run.entries if _is_dev(entry, suite) and entry.bucket in buckets]
    return next((bucket.name for bucket in worst_first(entries) if bucket.failing()), None)


def looks_so_far(results: Path, suite: str) -> int:
    """Give how often held-out tasks of a suite were looked at, by the headers of all runs in a folder."""
    return max((run.header.held_out_looks.get(suite, 0) for run in list_runs(results)), default=0)


def confirm_on_held_out(
    attempts: Attempts, improvement: Improvement, tasks: TreeSuite, start: Path, kept: Path
) -> HeldOut:
    """Try held-out tasks in both trees, which are checked out for it, and say what they confirm."""
    if not tasks.held_out:
        return HeldOut("the suite has no held-out task")
    attempts.repository.add_tree(start, improvement.start)
    least = improvement.repetitions
    buckets = Counter(task.bucket for task in tasks.held_out)
    focus = sum(buckets[bucket] for bucket in improvement.focus)
    # This look is the next one.
    looks = 1 + looks_so_far(Path(improvement.results), improvement.suite)
    highest = max(least, MOST_REPETITIONS)
    needed = repetitions_to_confirm(focus, looks, least, highest, tuple(buckets.values()))
    # As many repetitions as it takes to confirm a rise of the focus, and as there is room for on both sides.
    once = 2 * attempts.count(start, attempts.order(HELD_OUT, "held_out", 1))
    room = attempts.room()
    fitting = needed if room is None or not once else min(needed, room // once)
    if fitting < 1:
        most = improvement.limits.max_trials
        return HeldOut(f"running held-out tasks would exceed --max-trials {most}")
    order = attempts.order(HELD_OUT, "held_out", fitting)
    commits = (improvement.start, improvement.kept)
    try:
        with keeping_latest(Path(improvement.results)):  # these are not for whoever looks at it next
            paired, tried = attempts.pair(tasks, commits, (start, kept), order)
    except RunFailed as failed:
        # Held-out tasks that could not be tried say nothing about a prompt: nothing is decided, and they can
        # be tried again.
        again = f"agenteval improve --continue {improvement.name} runs held-out tasks again"
        raise RunFailed(f"{failed}; {again}") from failed
    # The run that just ended is in the folder now, and counts as this look.
    looks = looks_so_far(Path(improvement.results), improvement.suite)
    confirmation = confirm(paired.comparison, improvement.focus, max(1, looks))
    words = "confirmed" if confirmation.confirmed else "not confirmed"
    tried = replace(tried, decision=words, reason=confirmation.reason)
    return HeldOut(tried.words, confirmation, tried)

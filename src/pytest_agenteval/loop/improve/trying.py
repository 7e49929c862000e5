"""What a loop tries: the start, a round's old and new, held-out tasks; and what all of that takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.compare.scoring.sensitivity import mean
from pytest_agenteval.loop.improve.collected_trials import count_collected
from pytest_agenteval.loop.improve.decisions import focus_change
from pytest_agenteval.loop.improve.paired_runs import (
    PairedRuns,
    RunFailed,
    RunOrder,
    spent_on,
    try_one,
    try_pair,
)
from pytest_agenteval.loop.improve.progress import Improvement, StartRun, TriedPair
from pytest_agenteval.loop.improve.repository import Repository
from pytest_agenteval.loop.improve.suite_tasks import SuiteTasks, prompts_to_replace
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.comparison_text import headline
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import HEADER, list_runs
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.formatting import one_line, pluralize

HELD_OUT = "held-out"
MOST_MESSAGE = 200
UNREAD = (
    "every trial scored as before: the agent may not read these files from the tree that it runs in, "
    "but from where it is installed (pip install -e)"
)


class Judgement(FrozenValue, frozen=True):
    """What somebody says of a comparison: a decision in a word or two, and why."""

    decision: str
    reason: str


class Trying:
    """Has pytest try trees of one improvement, and counts what all of that takes."""

    def __init__(self, improvement: Improvement, repository: Repository, folder: Path) -> None:
        self._of, self._repository, self._folder = improvement, repository, folder
        self._results = Path(improvement.results)

    def order(
        self,
        what: str,
        split: Literal["dev", "held_out"],
        repetitions: int,
        paths: Iterable[str] = (),
    ) -> RunOrder:
        """Give an order to try the whole suite, or only these files of it."""
        return RunOrder(
            checkout=self._repository.root,
            folder=self._of.folder,
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
        """How many trials were begun and ended so far, also in runs that were interrupted."""
        return sum(spent_on(run).trials for run in self._runs())

    def _runs(self) -> list[Run]:
        names = sorted(self._results.glob(f"{self._of.name}-*/{HEADER}"))
        return [load_run(path.parent) for path in names]

    def has_room(self, trials: int) -> bool:
        """Whether so many trials more may be begun."""
        room = self.room()
        return room is None or trials <= room

    def room(self) -> int | None:
        """Give how many trials more may be begun; None for any number.

        Those that an interruption cut off were begun, too.
        """
        most = self._of.limits.max_trials
        if most is None:
            return None
        cut_off = sum(len(run.begun) for run in self._runs())
        return max(0, most - self.trials - cut_off)

    def count(self, tree: Path, order: RunOrder) -> int:
        """Give how many trials an order has, asked of pytest; 0 without a limit, where nobody needs it."""
        return 0 if self._of.limits.max_trials is None else count_collected(tree, order)

    def start(self, tree: Path) -> StartRun:
        """Try the dev split where nothing is changed yet; raises RunFailed where no trial has a score."""
        began = time.monotonic()
        run = try_one(tree, self.order("start", "dev", self._of.repetitions))
        start = start_run(run, self._of.suite, time.monotonic() - began)
        if start.score is None:
            errored = next((entry for entry in run.entries if entry.message), None)
            why = f": {one_line(errored.message, MOST_MESSAGE)}" if errored else ""
            raise RunFailed(f"no trial of the first run has a score{why} (agenteval show {run.name})")
        return start

    def check_out(self, tree: Path, commit: str) -> None:
        """Make a worktree at a commit."""
        self._repository.add_tree(tree, commit)

    def pair(
        self,
        tasks: SuiteTasks,
        commits: tuple[str, str],
        trees: tuple[Path, Path],
        order: RunOrder,
        judge: Callable[[Comparison], Judgement],
    ) -> tuple[PairedRuns, TriedPair]:
        """Try old and new, whose old tree is checked out; the new one is where it is needed.

        Raises RunFailed where pytest could not.
        """
        began = time.monotonic()
        (old, new), prompts = trees, self._replaceable(tasks, *commits)
        if not prompts:
            self.check_out(new, commits[1])
        paired = try_pair(old, new, order, prompts)
        judgement = judge(paired.comparison)
        focus = focus_change(paired.comparison, self._of.focus)
        return paired, TriedPair(
            runs=paired.runs,
            sentence=headline(paired.comparison),
            decision=judgement.decision,
            reason=judgement.reason,
            focus_old=focus.old,
            focus_new=focus.new,
            repetitions=order.repetitions,
            in_one_run=bool(prompts),
            spent=paired.spent,
            seconds=time.monotonic() - began,
            note="; ".join(_notes(paired)),
        )

    def _replaceable(self, tasks: SuiteTasks, old: str, new: str) -> Mapping[str, str]:
        """Give the new prompts by name, where these are all that differs between two commits."""
        changed = self._repository.changed_paths(old, new)
        both = set(self._repository.files(old)) & set(self._repository.files(new))
        if not both.issuperset(changed):
            return {}
        return prompts_to_replace(tasks.tasks, changed, self._repository.texts(new, changed))


def _notes(paired: PairedRuns) -> Iterator[str]:
    """Say what makes a comparison doubtful: nothing differs at all, or more trials error on the new side."""
    if paired.identical and not any(suite.differs for suite in paired.comparison.suites):
        yield UNREAD
    old, new = (
        [entry for entry in run.entries if entry.ending == "errored"] for run in (paired.old, paired.new)
    )
    if len(new) > len(old):
        words = one_line(new[0].message, MOST_MESSAGE)
        yield f"{pluralize(len(new), 'trial')} errored with the new prompts: {new[0].cause}: {words}"


def start_run(run: Run, suite: str, seconds: float) -> StartRun:
    """Give what is to be known of the run that the first feedback is about."""
    of_suite = [entry for entry in run.entries if _is_dev(entry, suite)]
    scores = [entry.score for entry in of_suite if entry.averaged and entry.score is not None]
    score = mean(scores) if scores else None
    return StartRun(run.folder.name, score, spent_on(run), seconds)


class TrialNeeds(FrozenValue, frozen=True):
    """How many trials a round's parts take, both sides together, and the confirmation at the very least."""

    screen: int
    dev: int
    confirmation: int

    @property
    def round(self) -> int:
        """What a whole round takes at most: without room for the confirmation it is not worth beginning."""
        return self.screen + self.dev + self.confirmation

    def of(self, what: Literal["screen", "dev"]) -> int:
        """What one part takes."""
        return self.screen if what == "screen" else self.dev


def trial_needs(improvement: Improvement, start: Run, tasks: SuiteTasks) -> TrialNeeds:
    """Work out from the first run how many trials a round takes."""
    dev = {_once(entry) for entry in start.entries if _is_dev(entry, improvement.suite)}
    files = {task.file for task in tasks.focus(improvement.focus)}
    beside = {task.id for task in tasks.dev if task.file in files}
    screen = [once for once in dev if once[0] in beside] if len(beside) < len(tasks.dev) else []
    models = max(1, round(len(dev) / max(1, len(tasks.dev))))
    both = 2 * improvement.repetitions
    return TrialNeeds(both * len(screen), both * len(dev), both * len(tasks.held_out) * models)


def _once(entry: JournalEntry) -> tuple[str, str, str, str]:
    """Give what is equal for the repetitions of a trial."""
    return entry.key.task, entry.key.agent, entry.key.model, entry.key.variant


def _is_dev(entry: JournalEntry, suite: str) -> bool:
    return entry.key.suite == suite and entry.split != "held_out"


def worst_bucket(run: Run, suite: str, buckets: Collection[str]) -> str | None:
    """Give the bucket with the lowest mean over tasks among those with a miss; None where nothing missed."""
    tasks: dict[str, dict[tuple[str, str], list[float]]] = {}
    missed = set()
    for entry in run.entries:
        if not _is_dev(entry, suite) or entry.bucket not in buckets:
            continue
        if entry.averaged and entry.score is not None:
            of_bucket = tasks.setdefault(entry.bucket, {})
            of_bucket.setdefault((entry.key.task, entry.key.model), []).append(entry.score)
            if entry.ending != "passed":
                missed.add(entry.bucket)
    scores = {name: mean([mean(own) for own in of_bucket.values()]) for name, of_bucket in tasks.items()}
    return min(missed, key=lambda name: (scores[name], name), default=None)


def looks_so_far(results: Path, suite: str) -> int:
    """Give how often held-out tasks of a suite were looked at, as the runs of a folder say."""
    return max((run.header.held_out_looks.get(suite, 0) for run in list_runs(results)), default=0)

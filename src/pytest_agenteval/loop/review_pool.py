"""Which trials of a run a person labels, with exactly what a rubric's judges would be shown."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from pytest_agenteval.engine.digests import DigestCache, input_digest
from pytest_agenteval.engine.grading import UNGRADED, GradingService
from pytest_agenteval.graders.grader import asks_judges
from pytest_agenteval.graders.judge.judge_grader import RubricGrader
from pytest_agenteval.graders.judge.panel import ShownValues, SilentJudge
from pytest_agenteval.graders.judge.rubric import Rubric
from pytest_agenteval.loop.todays_tasks import files_root
from pytest_agenteval.records.evidence import CRASH, Evidence
from pytest_agenteval.records.plan import PlannedGrader, PlannedTask, TrialKey
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.registry.lazy_names import UnknownName
from pytest_agenteval.registry.registration import load_registry
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake, did_you_mean
from pytest_agenteval.text.formatting import one_line
from pytest_agenteval.text.json_values import json_digest

ALIKE = "identical to another"

UNDECIDED = "undecided"
ENDING_WORDS = ("passed", "missed", "failed", "errored", "limited", UNDECIDED)
MOST_LISTED = 1000

# What trials can be filtered by, each with the trial's values for it.
FILTERS: Mapping[str, Callable[[JournalEntry], str]] = {
    "bucket": lambda entry: entry.bucket,
    "task": lambda entry: entry.key.task,
    "model": lambda entry: entry.key.model,
    "variant": lambda entry: entry.key.variant,
}


class PlannedTasks:
    """Today's tasks of a run's trials, with what conftests register; a file with problems has none.

    ``root`` is the folder that the run's files are named from, ``registry`` what its conftests offer.
    """

    def __init__(self, run: Run, entries: Iterable[JournalEntry]) -> None:
        names = tuple(dict.fromkeys(entry.file for entry in entries if entry.file))
        self.root = files_root(run)
        files = [path for name in names if (path := self.root / name).is_file()]
        folders = dict.fromkeys(path.parent for path in files)
        self.registry: Registry = load_registry(folders, (f"--rootdir={self.root}",))
        self._planner = Planner(self.registry, self.root)
        self._tasks: dict[tuple[str, str, str], PlannedTask] = {}
        for path in files:
            with suppress(ProblemsFound):
                planned = self._planner.tasks(path, named=True)
                self._tasks |= {(task.suite, task.id, task.agent): task for task, _ in planned}

    def of(self, entry: JournalEntry) -> PlannedTask | None:
        """Give the task of a trial; None where today's files do not have it."""
        return self._tasks.get((entry.key.suite, entry.key.task, entry.key.agent))

    def suite_folder(self, entry: JournalEntry) -> Path:
        """Give the folder of a trial's suite, else that of its file."""
        path = self.root / entry.file
        suite = self._planner.suites.suite_of(path)
        folder = None if isinstance(suite, ProblemsFound) else suite.folder
        return folder or path.parent


class ReviewTrial(FrozenValue, frozen=True):
    """One trial as judges are shown it; ``id`` is its line's in the file of labels, ``grader`` who asks."""

    id: str
    entry: JournalEntry
    grader: str
    values: Mapping[str, str]


class ReviewPool(FrozenValue, frozen=True):
    """The trials that can be labelled by one rubric, and how many were left out, by the reason."""

    rubric: Rubric
    trials: tuple[ReviewTrial, ...]
    left_out: Mapping[str, int]


class _JudgeQuestion(NamedTuple):
    """What one grader shows its judges of one trial."""

    entry: JournalEntry
    grader: str
    shown: ShownValues


def review_pool(
    run: Run,
    entries: Sequence[JournalEntry],
    tasks: PlannedTasks,
    rubric: Rubric | str,
    splits: Sequence[str] = ("dev",),
    errored: bool = False,
) -> ReviewPool:
    """Find the trials that can be labelled by a rubric, or by the only one that their graders use.

    ``rubric`` is a rubric, its name, the label of a grader that uses it, or empty. Of trials that show the
    very same values only the first is in the pool. Raises UsageMistake where it is not clear which rubric is
    meant.
    """
    return asyncio.run(_PoolBuilder(run, tasks, splits, errored).pool(entries, rubric))


class _PoolBuilder:
    """One run, looked at trial by trial, with what was left out on the way."""

    def __init__(self, run: Run, tasks: PlannedTasks, splits: Sequence[str], errored: bool) -> None:
        self._run, self._tasks, self._splits, self._errored = run, tasks, splits, errored
        self._grading, self._digests = GradingService(tasks.registry), DigestCache()
        self._askers: dict[str, Rubric] = {}
        self._lost: set[TrialKey] = set()
        self.left_out: Counter[str] = Counter()

    async def pool(self, entries: Sequence[JournalEntry], wanted: Rubric | str) -> ReviewPool:
        name = wanted if isinstance(wanted, str) else wanted.name
        planned = list(self._planned(entries))
        questions: list[_JudgeQuestion] = []
        for entry, task in planned:
            graders = [grader for grader in task.graders if self._may_ask(grader, name)]
            of_trial = await self._questions(entry, task, graders) if graders else []
            questions += [each for each in of_trial if name in ("", each.shown.rubric.name, each.grader)]
        if isinstance(wanted, Rubric):
            # The rubric itself is given: one of the same name with another text is not meant.
            self._askers.pop(name, None)
            questions = [each for each in questions if each.shown.rubric.digest() == wanted.digest()]
        if questions or not name:
            return self._pool_of(self._only_rubric(questions), planned, questions)
        rubric = wanted if isinstance(wanted, Rubric) else self._rubric_named(name)
        # No grader uses the rubric: any trial can be shown by it, if it needs only values that every trial
        # has.
        if planned and name not in self._askers:
            from pytest_agenteval.graders.judge.judge_grader import JudgeGrader

            try:
                JudgeGrader(rubric=rubric.text)
            except ValueError as refused:
                why = f"no grader of these trials uses it; others: {refused}"
                raise UsageMistake(why) from None
            grader = PlannedGrader("judge", rubric.name, {"rubric": rubric.text})
            questions = [
                each for entry, task in planned for each in await self._questions(entry, task, [grader])
            ]
        return self._pool_of(rubric, planned, questions)

    def _pool_of(
        self,
        rubric: Rubric,
        planned: Sequence[tuple[JournalEntry, PlannedTask]],
        questions: Sequence[_JudgeQuestion],
    ) -> ReviewPool:
        if rubric.candidates:
            raise UsageMistake(f"the rubric {rubric.name} compares candidates, which cannot be labelled")
        silent = {entry.key for entry, _ in planned} - {each.entry.key for each in questions}
        self.left_out["without a transcript"] += len(self._lost)
        self.left_out["with nothing to judge"] += len(silent - self._lost)
        trials = tuple(self._distinct(questions))
        return ReviewPool(rubric, trials, {why: count for why, count in self.left_out.items() if count})

    def _planned(self, entries: Sequence[JournalEntry]) -> Iterator[tuple[JournalEntry, PlannedTask]]:
        for entry in entries:
            task = self._tasks.of(entry)
            why = self._why_not(entry, task)
            if task is None or why:
                self.left_out[why] += 1
            else:
                yield entry, task

    def _why_not(self, entry: JournalEntry, task: PlannedTask | None) -> str:
        """Say why a trial is left out; empty where it is not."""
        if task is None:
            return "without a task here"
        splits = {task.split, entry.split or task.split}
        # A trial counts as held out if it was then, or is now: whoever labels it looks at it.
        if not splits <= {*self._splits}:
            return "held out" if "held_out" in splits else "dev"
        # Where only grading failed there is an answer that can be labelled.
        if entry.ending == "errored" and entry.cause not in (UNGRADED, CRASH) and not self._errored:
            return "errored"
        # Values are made from today's task, which has to be the one that the agent had.
        now = input_digest(task, self._digests)
        return "whose task has changed" if entry.digests.input and entry.digests.input != now else ""

    def _may_ask(self, planned: PlannedGrader, rubric: str) -> bool:
        grader = self._grading.grader(planned)
        if not asks_judges(grader):
            return False
        used = grader.used_rubric() if isinstance(grader, RubricGrader) else None
        if used is not None and rubric in (used.name, planned.label):
            self._askers[rubric] = used
        return used is None or rubric in ("", used.name, planned.label)

    async def _questions(
        self, entry: JournalEntry, task: PlannedTask, graders: Sequence[PlannedGrader]
    ) -> list[_JudgeQuestion]:
        """Let graders show a trial to a judge that only records what it is shown."""
        trial = self._run.trial_if_readable(entry)
        if trial is None:
            self._lost.add(entry.key)
            return []
        evidence = Evidence(task.input, trial.transcript, trial.outcome)
        judges = {grader.label: SilentJudge() for grader in graders}
        await self._grading.grade(graders, evidence, lambda label: [judges[label]])
        return [
            _JudgeQuestion(entry, label, shown) for label, judge in judges.items() for shown in judge.shown
        ]

    def _only_rubric(self, questions: Sequence[_JudgeQuestion]) -> Rubric:
        """Give the rubric of all these questions; raises UsageMistake where there is none, or several."""
        rubrics = {each.shown.rubric.digest(): each.shown.rubric for each in questions}
        if not rubrics:
            hint = "--rubric R names a rubric, or a .jinja file"
            raise UsageMistake(f"no grader of these trials has something to judge{self._reasons()}: {hint}")
        rubric, *others = rubrics.values()
        if others:
            names = ", ".join(each.name for each in (rubric, *others))
            raise UsageMistake(f"which rubric? choose with --rubric, --task or --bucket; there are {names}")
        return rubric

    def _reasons(self) -> str:
        reasons = ", ".join(f"{count} {why}" for why, count in self.left_out.items())
        return f" (left out: {reasons})" if reasons else ""

    def _rubric_named(self, name: str) -> Rubric:
        registry = self._tasks.registry
        try:
            return self._askers.get(name) or registry.rubric(name)
        except UnknownName:
            hint = did_you_mean(name, registry.rubric_names) or f"known: {', '.join(registry.rubric_names)}"
            raise UsageMistake(
                f"no grader here uses a rubric {name!r}{self._reasons()}, and none is registered; {hint}"
            ) from None

    def _distinct(self, questions: Iterable[_JudgeQuestion]) -> Iterator[ReviewTrial]:
        seen: set[str] = set()
        counts: Counter[str] = Counter()
        for entry, grader, shown in questions:
            # A person would label the same text twice.
            if shown.digest in seen:
                self.left_out[ALIKE] += 1
                continue
            seen.add(shown.digest)
            id = f"{self._run.name}:{entry.key.label}"
            counts[id] += 1
            yield ReviewTrial(id if counts[id] == 1 else f"{id} {counts[id]}", entry, grader, shown.values)


def chosen_entries(
    run: Run, patterns: Mapping[str, Sequence[str]], words: Sequence[str]
) -> list[JournalEntry]:
    """Give the trials whose names match a pattern of each kind, and that ended as one of the words says.

    ``patterns`` has the patterns of each kind in FILTERS; no patterns choose all. Where ``undecided`` is
    among the words all endings are returned, since only the rubric's own grader can tell. Raises UsageMistake
    for a pattern that no trial matches.
    """
    entries = list(run.entries)
    for kind, wanted in patterns.items():
        names = sorted({FILTERS[kind](entry) for entry in run.entries})
        meant = set[str]()
        for pattern in wanted:
            found = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
            meant.update(found)
            if not found:
                hint = did_you_mean(pattern, names) or f"there are {', '.join(filter(None, names)) or 'none'}"
                hint = one_line(hint, MOST_LISTED)
                raise UsageMistake(f"--{kind} {pattern}: no trial of {run.name} has it; {hint}")
        if wanted:
            entries = [entry for entry in entries if FILTERS[kind](entry) in meant]
    if words and UNDECIDED not in words:
        return [entry for entry in entries if _ended_as(entry, words)]
    return entries


def _ended_as(entry: JournalEntry, words: Sequence[str]) -> bool:
    return entry.ending in words or ("limited" in words and bool(entry.limit))


def chosen_trials(
    trials: Iterable[ReviewTrial], words: Sequence[str], sample: int | None, seed: int
) -> list[ReviewTrial]:
    """Give the trials that the words mean, or ``sample`` of them, in an order that the seed shuffles."""
    if UNDECIDED in words:
        trials = [trial for trial in trials if _ended_as(trial.entry, words) or _is_undecided(trial)]
    # A trial's place depends on the seed and its own name only: other choices do not change the order.
    return sorted(trials, key=lambda trial: (json_digest([seed, trial.entry.key.label]), trial.id))[:sample]


def _is_undecided(trial: ReviewTrial) -> bool:
    """Whether the grader that uses the rubric could not tell; without one, whether any grader could not."""
    own = [grade for grade in trial.entry.grades if grade.grader == trial.grader]
    return any(grade.score is None for grade in own or trial.entry.grades)

"""What a person is shown of stored trials: exactly what the judges of a rubric would be."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_agenteval.engine.digests import DigestCache, input_digest
from pytest_agenteval.engine.grading import UNGRADED, GradingService
from pytest_agenteval.graders.grader import asks_judges
from pytest_agenteval.graders.judge.judge_grader import RubricGrader
from pytest_agenteval.graders.judge.panel import ShownValues, SilentJudge
from pytest_agenteval.graders.judge.rubric import Rubric
from pytest_agenteval.loop.review.planned_tasks import PlannedTasks
from pytest_agenteval.records.evidence import CRASH, Evidence
from pytest_agenteval.records.plan import PlannedGrader, PlannedTask, TrialKey
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.registry.lazy_names import UnknownName
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake, did_you_mean

ALIKE = "the same as another"


class ShownTrial(FrozenValue, frozen=True):
    """One trial as judges are shown it; ``id`` is its line's in the file of labels, ``grader`` who asks."""

    id: str
    entry: JournalEntry
    grader: str
    values: Mapping[str, str]


class ReviewPool(FrozenValue, frozen=True):
    """The trials that can be labelled by one rubric, and how many were left out, by the reason."""

    rubric: Rubric
    trials: tuple[ShownTrial, ...]
    left_out: Mapping[str, int]


class _Question(NamedTuple):
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
    """Find what can be labelled of these trials by a rubric, or by the only one that their graders use.

    ``rubric`` is one that was read, its name, the label of a grader that asks by it, or empty. Of trials
    that show the very same only the first is there. Raises UsageMistake where the rubric is not clear.
    """
    return asyncio.run(_Reviewed(run, tasks, splits, errored).pool(entries, rubric))


class _Reviewed:
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
        questions = [
            each for entry, task in planned for each in await self._questions_by_rubric(entry, task, name)
        ]
        if isinstance(wanted, Rubric):
            self._askers.pop(name, None)
            questions = [each for each in questions if each.shown.rubric.digest() == wanted.digest()]
        if questions or not name:
            return self._pool_of(self._only_rubric(questions), planned, questions)
        rubric = wanted if isinstance(wanted, Rubric) else self._rubric_named(name)
        if planned and name not in self._askers:
            grader = _any_trial(rubric)
            questions = [
                each for entry, task in planned for each in await self._questions(entry, task, [grader])
            ]
        return self._pool_of(rubric, planned, questions)

    def _pool_of(
        self,
        rubric: Rubric,
        planned: Sequence[tuple[JournalEntry, PlannedTask]],
        questions: Sequence[_Question],
    ) -> ReviewPool:
        if rubric.candidates:
            raise UsageMistake(f"the rubric {rubric.name} compares candidates: there are no labels for that")
        silent = {entry.key for entry, _ in planned} - {each.entry.key for each in questions}
        self.left_out["whose transcript is lost"] += len(self._lost)
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
        if not splits <= {*self._splits}:  # held out then, or held out now: nobody looks
            return "held out" if "held_out" in splits else "dev"
        if entry.ending == "errored" and entry.cause not in (UNGRADED, CRASH) and not self._errored:
            return "errored"
        now = input_digest(task, self._digests)
        return "whose task has changed" if entry.digests.input and entry.digests.input != now else ""

    async def _questions_by_rubric(
        self, entry: JournalEntry, task: PlannedTask, rubric: str
    ) -> list[_Question]:
        """Give what the task's own graders ask judges by this rubric, or by any where it is empty."""
        graders = [planned for planned in task.graders if self._may_ask(planned, rubric)]
        questions = await self._questions(entry, task, graders) if graders else []
        return [each for each in questions if rubric in ("", each.shown.rubric.name, each.grader)]

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
    ) -> list[_Question]:
        """Let graders show a trial to a judge that only takes note."""
        trial = self._run.trial_if_readable(entry)
        if trial is None:
            self._lost.add(entry.key)
            return []
        evidence = Evidence(task.input, trial.transcript, trial.outcome)
        judges = {grader.label: SilentJudge() for grader in graders}
        await self._grading.grade(graders, evidence, lambda label: [judges[label]])
        return [_Question(entry, label, shown) for label, judge in judges.items() for shown in judge.shown]

    def _only_rubric(self, questions: Sequence[_Question]) -> Rubric:
        """Give the one rubric that all of them are asked by."""
        rubrics = {each.shown.rubric.digest(): each.shown.rubric for each in questions}
        names = ", ".join(dict.fromkeys(rubric.name for rubric in rubrics.values()))
        if not rubrics:
            raise UsageMistake(
                f"no grader of these trials shows judges anything{self._reasons()}: "
                "--rubric R names a rubric, or a .jinja file"
            )
        if len(rubrics) == 1:
            return next(iter(rubrics.values()))
        if ", " in names:
            raise UsageMistake(f"which rubric? --rubric is one of {names}")
        how = "--rubric FILE.jinja, --task or --bucket tells which"
        raise UsageMistake(f"{len(rubrics)} rubrics are named {names}: {how}")

    def _reasons(self) -> str:
        """Say which trials were not looked at; empty where all were."""
        reasons = ", ".join(f"{count} {why}" for why, count in self.left_out.items())
        return f" (left out: {reasons})" if reasons else ""

    def _rubric_named(self, name: str) -> Rubric:
        registry = self._tasks.registry
        try:
            return self._askers.get(name) or registry.rubric(name)
        except UnknownName:
            hint = did_you_mean(name, registry.rubric_names) or f"known: {', '.join(registry.rubric_names)}"
            raise UsageMistake(
                f"no grader here asks by a rubric {name!r}{self._reasons()}, and none is registered; {hint}"
            ) from None

    def _distinct(self, questions: Iterable[_Question]) -> Iterator[ShownTrial]:
        seen: set[str] = set()
        counts: Counter[str] = Counter()
        for entry, grader, shown in questions:
            if shown.digest in seen:
                self.left_out[ALIKE] += 1
                continue
            seen.add(shown.digest)
            id = f"{self._run.name}:{entry.key.label}"
            counts[id] += 1
            yield ShownTrial(id if counts[id] == 1 else f"{id} {counts[id]}", entry, grader, shown.values)


def _any_trial(rubric: Rubric) -> PlannedGrader:
    """Plan the grader that shows any trial by any rubric, if only it shows what every trial has."""
    from pytest_agenteval.graders.judge.judge_grader import JudgeGrader

    try:
        JudgeGrader(rubric=rubric.text)
    except ValueError as refused:
        raise UsageMistake(f"no grader of these trials asks by it, and of others: {refused}") from None
    return PlannedGrader("judge", rubric.name, {"rubric": rubric.text})

"""The figures of one group of trials: a bucket, or a suite with one model.

Errored and not-run trials are counted beside the averages and never enter them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from pytest_agenteval.compare.resource_figures import (
    ResourceFigures,
    ResourceUse,
    TurnTimes,
    part_wall,
    resource_use,
    spent_by,
    turn_times,
)
from pytest_agenteval.compare.scoring.aggregates import pass_at_k, pass_hat_k, pass_rate, task_passed
from pytest_agenteval.compare.scoring.intervals import Estimate, Interval, estimate_of_tasks
from pytest_agenteval.records.evidence import CRASH, Grade
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import Figure
from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import PlannedGroup

NO_JUDGE = "no_judge"
"""What a grade says of itself that only a judge could have decided."""

UNJUDGED = (NO_JUDGE, "limit")
"""What grades say of themselves where a judge was not there, or had no budget left."""

TaskName = tuple[str, str]

# Reports of a hundred thousand trials wait for nothing else: these loops are the interpreter's own.
_FULL, _LIMIT = attrgetter("full"), attrgetter("limit")
_JUDGE_ASKS = attrgetter("judging.asks")
_TOOL_TAPE, _CHAT_TAPE = attrgetter("tool_tape"), attrgetter("chat_tape")
_COUNTS = attrgetter("hits"), attrgetter("misses"), attrgetter("recorded")


class Rate(FrozenValue, frozen=True):
    """A mean over tasks, and how many tasks could tell."""

    value: float
    tasks: int


class GroupStatistics(FrozenValue, frozen=True):
    """What a report says of a group of trials.

    ``averaged`` trials of ``planned`` are in ``mean``, ``full``, ``pass_1`` and the tasks passed.
    ``pass_hat_k`` and ``pass_at_k`` are means over those tasks that have at least ``k`` averaged trials: a
    task with an errored repetition says nothing of k and is left out of these two; the number of tasks in
    ``Rate`` shows it. A task is decided when any of its trials is averaged. ``unjudged`` of the undecided
    grades had no judge. ``unscored`` of the averaged trials lack a grade that only a judge gives: their
    scores rest on the other grades, and so do the passes of ``unproven`` trials, which a judge could undo;
    ``lacking`` counts such grades by grader. ``judging`` is what the judges took, which is no part of
    ``spent``. ``interrupted`` of the trials that are ``not_run`` started, and never ended. ``wall`` is the
    time in which any of these trials ran.
    """

    name: str
    tasks: int
    planned: int
    averaged: int
    mean: Estimate | None
    full: float | None
    k: int
    pass_1: Rate | None
    pass_hat_k: Rate | None
    pass_at_k: Rate | None
    tasks_passed: int
    tasks_decided: int
    errored: Mapping[str, int]
    not_run: int
    interrupted: int
    limited: Mapping[str, int]
    undecided: Mapping[str, int]
    unjudged: int
    unscored: int
    unproven: int
    lacking: Mapping[str, int]
    retried: int
    spent: ResourceUse
    judging: ResourceUse
    judge_asks: int
    tools: TapeCounts
    chats: TapeCounts
    wall: Figure
    turns: TurnTimes

    @property
    def resources(self) -> ResourceFigures:
        """What the group took: as a part of its run, which may have other groups."""
        spent, ended = self.spent, self.planned - self.not_run
        return ResourceFigures(self.wall, spent.tokens, spent.cost, spent.seconds, self.turns, ended)

    @property
    def score(self) -> float | None:
        """The mean score, 0 to 1; None where no trial is averaged."""
        return self.mean.mean if self.mean else None

    @property
    def interval(self) -> Interval | None:
        """The interval of the mean score, None where there are too few tasks for one."""
        return self.mean.interval if self.mean else None

    @property
    def errors(self) -> int:
        return sum(self.errored.values())


def group_statistics(
    name: str,
    entries: Sequence[JournalEntry],
    planned: Sequence[PlannedGroup],
    *,
    k: int,
    threshold: float = 1.0,
    interrupted: int = 0,
    is_offline: bool = False,
    is_regraded: bool = False,
) -> GroupStatistics:
    """Work out the figures of a group; ``threshold`` is the mean score at which a task counts as passed.

    ``interrupted`` trials started and never ended. ``is_offline`` says that the model is no LLM,
    ``is_regraded`` that another run's trials were graded again.
    """
    averaged = [entry for entry in entries if entry.ending != "errored" and entry.score is not None]
    tasks = group_by_task(averaged)
    trials_and_passes = [
        (len(trials), [entry.ending for entry in trials].count("passed")) for trials in tasks.values()
    ]
    passed = _tasks_passed(tasks.values(), trials_and_passes, threshold)
    # Of most trials every grade is decided: only the others are looked at again.
    undecided = [entry for entry in entries if [g for g in entry.grades if g.score is None or g.undecided]]
    lacking = [(entry, grades) for entry in undecided if (grades := grades_lacking_judge(entry))]
    lacking_averaged = [(entry, grades) for entry, grades in lacking if entry.averaged]
    # Tests may run trials by code, which nobody has planned.
    trials = max(sum(group.trials for group in planned), len(entries) + interrupted)
    # Trials are put together by task once where no trial errored, as in most groups.
    seen = tasks if len(averaged) == len(entries) else group_by_task(entries)
    pass_1 = _rate(trials_and_passes, 1, pass_at_k)
    return GroupStatistics(
        name=name,
        tasks=max(sum(group.tasks for group in planned), len(seen)),
        planned=trials,
        averaged=len(averaged),
        mean=estimate_of_tasks([[entry.score for entry in trials] for trials in tasks.values()]),
        full=pass_rate(map(_FULL, averaged)),
        k=k,
        pass_1=pass_1,
        pass_hat_k=_rate(trials_and_passes, k, pass_hat_k),
        pass_at_k=pass_1 if k == 1 else _rate(trials_and_passes, k, pass_at_k),
        tasks_passed=sum(passed),
        tasks_decided=len(passed),
        errored=Counter(entry.cause for entry in entries if not entry.averaged)
        if len(averaged) < len(entries)
        else Counter(),
        not_run=trials - len(entries),
        interrupted=interrupted,
        limited=Counter(filter(None, map(_LIMIT, entries))),
        # A grade that broke its trial is counted as that error, not as undecided.
        undecided=Counter(
            grade.grader
            for entry in undecided
            for grade in entry.grades
            if grade.score is None and grade.undecided not in (CRASH, entry.cause or CRASH)
        ),
        unjudged=sum(len(grades) for _, grades in lacking),
        # A grade without weight changes no score, and one with a threshold of 0 cannot undo a pass.
        unscored=sum(any(grade.weight for grade in grades) for _, grades in lacking_averaged),
        unproven=sum(
            _is_passed(entry) and any(grade.threshold > 0 for grade in grades)
            for entry, grades in lacking_averaged
        ),
        lacking=Counter(grade.grader for _, grades in lacking_averaged for grade in grades),
        retried=sum([entry.attempts > 1 for entry in entries]),
        spent=spent_by(entries, interrupted, is_offline=is_offline),
        judging=resource_use([entry.judging for entry in entries if entry.judging.asks]),
        judge_asks=sum(map(_JUDGE_ASKS, entries)),
        tools=_total_counts(list(map(_TOOL_TAPE, entries))),
        chats=_total_counts(list(map(_CHAT_TAPE, entries))),
        wall=part_wall(entries, interrupted, is_regraded=is_regraded),
        turns=TurnTimes() if is_offline else turn_times(entries),
    )


def grades_lacking_judge(entry: JournalEntry) -> list[Grade]:
    """Give the grades that only a judge decides, and for which there was no judge or no budget."""
    return [grade for grade in entry.grades if grade.undecided in UNJUDGED]


def group_by_task(entries: Iterable[JournalEntry]) -> dict[TaskName, list[JournalEntry]]:
    tasks: dict[TaskName, list[JournalEntry]] = {}
    for entry in entries:
        # Its task and its agent.
        tasks.setdefault(entry.key[1:3], []).append(entry)
    return tasks


def _is_passed(entry: JournalEntry) -> bool:
    return entry.ending == "passed"


def _rate(
    trials_and_passes: Sequence[tuple[int, int]], k: int, estimate: Callable[[int, int, int], float]
) -> Rate | None:
    able = [counts for counts in trials_and_passes if counts[0] >= k]
    # Most tasks have the same counts: the estimate is made once for each pair.
    estimates = {counts: estimate(*counts, k) for counts in {*able}}
    rates = [estimates[counts] for counts in able]
    return Rate(sum(rates) / len(rates), len(rates)) if rates else None


def _tasks_passed(
    tasks: Collection[Sequence[JournalEntry]], trials_and_passes: Sequence[tuple[int, int]], threshold: float
) -> list[bool]:
    """Say of each task whether it passed by its kind, its endings and its scores."""
    kinds = [trials[0].kind for trials in tasks]
    alike = list(zip(kinds, trials_and_passes, strict=True))
    if threshold < 1:
        scores = ([entry.score for entry in trials] for trials in tasks)
        return [
            task_passed(kind, (), own, threshold) is True for kind, own in zip(kinds, scores, strict=True)
        ]
    # Decided once for all tasks with the same kind and counts: at a threshold of 1 scores do not matter.
    decided = {
        (kind, (count, passes)): task_passed(kind, [True] * passes + [False] * (count - passes)) is True
        for kind, (count, passes) in {*alike}
    }
    return [decided[each] for each in alike]


def _total_counts(counts: Sequence[TapeCounts]) -> TapeCounts:
    # Trials that met no tape share one object: a run of 100,000 such trials need not be added up.
    if len({*map(id, counts)}) == 1:
        only, times = counts[0], len(counts)
        return TapeCounts(only.hits * times, only.misses * times, only.recorded * times)
    return TapeCounts(*(sum(map(count, counts)) for count in _COUNTS))

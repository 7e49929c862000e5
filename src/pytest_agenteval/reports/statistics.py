"""The figures of one group of trials: a bucket, or a suite with one model.

Errored and not-run trials are counted beside the averages and never enter them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from pytest_agenteval.records.grade import CRASH, Grade
from pytest_agenteval.records.plan import Kind
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.scoring.aggregates import pass_at_k, pass_hat_k, pass_rate, task_passed
from pytest_agenteval.scoring.intervals import Estimate, mean_over_tasks
from pytest_agenteval.store.journal_entry import JournalEntry

NO_JUDGE = "no_judge"
"""What a grade says of itself that only a judge could have decided."""

UNJUDGED = (NO_JUDGE, "limit")
"""What grades say of themselves where a judge was not there, or had no budget left."""

TaskName = tuple[str, str]


class Rate(FrozenValue, frozen=True):
    """A mean over tasks, and how many tasks could tell."""

    value: float
    tasks: int


class ResourceUse(FrozenValue, frozen=True):
    """What all finished attempts took, those before the last too.

    ``usd`` is the sum of the known prices, None when none is known; ``unpriced`` counts attempts without,
    ``untold`` those that took tokens of which nobody knows how many.
    """

    tokens: int
    untold: int
    usd: float | None
    unpriced: int
    seconds: float


class GroupStatistics(FrozenValue, frozen=True):
    """What a report says of a group of trials.

    ``averaged`` trials of ``planned`` are in ``mean``, ``full``, ``pass_1`` and the tasks passed.
    ``pass_hat_k`` and ``pass_at_k`` are means over those tasks that have at least ``k`` averaged trials: a
    task with an errored repetition says nothing of k and is left out of these two; the number of tasks in
    ``Rate`` shows it. A task is decided when any of its trials is averaged. ``unjudged`` of the undecided
    grades had no judge. ``unscored`` of the averaged trials lack a grade that only a judge gives: their
    scores rest on the other grades, and so do the passes of ``unproven`` trials, which a judge could undo;
    ``lacking`` counts such grades by grader. ``judging`` is what the judges took, which is no part of
    ``spent``.
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


class GroupScope(FrozenValue, frozen=True):
    """What a group set out to do: tasks, trials, k, and the mean score at which a task counts as passed."""

    tasks: int
    trials: int
    k: int
    threshold: float = 1.0


def group_statistics(name: str, entries: Sequence[JournalEntry], scope: GroupScope) -> GroupStatistics:
    """Work out the figures of a group of trials."""
    averaged = [entry for entry in entries if entry.averaged]
    tasks = group_by_task(averaged)
    trials_and_passes = [(len(trials), sum(map(_is_passed, trials))) for trials in tasks.values()]
    passed = [_task_passed(trials, scope.threshold) for trials in tasks.values()]
    # Of most trials no grade lacks its judge: only the others are looked at again.
    lacking = [(entry, grades) for entry in entries if (grades := grades_lacking_judge(entry))]
    lacking_averaged = [(entry, grades) for entry, grades in lacking if entry.averaged]
    planned = max(scope.trials, len(entries))
    return GroupStatistics(
        name=name,
        tasks=max(scope.tasks, len({(entry.key.task, entry.key.agent) for entry in entries})),
        planned=planned,
        averaged=len(averaged),
        mean=mean_over_tasks(((entry.key.task, entry.key.agent), entry.score) for entry in averaged),
        full=pass_rate(entry.full for entry in averaged),
        k=scope.k,
        pass_1=_rate(trials_and_passes, 1, pass_at_k),
        pass_hat_k=_rate(trials_and_passes, scope.k, pass_hat_k),
        pass_at_k=_rate(trials_and_passes, scope.k, pass_at_k),
        tasks_passed=sum(map(bool, passed)),
        tasks_decided=len(passed),
        errored=Counter(entry.cause for entry in entries if not entry.averaged),
        not_run=planned - len(entries),
        limited=Counter(entry.limit for entry in entries if entry.limit),
        undecided=_undecided(entries),
        unjudged=sum(len(grades) for _, grades in lacking),
        unscored=sum(any(grade.weight for grade in grades) for _, grades in lacking_averaged),
        unproven=sum(
            _is_passed(entry) and any(grade.threshold > 0 for grade in grades)
            for entry, grades in lacking_averaged
        ),
        lacking=Counter(grade.grader for _, grades in lacking_averaged for grade in grades),
        retried=sum(entry.attempts > 1 for entry in entries),
        spent=_resource_use([usage for entry in entries for usage in (entry.usage, *entry.earlier)], entries),
        judging=_resource_use([entry.judging for entry in entries if entry.judging.asks], ()),
        judge_asks=sum(entry.judging.asks for entry in entries),
        tools=_total_counts(entry.tool_tape for entry in entries),
        chats=_total_counts(entry.chat_tape for entry in entries),
    )


def grades_lacking_judge(entry: JournalEntry) -> list[Grade]:
    """Give the grades that a judge would have decided, had there been one that could be asked."""
    return [grade for grade in entry.grades if grade.undecided in UNJUDGED]


def group_by_task(entries: Iterable[JournalEntry]) -> dict[TaskName, list[JournalEntry]]:
    """Put the trials of each task together."""
    tasks: dict[TaskName, list[JournalEntry]] = {}
    for entry in entries:
        tasks.setdefault((entry.key.task, entry.key.agent), []).append(entry)
    return tasks


def _is_passed(entry: JournalEntry) -> bool:
    return entry.ending == "passed"


def _rate(
    trials_and_passes: Sequence[tuple[int, int]], k: int, estimate: Callable[[int, int, int], float]
) -> Rate | None:
    rates = [estimate(trials, passes, k) for trials, passes in trials_and_passes if trials >= k]
    return Rate(sum(rates) / len(rates), len(rates)) if rates else None


def _task_passed(trials: Sequence[JournalEntry], threshold: float) -> bool:
    kind: Kind = trials[0].kind
    scores = [entry.score for entry in trials]
    return task_passed(kind, map(_is_passed, trials), scores, threshold) is True


def _undecided(entries: Sequence[JournalEntry]) -> Counter[str]:
    """Count the grades whose graders could not tell: one that broke its trial is counted as that error."""
    return Counter(
        grade.grader
        for entry in entries
        for grade in entry.grades
        if grade.score is None and grade.undecided not in (CRASH, entry.cause or CRASH)
    )


def _resource_use(usages: Sequence[Usage], entries: Sequence[JournalEntry]) -> ResourceUse:
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    unpriced = len(usages) - len(costs)
    return ResourceUse(
        tokens=sum(usage.tokens for usage in usages),
        untold=sum(usage.untold for usage in usages),
        usd=None if unpriced and not any(costs) else sum(costs),
        unpriced=unpriced,
        seconds=sum(entry.seconds + entry.earlier_seconds for entry in entries),
    )


def _total_counts(counts: Iterable[TapeCounts]) -> TapeCounts:
    hits = misses = recorded = 0
    for count in counts:
        hits, misses, recorded = hits + count.hits, misses + count.misses, recorded + count.recorded
    return TapeCounts(hits, misses, recorded)

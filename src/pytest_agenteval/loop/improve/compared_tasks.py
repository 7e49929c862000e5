"""What decisions read of a comparison: pairs of scores, what stands in their way, and how it is named."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from pytest_agenteval.compare.comparison import Comparison, SuiteComparison, TaskChange
from pytest_agenteval.compare.scoring.exact_tests import PairedScores
from pytest_agenteval.compare.scoring.sensitivity import mean
from pytest_agenteval.text.formatting import one_line, pluralize

MOST_NAMES = 5
MOST_NAME = 200

FocusBuckets: TypeAlias = Collection[str]
"""The names of the buckets that are to rise."""


def tasks_in(comparison: Comparison, focus: FocusBuckets) -> list[TaskChange]:
    """Give the tasks of these buckets, of every suite that is compared."""
    return [task for suite in comparison.suites for task in suite.tasks if task.bucket in focus]


def paired_scores(
    tasks: Sequence[TaskChange], errored_old: float | None = None, errored_new: float | None = None
) -> list[PairedScores]:
    """Give the scores of tasks that have some on both sides, errored trials as said; None leaves them out."""
    pairs = [(_scores(task.old, errored_old), _scores(task.new, errored_new)) for task in tasks]
    return [(old, new) for old, new in pairs if old and new]


def _scores(scores: Sequence[float | None], errored: float | None) -> list[float]:
    filled = (errored if score is None else score for score in scores)
    return [score for score in filled if score is not None]


def old_mean(pairs: Sequence[PairedScores]) -> float:
    """Give the mean over tasks of each one's mean score before."""
    return mean([mean(old) for old, _ in pairs])


def new_mean(pairs: Sequence[PairedScores]) -> float:
    """Give the mean over tasks of each one's mean score now."""
    return mean([mean(new) for _, new in pairs])


def obstacle_of(comparison: Comparison) -> str:
    """Say what keeps a comparison from deciding anything; nothing where it can."""
    obstacles = comparison.obstacles
    if not comparison.has_scores:
        return "no task has scores on both sides"
    if lost := (*comparison.unmatched_old, *comparison.unmatched_new):
        return f"{listed([one_line(name, MOST_NAME) for name in lost])}: tried on one side only"
    if not obstacles:
        return ""
    what = f"{one_line(obstacles[0].task, MOST_NAME)}: {one_line(obstacles[0].problem, MOST_NAME)}"
    return f"{pluralize(len(obstacles), 'task')} cannot be compared: {what}"


def with_model(comparison: Comparison, suite: SuiteComparison, what: str) -> str:
    """Say which model something is said of, where several are compared: another may have stayed as it was."""
    model = one_line(suite.new_who[0], MOST_NAME)
    return f"{what} with {model}" if len(comparison.suites) > 1 and model else what


def suite_name(suite: SuiteComparison) -> str:
    """Give a suite's name on one line, cut where it is long."""
    return one_line(suite.name, MOST_NAME)


def listed(names: Sequence[str]) -> str:
    """Give names in a row: the first of them, and how many more there are."""
    left = len(names) - MOST_NAMES
    return ", ".join([*names[:MOST_NAMES], *([f"and {left} more"] if left > 0 else [])])

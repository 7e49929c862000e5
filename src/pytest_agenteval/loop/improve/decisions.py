"""What is decided of a round: whether the next one begins from its changed prompt.

The dev split only ranks: of many rounds the best one looks better than it is, so "kept for now" is all that
dev can earn. Whether it is confirmed, held-out tasks say (``confirmation``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.compare.verdict import AT_WORST, Change
from pytest_agenteval.loop.improve.compared_tasks import (
    FocusBuckets,
    listed,
    new_mean,
    obstacle_of,
    old_mean,
    paired_scores,
    suite_name,
    tasks_in,
    with_model,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.comparison_text import bucket_name
from pytest_agenteval.text.formatting import format_figure, pluralize

SAME = 1e-9


class FocusChange(FrozenValue, frozen=True):
    """What became of the mean over the focus's tasks: of mean scores, and with errored trials at their worst.

    None where no task of the focus has scores on both sides. ``errored`` counts its trials of both sides.
    """

    tasks: int
    old: float | None
    new: float | None
    change_at_worst: float | None
    errored: int

    @property
    def change(self) -> float | None:
        """New mean less old mean."""
        return None if self.old is None or self.new is None else self.new - self.old

    @property
    def figures(self) -> str:
        """Both means, as ``0.50 -> 0.75``."""
        return f"{format_figure(self.old)} -> {format_figure(self.new)}"


class RoundDecision(FrozenValue, frozen=True):
    """Whether the next round begins from a changed prompt, why, and which suites and buckets are worse."""

    decision: Literal["kept for now", "discarded"]
    reason: str
    focus: FocusChange
    worse: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the next round begins from the change."""
        return self.decision == "kept for now"


def focus_change(comparison: Comparison, focus: FocusBuckets) -> FocusChange:
    """Give what became of the tasks of these buckets, over all models that are compared."""
    tasks = tasks_in(comparison, focus)
    pairs = paired_scores(tasks)
    errored = sum(score is None for task in tasks for score in (*task.old, *task.new))
    if not pairs:
        return FocusChange(0, None, None, None, errored)
    at_worst = paired_scores(tasks, *AT_WORST)
    return FocusChange(
        len(pairs), old_mean(pairs), new_mean(pairs), new_mean(at_worst) - old_mean(at_worst), errored
    )


def decide_screen(comparison: Comparison, focus: FocusBuckets) -> RoundDecision:
    """Decide after the focus alone was tried: what is not better there in the mean is discarded."""
    change = focus_change(comparison, focus)
    if obstacle := obstacle_of(comparison):
        return RoundDecision("discarded", obstacle, change)
    reason = _why_not_risen(change)
    return RoundDecision(
        "discarded" if reason else "kept for now", reason or f"the focus rose ({change.figures})", change
    )


def decide_round(comparison: Comparison, focus: FocusBuckets) -> RoundDecision:
    """Decide after the whole dev split was tried, old and new.

    Kept for now if the focus rose in the mean over its tasks and neither a suite nor a testable bucket is
    worse. Errored trials count for the change only as in a comparison's verdicts: what they could undo is not
    believed. Tasks that cannot be compared are a reason to discard: only the change can have made them so.
    """
    screen = decide_screen(comparison, focus)
    if not screen.accepted:
        return screen
    worse = tuple(_worse(comparison))
    if worse:
        return RoundDecision("discarded", f"worse: {listed(worse)}", screen.focus, worse)
    if doubtful := tuple(_doubtful(comparison)):
        reason = f"{listed(doubtful)} would be worse; trials that errored leave it open"
        return RoundDecision("discarded", reason, screen.focus)
    return RoundDecision("kept for now", f"{screen.reason}, no fall was shown", screen.focus)


def _why_not_risen(focus: FocusChange) -> str:
    """Say why the focus is not taken to have risen; nothing where it is."""
    if focus.change is None or focus.change_at_worst is None:
        return "no task of the focus has scores on both sides"
    if focus.change <= SAME:
        return f"the focus did not rise ({focus.figures})"
    if focus.change_at_worst <= SAME:
        trials = pluralize(focus.errored, "trial")
        return f"{trials} of the focus errored: nobody can tell whether it rose ({focus.figures} without)"
    return ""


def _worse(comparison: Comparison) -> Iterator[str]:
    for change, name in _named_changes(comparison):
        if change.verdict == "worse":
            yield f"{name} ({format_figure(change.old)} -> {format_figure(change.new)})"


def _doubtful(comparison: Comparison) -> Iterator[str]:
    """Name what is worse by its scores, a verdict that errored trials undo."""
    for change, name in _named_changes(comparison):
        if change.undone and change.change < 0:
            yield name


def _named_changes(comparison: Comparison) -> Iterator[tuple[Change, str]]:
    for suite in comparison.suites:
        for change in suite.changes:
            name = f"{suite_name(suite)} as a whole" if change is suite.suite else bucket_name(change)
            yield change, with_model(comparison, suite, name)

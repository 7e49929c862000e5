"""What held-out tasks say, asked once: the state at the start against the one that was kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.loop.improve.confirmation import Confirmation, confirm, repetitions_to_confirm
from pytest_agenteval.loop.improve.paired_runs import RunFailed, RunOrder
from pytest_agenteval.loop.improve.progress import HeldOut, Improvement
from pytest_agenteval.loop.improve.suite_tasks import SuiteTasks
from pytest_agenteval.loop.improve.trying import HELD_OUT, Judgement, Trying, looks_so_far
from pytest_agenteval.store.run_folder import keeping_latest

MOST_REPETITIONS = 8


def hold_out(trying: Trying, improvement: Improvement, tasks: SuiteTasks, start: Path, kept: Path) -> HeldOut:
    """Try held-out tasks in both trees, which are checked out for it, and say what they confirm."""
    if not tasks.held_out:
        return HeldOut("the suite has no held-out task")
    trying.check_out(start, improvement.start)
    order = _order(trying, improvement, tasks, start)
    if order is None:
        most = improvement.limits.max_trials
        return HeldOut(f"trying held-out tasks would go beyond --max-trials {most}")
    confirmations: list[Confirmation] = []

    def judge(comparison: Comparison) -> Judgement:
        looks = looks_so_far(Path(improvement.results), improvement.suite)
        confirmations.append(confirm(comparison, improvement.focus, max(1, looks)))
        words = "confirmed" if confirmations[0].confirmed else "not confirmed"
        return Judgement(words, confirmations[0].reason)

    commits = (improvement.start, improvement.kept)
    try:
        with keeping_latest(Path(improvement.results)):  # these are not for whoever looks at it next
            _, tried = trying.pair(tasks, commits, (start, kept), order, judge)
    except RunFailed as failed:
        again = f"agenteval improve --continue {improvement.name} tries held-out tasks again"
        raise RunFailed(f"{failed}; {again}") from failed
    return HeldOut(tried.words, confirmations[0], tried)


def _order(trying: Trying, improvement: Improvement, tasks: SuiteTasks, tree: Path) -> RunOrder | None:
    """Order as many repetitions as it takes to confirm a rise of the focus, and as there is room for."""
    least = improvement.repetitions
    buckets = Counter(task.bucket for task in tasks.held_out)
    focus = sum(buckets[bucket] for bucket in improvement.focus)
    looks = 1 + looks_so_far(Path(improvement.results), improvement.suite)
    most = max(least, MOST_REPETITIONS)
    needed = repetitions_to_confirm(focus, looks, least, most, tuple(buckets.values()))
    once = 2 * trying.count(tree, trying.order(HELD_OUT, "held_out", 1))
    room = trying.room()
    fitting = needed if room is None or not once else min(needed, room // once)
    return trying.order(HELD_OUT, "held_out", fitting) if fitting >= 1 else None

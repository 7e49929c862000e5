"""The newest run of a trend beside the one before it: what is better, what is worse."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pytest_agenteval.compare.comparison import compare_runs
from pytest_agenteval.compare.pairing import ComparedRun, compared_run
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.records.record import Record
from pytest_agenteval.reports.comparison_text import verdict_text
from pytest_agenteval.store.journal_entry import group_of
from pytest_agenteval.store.run_folder import RunFolder
from pytest_agenteval.store.run_reader import load_run


class ComparedChange(Record, frozen=True):
    """How all tasks, or those of a bucket, changed between two runs: over the tasks that both have alike.

    ``says`` is the ``verdict`` in words, empty where none is possible; ``low`` and ``high`` are the ends of
    the interval of the ``change``.
    """

    name: str
    tasks: int
    old: float
    new: float
    change: float
    low: float | None
    high: float | None
    verdict: str
    says: str
    p: float
    testable: bool


class LastStep(Record, frozen=True):
    """The newest run of a series compared with the one before it, as ``agenteval compare`` does.

    ``left_out`` counts the tasks that cannot be compared. A suite's only bucket has no change of its own.
    """

    old: str
    new: str
    total: ComparedChange
    buckets: tuple[ComparedChange, ...]
    left_out: int


class LastSteps:
    """Compares runs of a suite; most series end with the same two runs, which are then read once."""

    def __init__(self, suite: str, folders: Sequence[RunFolder]) -> None:
        self._suite, self._paths = suite, {folder.path.name: folder.path for folder in folders}
        self._sides: dict[str, ComparedRun] = {}

    def compare(self, old: str, new: str, model: str, variant: str) -> LastStep | None:
        """Compare two runs with one model and variant; None where no task is alike in both."""
        # Whole runs are in memory: those of the last pair, and no others.
        self._sides = {run: self._sides.get(run) or self._trials(run) for run in (old, new)}
        who = (self._suite, model, variant)
        sides = (self._sides[old], self._sides[new])
        before, after = (
            replace(side, entries=tuple(each for each in side.entries if group_of(each) == who))
            for side in sides
        )
        for part in compare_runs(before, after).suites:
            if part.suite is not None:
                left_out = len({obstacle.task for obstacle in part.obstacles})
                buckets = tuple(map(_compared_change, part.buckets))
                return LastStep(old, new, _compared_change(part.suite), buckets, left_out)
        return None

    def _trials(self, run: str) -> ComparedRun:
        # What models were sent is looked at by `agenteval compare` alone, and moves no verdict.
        return replace(compared_run(load_run(self._paths[run])), transcript_of=None)


def _compared_change(change: Change) -> ComparedChange:
    interval = change.interval
    return ComparedChange(
        name=change.name,
        tasks=change.tasks,
        old=change.old,
        new=change.new,
        change=change.change,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        verdict=change.verdict,
        says=verdict_text(change) if change.testable else "",
        p=change.p_of_verdict,
        testable=change.testable,
    )

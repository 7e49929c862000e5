"""What a report file is made of: runs, and what they are compared with."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_agenteval.compare.comparison import RunComparison, compare_runs
from pytest_agenteval.compare.pairing import ComparedRun, compared_run
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.scorecard import RegisteredScorecard
from pytest_agenteval.store.run_reader import Run


class ReportSource(FrozenValue, frozen=True):
    """One run or several, and the comparison where one of them is compared.

    ``old`` is the old side of the comparison and ``old_run`` its run, which is not in ``runs``. It is None
    where the old side is a baseline's file, which has no transcripts. ``scorecards`` are those of benchmarks.
    ``rows`` names the kind of rows of a table: trials, grades, calls, messages or runs.
    """

    runs: tuple[Run, ...]
    comparison: RunComparison | None = None
    old: ComparedRun | None = None
    old_run: Run | None = None
    scorecards: Sequence[RegisteredScorecard] = ()
    rows: str = "trials"

    @property
    def all_runs(self) -> tuple[Run, ...]:
        """Every run of the report, the old one first."""
        return (self.old_run, *self.runs) if self.old_run else self.runs


def report_source(runs: Sequence[Run], scorecards: Sequence[RegisteredScorecard] = ()) -> ReportSource:
    """Make a comparison of two runs that share a suite; other runs stand side by side."""
    if len(runs) == 2:
        old, new = runs
        comparison = compare_runs(compared_run(old), compared_run(new))
        if comparison.suites:
            return ReportSource((new,), comparison, compared_run(old), old, scorecards)
    return ReportSource(tuple(runs), scorecards=scorecards)

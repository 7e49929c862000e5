"""What a report file is made of: the sides that it shows, one or several."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_agenteval.compare.comparison import RunComparison
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.scorecard import RegisteredScorecard
from pytest_agenteval.reports.sides import Sides, sides_of
from pytest_agenteval.store.run_reader import Run


class ReportSource(FrozenValue, frozen=True):
    """The sides of a report.

    ``scorecards`` are those of benchmarks. ``rows`` names the kind of rows of a table: trials, grades, calls,
    messages or runs.
    """

    sides: Sides
    scorecards: Sequence[RegisteredScorecard] = ()
    rows: str = "trials"

    @property
    def all_runs(self) -> tuple[Run, ...]:
        """Every run that has transcripts, each once, the old ones first."""
        return tuple(dict.fromkeys(side.run for side in self.sides.sides if side.run is not None))

    @property
    def comparison(self) -> RunComparison | None:
        """The comparison of two sides that have a suite in common; None for any other number of sides."""
        if len(self.sides) != 2:
            return None
        comparison = self.sides.comparison(0, 1)
        return comparison if comparison.suites else None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs without the old one of two that are compared."""
        old = self.sides.sides[0].run if self.comparison else None
        return tuple(run for run in self.all_runs if run is not old) or self.all_runs


def report_source(
    runs: Sequence[Run],
    scorecards: Sequence[RegisteredScorecard] = (),
    models: Sequence[str] = (),
    variants: Sequence[str] = (),
) -> ReportSource:
    """Give the report of some runs, or of those models and variants of them that are named."""
    return ReportSource(sides_of(runs, models, variants), scorecards)

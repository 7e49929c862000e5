"""A run's budget counts what judges of a calibration are paid."""

from __future__ import annotations

import pytest

from tests.calibration.judges import project, rows
from tests.suites import run


def test_judges_of_a_calibration_are_paid_of_the_runs_budget(letters: pytest.Pytester) -> None:
    """Ten examples, asked about twice at a tenth of a cent; once the budget is spent nothing is judged."""
    project(letters.path, "repeats: 2\n", rows(10))

    result = run(letters, "evals", "--agent-judge=perfect", "--agent-max-cost=0.03")
    result.stdout.fnmatch_lines_random(["budget: $0.0200 of $0.0300"])

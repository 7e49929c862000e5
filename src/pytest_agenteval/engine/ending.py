"""How a trial ended, by what its graders found."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.plan import Kind
from pytest_agenteval.records.trial import Ending, ErrorDetails
from pytest_agenteval.scoring.trial_score import trial_score

UNGRADED = "ungraded"
"""The cause of a trial with nothing decided, or with a required grade undecided."""


def weighted_score(grades: Sequence[Grade]) -> float | None:
    """Give the weighted mean of the decided grades, or None when none is decided."""
    return trial_score((grade.score, grade.weight) for grade in grades)


def ungraded_error(grades: Sequence[Grade]) -> ErrorDetails | None:
    """Say why grades do not make an ending, where they do not."""
    needed = [grade for grade in grades if grade.required and grade.score is None]
    if needed:
        said = "; ".join(f"{grade.grader} is required and undecided: {grade.rationale}" for grade in needed)
        return ErrorDetails(UNGRADED, said)
    if all(grade.score is None for grade in grades):
        reasons = "; ".join(f"{grade.grader}: {grade.rationale}" for grade in grades)
        return ErrorDetails(UNGRADED, f"nothing could be graded: {reasons}" if reasons else "no grader")
    return None


def graded_ending(grades: Sequence[Grade], kind: Kind) -> Ending:
    """Give passed where every decided grade reached its threshold, else missed, outside capability failed."""
    if all(grade.passed is not False for grade in grades):
        return "passed"
    return "missed" if kind == "capability" else "failed"

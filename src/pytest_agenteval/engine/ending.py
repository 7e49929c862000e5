"""How a trial ended, by what its graders found."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.trial import Ending, Kind
from pytest_agenteval.scoring.trial_score import trial_score


def score_of(grades: Sequence[Grade]) -> float | None:
    """Give the weighted mean of the decided grades, or None when none is decided."""
    return trial_score((grade.score, grade.weight) for grade in grades)


def ungraded(grades: Sequence[Grade]) -> str:
    """Say why grades do not make an ending, or give an empty text when they do."""
    needed = [grade for grade in grades if grade.required and grade.score is None]
    if needed:
        return "; ".join(f"{grade.grader} is required and undecided: {grade.rationale}" for grade in needed)
    if all(grade.score is None for grade in grades):
        reasons = "; ".join(f"{grade.grader}: {grade.rationale}" for grade in grades)
        return f"nothing could be graded: {reasons}" if reasons else "no grader"
    return ""


def ending_of(grades: Sequence[Grade], kind: Kind) -> Ending:
    """Give passed where every decided grade reached its threshold, else missed, outside capability failed."""
    if all(grade.passed is not False for grade in grades):
        return "passed"
    return "missed" if kind == "capability" else "failed"

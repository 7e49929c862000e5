"""What graders find: checks with both sides of the answer, and grades with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_agenteval.records.record import NOTHING, Record

UNDECIDED: Mapping[str, str] = {
    "no_judge": "only a judge can tell, and none is there or can be asked now",
    "limit": "the judges' share of what the trial may use up is used up",
    "not_applicable": "the measure says nothing of such a task or such a trial",
    "unreadable": "what the agent left is in a shape that the measure cannot read",
    "not_defined": "the program whose figures are repeated has no such measure",
}
"""Why there may be no score, and what it means; where a grader broke, it is one of ``CAUSES``."""

CRASH = "grader_crash"
"""Why there is no score where a grader raised, or returned something that is no grade."""


class Check(Record, frozen=True, gc=False):
    """One yes-or-no question, with both sides of the answer."""

    claim: str
    passed: bool
    expected: str = ""
    found: str = ""

    def __str__(self) -> str:
        if self.passed:
            return f"ok: {self.claim}"
        return f"no: {self.claim} (expected {self.expected}, found {self.found})"


class Grade(Record, frozen=True, gc=False):
    """What one grader found about one trial.

    ``score`` runs from 0 to 1. ``None`` says that the grader could not tell: such a grade is shown, and left
    out of every average. A grader fills in the first four fields and, where it has more to say, ``details``
    (JSON); ``threshold``, ``weight`` and ``required`` come from the task. A measure that runs past 0..1 gives
    the nearer end as ``score`` and what it came to as ``unclamped``. ``undecided`` says why there is no
    score: one word of ``UNDECIDED``, or the cause for which the grader broke. It is empty where there is a
    score, and where the grader says no more than its rationale.
    """

    grader: str
    score: float | None
    rationale: str
    checks: tuple[Check, ...] = ()
    details: Mapping[str, Any] = NOTHING
    threshold: float = 1.0
    weight: float = 1.0
    required: bool = False
    unclamped: float | None = None
    undecided: str = ""

    @classmethod
    def from_checks(cls, grader: str, checks: Iterable[Check]) -> Grade:
        """Give partial credit: the share of checks that passed; undecided when there is none."""
        counted = tuple(checks)
        if not counted:
            return cls(grader, None, "nothing to check")
        missed = [check for check in counted if not check.passed]
        rationale = "; ".join(map(str, missed)) or f"all {len(counted)} checks passed"
        return cls(grader, 1 - len(missed) / len(counted), rationale, counted)

    @property
    def value(self) -> float | None:
        """What was measured: the score or, where that is only the nearer end of 0..1, what lies past it."""
        return self.score if self.score is None or self.unclamped is None else self.unclamped

    @property
    def passed(self) -> bool | None:
        """Whether the score reached the threshold; None when the grade is undecided."""
        return None if self.score is None else self.score >= self.threshold - 1e-9

    @property
    def crashed(self) -> bool:
        """Whether the grader itself broke, which is not the same as one that could not tell."""
        return self.undecided == CRASH

    @property
    def full(self) -> bool:
        """Whether the score is 1."""
        return self.score is not None and self.score >= 1.0 - 1e-9

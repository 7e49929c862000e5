"""How graders are given judges, and what they make of a judgement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_agenteval.graders.grader import Judge
from pytest_agenteval.graders.judge.votes import Judgement
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade

HAIR = 1e-9


class Judging(Protocol):
    """A grader that can grade with the help of judges."""

    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        """Give the grade; there may be no judge."""
        ...


@dataclass(frozen=True, slots=True)
class WithJudges:
    """A grader and the judges of one trial."""

    grader: Judging
    judges: tuple[Judge, ...]

    async def grade(self, evidence: Evidence) -> Grade:
        """Let the grader ask its judges."""
        return await self.grader.judged(evidence, self.judges)


def no_judge(grader: str) -> Grade:
    """Give the grade of one that nobody is there to decide."""
    rationale = "no judge: --agent-judge=MODEL decides it"
    return Grade(grader, None, rationale, details={"undecided": "no_judge"})


def grade_of(grader: str, judgement: Judgement, threshold: float) -> Grade:
    """Make a grade of what judges found: one check for each dimension that could be told."""
    scores = judgement.scores
    checks = tuple(at_least(name, score, threshold) for name, score in scores.items() if score is not None)
    told = ", ".join(f"{name} {shown(score)}" for name, score in scores.items())
    return Grade(grader, judgement.score, f"{told}: {judgement.rationale}", checks, details(judgement))


def details(found: Any) -> dict[str, Any]:
    """Give what stands beside the grade of a judgement or a comparison."""
    return {"judgement": found.as_details()}


def at_least(name: str, score: float | None, threshold: float) -> Check:
    """Check that a dimension reaches the threshold; one that could not be told does not."""
    passed = score is not None and score >= threshold - HAIR
    return Check(f"{name} is good enough", passed, f"{threshold:g} or more", shown(score))


def shown(score: float | None) -> str:
    """Write a score for people; two digits must not make it look like a threshold that it lies below."""
    if score is None:
        return "unknown"
    return f"{score:.2f}" if abs(score - round(score, 2)) < HAIR else f"{score:.4f}"

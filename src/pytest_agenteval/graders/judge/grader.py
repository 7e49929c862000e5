"""Graders that ask judges: how they get judges, what they make of a judgement, and one for any rubric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from pytest_agenteval.graders.grader import Judge
from pytest_agenteval.graders.judge.aggregation import Judgement
from pytest_agenteval.graders.judge.evidence_text import SHOWABLE
from pytest_agenteval.graders.judge.panel import Comparison, ask_judges, compare
from pytest_agenteval.graders.judge.prompt import Rubric
from pytest_agenteval.graders.judge.rubric import packaged_rubric, read_rubric
from pytest_agenteval.records.evidence import Check, Evidence, Grade
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.text.errors import Problem, ProblemsFound, key_path_text

ROUNDING = 1e-9


class RubricGrader(ABC):
    """Base of graders that ask judges by a rubric: say which in ``used_rubric``, and grade in ``judged``.

    The engine gives it judges before it grades, or none where nobody is there to ask. The rubric's digest is
    part of the ruler's: another rubric makes other grades.
    """

    __slots__ = ()

    @abstractmethod
    def used_rubric(self) -> Rubric | None:
        """Give the rubric that judges are asked by; None where, as it is set, nobody is asked."""

    @abstractmethod
    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        """Give the grade; there may be no judge, see ``no_judge_grade``."""

    @property
    def rubric_digest(self) -> str:
        """A digest of all that judges are told, for the ruler's; empty where nobody is asked."""
        rubric = self.used_rubric()
        return rubric.digest() if rubric else ""

    def with_judges(self, judges: Sequence[Judge]) -> WithJudges:
        """Give a grader that asks these judges."""
        return WithJudges(self, tuple(judges))

    async def grade(self, evidence: Evidence) -> Grade:
        """Grade without judges."""
        return await self.judged(evidence, ())


@dataclass(frozen=True, slots=True)
class WithJudges:
    """A grader and the judges of one trial."""

    grader: RubricGrader
    judges: tuple[Judge, ...]

    async def grade(self, evidence: Evidence) -> Grade:
        """Let the grader ask its judges."""
        return await self.grader.judged(evidence, self.judges)


def no_judge_grade(grader: str) -> Grade:
    """Give the grade of one that nobody is there to decide."""
    rationale = "no judge: --agent-judge=MODEL decides it"
    return Grade(grader, None, rationale, undecided="no_judge")


def grade_from_judgement(grader: str, judgement: Judgement, threshold: float) -> Grade:
    """Make a grade of what judges found: one check for each dimension that could be told."""
    scores = judgement.scores
    checks = tuple(
        dimension_check(name, score, threshold) for name, score in scores.items() if score is not None
    )
    score_list = ", ".join(f"{name} {format_score(score)}" for name, score in scores.items())
    return Grade(
        grader, judgement.score, f"{score_list}: {judgement.rationale}", checks, judgement_details(judgement)
    )


def judgement_details(verdict: Any) -> dict[str, Any]:
    """Give what stands beside the grade of a judgement or a comparison."""
    return {"judgement": verdict.as_details()}


def dimension_check(name: str, score: float | None, threshold: float) -> Check:
    """Check that a dimension reaches the threshold; one that could not be told does not."""
    passed = score is not None and score >= threshold - ROUNDING
    return Check(f"{name} is good enough", passed, f"{threshold:g} or more", format_score(score))


def format_score(score: float | None) -> str:
    """Write a score for people; two digits must not make it look like a threshold that it lies below."""
    if score is None:
        return "unknown"
    return f"{score:.2f}" if abs(score - round(score, 2)) < ROUNDING else f"{score:.4f}"


NAME = "judge"
OWN = "answer"


@dataclass(frozen=True, slots=True)
class JudgeGrader(RubricGrader):
    """What do judges find, by this rubric? The score is the mean of the dimensions that they could tell.

    ``rubric`` is a file that ends in ``.jinja`` or the name of a registered one. It may show the task, the
    agent's answer, its calls, its changes to files, and the conversation. With ``against``, texts by name,
    the answer is compared with them by a rubric for candidates: 1 where judges prefer it to all of them, 0.5
    where it shares the first place, else 0.

    Where what is judged is blank, the score is 0 and nobody is asked; without a judge it is undecided, and
    where none of the judges could tell. Good enough is 0.6, for the whole and in each check.
    """

    rubric: str
    against: Mapping[str, str] = field(default_factory=lambda: NOTHING)

    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 0.6
    files: ClassVar[Mapping[str, str]] = {"rubric": ".jinja"}

    def __post_init__(self) -> None:
        _check(self.used_rubric(), self.against)

    @staticmethod
    def rubric_named(name: str) -> Rubric:
        """Find a rubric by its name: one of the core's own, or of all that a registry has."""
        return packaged_rubric(name)

    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        """Show judges what the rubric shows, and give what they find."""
        rubric = self.used_rubric()
        values = {name: SHOWABLE[name](evidence) for name in rubric.shows}
        if not values[rubric.output].strip():
            return Grade(NAME, 0.0, f"nothing to judge: the trial left no {rubric.output}")
        if not judges:
            return no_judge_grade(NAME)
        if not self.against:
            return grade_from_judgement(NAME, await ask_judges(rubric, values, judges), self.threshold)
        candidates = {OWN: values.pop(rubric.output), **self.against}
        return _comparison_grade(await compare(rubric, values, candidates, judges))

    def used_rubric(self) -> Rubric:
        """Read the rubric: its whole text, or the name of one; a mistake is a ValueError."""
        if self.rubric.lstrip("\ufeff").startswith("---"):
            return _read_inlined(self.rubric)
        return self.rubric_named(self.rubric)


@lru_cache(maxsize=256)
def _read_inlined(text: str) -> Rubric:
    try:
        return read_rubric(text)
    except ProblemsFound as error:
        raise ValueError("; ".join(map(_in_one_line, error.problems))) from None


def _in_one_line(problem: Problem) -> str:
    key = f"{key_path_text(problem.path)}: " if problem.path else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"rubric, line {problem.line}: {key}expected {problem.expected}, found {problem.found}{hint}"


def _check(rubric: Rubric, against: Mapping[str, str]) -> None:
    """Refuse a rubric that wants to show what there is not, and one that does not fit ``against``."""
    missing = [name for name in rubric.shows if name not in SHOWABLE]
    if missing:
        showable = ", ".join(SHOWABLE)
        raise ValueError(f"rubric {rubric.name} shows {', '.join(missing)}; there are {showable}")
    if rubric.candidates != bool(against):
        wants = "needs against: texts by name" if rubric.candidates else "compares nothing: leave against out"
        raise ValueError(f"rubric {rubric.name} {wants}")
    if against and rubric.output != OWN:
        raise ValueError(f"rubric {rubric.name} must have the answer as its output, not the {rubric.output}")
    if OWN in against:
        raise ValueError(f"against: {OWN!r} is the agent's own; give the other text another name")


def _comparison_grade(comparison: Comparison) -> Grade:
    """Make a grade of a comparison: one check for each text that the answer is compared with."""
    scores = comparison.scores
    own = scores[OWN]
    score_list = ", ".join(f"{name} {format_score(score)}" for name, score in scores.items())
    why = next(iter(comparison.judgements.values())).rationale
    checks = tuple(
        Check(
            f"the answer is better than {name}",
            own > score,
            f"more than {format_score(score)}",
            format_score(own),
        )
        for name, score in scores.items()
        if name != OWN and own is not None and score is not None
    )
    return Grade(
        NAME, comparison.preference(OWN), f"{score_list}: {why}", checks, judgement_details(comparison)
    )

"""The grader that asks judges by any rubric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

from pytest_agenteval.errors import Problem, ProblemsFound, dotted
from pytest_agenteval.graders.grader import Judge
from pytest_agenteval.graders.judge.asking import WithJudges, details, grade_of, no_judge, shown
from pytest_agenteval.graders.judge.candidates import Comparison, compare
from pytest_agenteval.graders.judge.panel import ask_judges
from pytest_agenteval.graders.judge.rubric import Rubric, packaged_rubric, read_rubric
from pytest_agenteval.graders.judge.shown import AVAILABLE
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade
from pytest_agenteval.records.transcript import NOTHING

NAME = "judge"
OWN = "answer"


@dataclass(frozen=True, slots=True)
class Judged:
    """What do judges find, by this rubric? The score is the mean of the dimensions that they could tell.

    ``rubric`` is a file that ends in ``.jinja`` or the name of a packaged one. It may show the task, the
    agent's answer, its calls, its changes to files, and the conversation. With ``against``, texts by name,
    the answer is compared with them by a rubric for candidates: 1 where judges prefer it to all of them, 0.5
    where it shares the first place, else 0.

    Where what is judged is blank, the score is 0 and nobody is asked; without a judge it is undecided, and
    where none of the judges could tell. Good enough is 0.6, for the whole and in each check.
    """

    rubric: str
    against: Mapping[str, str] = field(default_factory=lambda: NOTHING)

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 0.6
    files: ClassVar[Mapping[str, str]] = {"rubric": ".jinja"}

    def __post_init__(self) -> None:
        _check(_rubric(self.rubric), self.against)

    @property
    def rubric_digest(self) -> str:
        """A digest of all that judges are told, for the ruler's."""
        return _rubric(self.rubric).digest()

    def with_judges(self, judges: Sequence[Judge]) -> WithJudges:
        """Give a grader that asks these judges."""
        return WithJudges(self, tuple(judges))

    async def grade(self, evidence: Evidence) -> Grade:
        """Grade without judges."""
        return await self.judged(evidence, ())

    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        """Show judges what the rubric shows, and give what they find."""
        rubric = _rubric(self.rubric)
        values = {name: AVAILABLE[name](evidence) for name in rubric.shows}
        if not values[rubric.output].strip():
            return Grade(NAME, 0.0, f"nothing to judge: the trial left no {rubric.output}")
        if not judges:
            return no_judge(NAME)
        if not self.against:
            return grade_of(NAME, await ask_judges(rubric, values, judges), self.threshold)
        candidates = {OWN: values.pop(rubric.output), **self.against}
        return _preferred(await compare(rubric, values, candidates, judges))


@lru_cache(maxsize=256)
def _rubric(given: str) -> Rubric:
    """Read the rubric: its whole text, or the name of a packaged one; a mistake is a ValueError."""
    if given.lstrip("\ufeff").startswith("---"):
        try:
            return read_rubric(given)
        except ProblemsFound as found:
            raise ValueError("; ".join(map(_in_one_line, found.problems))) from None
    return packaged_rubric(given)


def _in_one_line(problem: Problem) -> str:
    key = f"{dotted(problem.path)}: " if problem.path else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"rubric, line {problem.line}: {key}expected {problem.expected}, found {problem.found}{hint}"


def _check(rubric: Rubric, against: Mapping[str, str]) -> None:
    """Refuse a rubric that wants to show what there is not, and one that does not fit ``against``."""
    missing = [name for name in rubric.shows if name not in AVAILABLE]
    if missing:
        known = ", ".join(AVAILABLE)
        raise ValueError(f"rubric {rubric.name} shows {', '.join(missing)}; there are {known}")
    if rubric.candidates != bool(against):
        wants = "needs against: texts by name" if rubric.candidates else "compares nothing: leave against out"
        raise ValueError(f"rubric {rubric.name} {wants}")
    if against and rubric.output != OWN:
        raise ValueError(f"rubric {rubric.name} must have the answer as its output, not the {rubric.output}")
    if OWN in against:
        raise ValueError(f"against: {OWN!r} is the agent's own; give the other text another name")


def _preferred(found: Comparison) -> Grade:
    """Make a grade of a comparison: one check for each text that the answer is compared with."""
    scores = found.scores
    own = scores[OWN]
    told = ", ".join(f"{name} {shown(score)}" for name, score in scores.items())
    why = next(iter(found.judgements.values())).rationale
    checks = tuple(
        Check(f"the answer is better than {name}", own > score, f"more than {shown(score)}", shown(own))
        for name, score in scores.items()
        if name != OWN and own is not None and score is not None
    )
    return Grade(NAME, found.preference(OWN), f"{told}: {why}", checks, details(found))

"""What both judged graders have in common: who is asked, and how Memex reads and counts what they say."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from pytest_agenteval import (
    Evidence,
    Grade,
    Judge,
    Judgement,
    RubricGrader,
    ask_judges,
    dimension_check,
    grade_from_judgement,
    judgement_details,
    no_judge_grade,
    read_rubric_file,
)
from pytest_agenteval.benchmarks.memex.graders.settings import Mode, check_mode
from pytest_agenteval.graders.judge.prompt import RATIONALE, Rubric
from pytest_agenteval.graders.judge.reply_parser import UnreadableReply, Verdict

RUBRICS = Path(__file__).parent.parent / "rubrics"


def own_rubric(name: str) -> Rubric:
    """Read a rubric of this benchmark."""
    return read_rubric_file(RUBRICS / f"{name}.jinja")


@dataclass(frozen=True, slots=True)
class PkmJudgedGrader(RubricGrader):
    """A grader of the PKM agent that asks judges, in its own way of reading and counting or in Memex's."""

    mode: Mode = "default"

    agent: ClassVar[str] = "pkm"
    threshold: ClassVar[float] = 0.6
    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_mode(self.mode)

    @abstractmethod
    def used_rubric(self) -> Rubric:
        """Give the rubric of this mode."""

    @abstractmethod
    def prompt_values(self, evidence: Evidence) -> Mapping[str, str] | Grade:
        """Give what judges are shown, or the grade of a trial that needs no judge."""

    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        """Ask these judges, where there is something to ask."""
        values = self.prompt_values(evidence)
        if isinstance(values, Grade):
            return values
        if not judges:
            return no_judge_grade(self.name)
        rubric = self.used_rubric()
        if self.mode == "upstream":
            judgement = await ask_judges(rubric, values, judges, parse=parse_upstream_reply, repair=False)
            return upstream_grade(self.name, judgement, self.threshold)
        return grade_from_judgement(self.name, await ask_judges(rubric, values, judges), self.threshold)


def upstream_grade(grader: str, judgement: Judgement, threshold: float) -> Grade:
    """Make a grade as Memex does: no check where no reply could be read, else one for every dimension."""
    if all(vote.problem for vote in judgement.votes):
        return Grade(grader, None, f"unreadable: {judgement.rationale}", details=judgement_details(judgement))
    checks = tuple(dimension_check(name, score, threshold) for name, score in judgement.scores.items())
    return Grade(grader, judgement.score, judgement.rationale, checks, judgement_details(judgement))


def parse_upstream_reply(reply: str, rubric: Rubric) -> Verdict:
    """Read a reply as Memex does; raises UnreadableReply.

    Of a reply with a code fence only what stands in the first one counts; of that, all from the first brace
    to the last. Scores are bent into the scale; what is no number is unknown.
    """
    text = _first_fence(reply)
    start, end = text.find("{"), text.rfind("}")
    try:
        found = json.loads(text[start : end + 1], parse_constant=_refuse_constant) if start >= 0 else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get(RATIONALE), str | None):
        raise UnreadableReply(f"no verdict in: {reply[:120]}")
    return Verdict(
        {name: _clamped_score(found.get(name), rubric) for name in rubric.names}, found.get(RATIONALE) or ""
    )


def _first_fence(reply: str) -> str:
    _, fence, after = reply.partition("```")
    return after.partition("\n")[2].partition("```")[0] if fence else reply


def _clamped_score(value: Any, rubric: Rubric) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value.strip().replace("_", "x"))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and isnan(value):
        return None
    return rubric.from_scale(min(max(value, rubric.low), rubric.high))


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")

"""Does the final answer say what it must?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval.graders.outcome.text_checks import enough, pattern_check
from pytest_agenteval.graders.settings import patterns
from pytest_agenteval.graders.shown import cut
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade


@dataclass(frozen=True, slots=True)
class AnswerContains:
    """Does the final answer contain this text? An empty answer contains nothing."""

    text: str
    ignore_case: bool = False
    version: ClassVar[str] = "1"
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("an empty text is contained in every answer")

    def grade(self, evidence: Evidence) -> Grade:
        """Give 1 where the text is found, else 0."""
        answer, text = evidence.answer, self.text
        if self.ignore_case:
            answer, text = answer.casefold(), text.casefold()
        found = cut(evidence.answer)
        check = Check(f"answer contains {self.text!r}", text in answer, repr(self.text), repr(found))
        return Grade.from_checks("answer_contains", [check])


@dataclass(frozen=True, slots=True)
class AnswerMatches:
    """Is each of these regular expressions found in the final answer? The score is the share that is.

    A pattern is searched for anywhere; ``^`` and ``$`` are the ends of each line. With ``any``, one pattern
    is enough for 1. A blank answer scores 0, whatever the patterns: an answer was asked for.
    """

    patterns: Sequence[str]
    any: bool = False

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", patterns("patterns", self.patterns))

    def grade(self, evidence: Evidence) -> Grade:
        """Search the answer for each pattern."""
        problem = "" if evidence.answer.strip() else "no answer"
        checks = [pattern_check("the answer", one, evidence.answer, problem) for one in self.patterns]
        return Grade.from_checks("answer_matches", enough(checks, any_will_do=self.any))

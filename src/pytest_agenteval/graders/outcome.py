"""Graders of what a trial left behind: its answer, for now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
        found = evidence.answer if len(evidence.answer) <= 200 else evidence.answer[:199] + "…"
        check = Check(f"answer contains {self.text!r}", text in answer, repr(self.text), repr(found))
        return Grade.from_checks("answer_contains", [check])

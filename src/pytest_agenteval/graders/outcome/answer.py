"""Does the final answer say what it must, and is it the JSON that was asked for?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.graders.formatting import brief, cut
from pytest_agenteval.graders.matching.matchers import check_values, values
from pytest_agenteval.graders.outcome.json_schema import check_schema, schema_problems
from pytest_agenteval.graders.outcome.texts import ParsedText, checks_to_score, parse_answer, pattern_checks
from pytest_agenteval.graders.settings import WrongSetting, patterns
from pytest_agenteval.records.evidence import Check, Evidence, Grade
from pytest_agenteval.text.json_values import normal_text


@dataclass(frozen=True, slots=True)
class AnswerContains:
    """Does the final answer contain this text? An empty answer contains nothing."""

    text: str
    ignore_case: bool = False
    version: ClassVar[str] = "2"
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("an empty text is contained in every answer")

    def grade(self, evidence: Evidence) -> Grade:
        """Give 1 where the text is found, else 0."""
        answer, text = normal_text(evidence.answer), normal_text(self.text)
        if self.ignore_case:
            answer, text = answer.casefold(), text.casefold()
        beginning = cut(evidence.answer)
        check = Check(f"answer contains {self.text!r}", text in answer, repr(self.text), repr(beginning))
        return Grade.from_checks("answer_contains", [check])


@dataclass(frozen=True, slots=True)
class AnswerMatches:
    """Is each of these regular expressions found in the final answer? The score is the share that is.

    A pattern is searched for anywhere; ``^`` and ``$`` are the ends of each line, which is a newline in
    any answer unless the pattern names ``\\r``. With ``any``, one pattern is enough for 1. A blank answer
    scores 0, whatever the patterns: an answer was asked for.
    """

    patterns: Sequence[str]
    any: bool = False

    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", patterns("patterns", self.patterns))

    def grade(self, evidence: Evidence) -> Grade:
        """Search the answer for each pattern."""
        problem = "" if evidence.answer.strip() else "no answer"
        checks = pattern_checks("the answer", self.patterns, evidence.answer, problem)
        return Grade.from_checks("answer_matches", checks_to_score(checks, any_will_do=self.any))


@dataclass(frozen=True, slots=True)
class AnswerJson:
    """Is the final answer JSON that keeps to a schema and holds these values? The score is the share that is.

    The whole answer is one JSON value, or one code fence that holds one. ``schema`` is a JSON Schema and
    counts as one question; ``values`` maps paths into the answer (``items[0].id``) to matchers, each of them
    one more; see ``matching/matchers.py``. An empty answer, and one that is no JSON, scores 0.
    """

    schema: Mapping[str, Any] | None = None
    values: Mapping[str, Any] | None = None

    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.schema is None and self.values is None:
            raise WrongSetting(("schema",), "a schema, or values", "neither")
        if self.schema is not None:
            check_schema("schema", self.schema)
        if self.values is not None:
            values("values", self.values)

    def grade(self, evidence: Evidence) -> Grade:
        """Read the answer, then compare it."""
        return Grade.from_checks("answer_json", self._checks(parse_answer(evidence.answer), evidence.answer))

    def _checks(self, parsed: ParsedText, answer: str) -> Iterator[Check]:
        # What was said instead helps more than where the parser stopped, which comes first.
        problem = (
            f"{parsed.problem}: {brief(answer)}" if parsed.problem and answer.strip() else parsed.problem
        )
        if self.schema is not None:
            wrong = problem or "; ".join(schema_problems(self.schema, parsed.readings[0]))
            yield Check(
                "the answer keeps to the schema", not wrong, "JSON that does", wrong or "JSON that does"
            )
        if self.values is not None:
            yield from check_values("answer", values("values", self.values), parsed.readings, problem)

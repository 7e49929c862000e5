"""Is the final answer the JSON that was asked for?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.graders.matching.matchers import check_values, values
from pytest_agenteval.graders.outcome.documents import Read, read_answer
from pytest_agenteval.graders.outcome.json_schema import check_schema, complaints
from pytest_agenteval.graders.settings import WrongSetting
from pytest_agenteval.graders.shown import shown
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade


@dataclass(frozen=True, slots=True)
class AnswerJson:
    """Is the final answer JSON that keeps to a schema and holds these values? The score is the share that is.

    The whole answer is one JSON value, or one code fence that holds one. ``schema`` is a JSON Schema and
    counts as one question; ``values`` maps paths into the answer (``items[0].id``) to matchers, each of them
    one more; see ``matching/matchers.py``. An empty answer, and one that is no JSON, scores 0.
    """

    schema: Mapping[str, Any] | None = None
    values: Mapping[str, Any] | None = None

    version: ClassVar[str] = "1"
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
        return Grade.from_checks("answer_json", self._asked(read_answer(evidence.answer), evidence.answer))

    def _asked(self, found: Read, answer: str) -> Iterator[Check]:
        # What was said instead helps more than where the parser stopped, which comes first.
        problem = f"{found.problem}: {shown(answer)}" if found.problem and answer.strip() else found.problem
        if self.schema is not None:
            wrong = problem or "; ".join(complaints(self.schema, found.value))
            yield Check(
                "the answer keeps to the schema", not wrong, "JSON that does", wrong or "JSON that does"
            )
        if self.values is not None:
            yield from check_values("answer", values("values", self.values), found.value, problem)

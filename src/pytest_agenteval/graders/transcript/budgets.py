"""Did the trial get by with so many steps, calls or tokens?

1 at the ceiling and below it; beyond, the ceiling's share of what was used, so that twice as much scores
0.5. Whoever does nothing keeps every ceiling: none of these is a task by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval.graders.settings import count_at
from pytest_agenteval.graders.transcript.tool_usage import agent_calls
from pytest_agenteval.records.evidence import Check, Evidence, Grade


@dataclass(frozen=True, slots=True)
class StepCeiling:
    """Did the agent ask its model at most so often?

    Replies to the agent are counted, those of judges are not. Where no ask was seen at all, as with an agent
    that asks a model behind our back, the grade is undecided.
    """

    steps: int

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        count_at(("steps",), self.steps, least=1)

    def grade(self, evidence: Evidence) -> Grade:
        """Count the model's replies."""
        used = len(evidence.transcript.asks)
        if not used:
            return Grade("step_ceiling", None, "no asking of a model was seen")
        return _ceiling_grade("step_ceiling", "steps", self.steps, used)


@dataclass(frozen=True, slots=True)
class CallCeiling:
    """Did the agent make at most so many tool calls?

    Calls that gave an error count, calls that the task made do not. An agent without calls is at 0, and
    scores 1. With a ceiling of 0, any call scores 0.
    """

    calls: int

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        count_at(("calls",), self.calls, least=0)

    def grade(self, evidence: Evidence) -> Grade:
        """Count the agent's calls."""
        return _ceiling_grade(
            "call_ceiling", "calls", self.calls, len(agent_calls(evidence, succeeded=False))
        )


@dataclass(frozen=True, slots=True)
class TokenCeiling:
    """Did the agent's model take at most so many tokens, in and out together?

    Judges' tokens do not count. Where any reply came without a count, as from an offline model or a recording
    without usage, or no reply was seen, the grade is undecided.
    """

    tokens: int

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        count_at(("tokens",), self.tokens, least=1)

    def grade(self, evidence: Evidence) -> Grade:
        """Add up what the replies took."""
        asks = evidence.transcript.asks
        uncounted = sum(not ask.usage.tokens for ask in asks)
        if uncounted or not asks:
            return Grade(
                "token_ceiling", None, f"{uncounted} of {len(asks)} replies came without a count of tokens"
            )
        return _ceiling_grade(
            "token_ceiling", "tokens", self.tokens, sum(ask.usage.known_tokens for ask in asks)
        )


def _ceiling_grade(grader: str, unit: str, ceiling: int, used: int) -> Grade:
    check = Check(f"at most {ceiling} {unit}", used <= ceiling, f"at most {ceiling}", str(used))
    why = f"{used} of at most {ceiling} {unit}"
    return Grade(grader, budget_score(ceiling, used), why if check.passed else str(check), (check,))


def budget_score(ceiling: int, used: int) -> float:
    """Give 1 up to the ceiling, and beyond it the ceiling's share of what was used."""
    return 1.0 if used <= ceiling else ceiling / used

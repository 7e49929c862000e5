"""Graders of how much a trial took."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.graders.tool_calls import CallCeiling, StepCeiling, TokenCeiling, budget_score
from tests.graders.sample_evidence import call, did, replies_evidence


@pytest.mark.parametrize(
    ("used", "score"), [([10], 1.0), ([10, 10], 1.0), ([10] * 4, 0.5), ([10] * 8, 0.25)], ids=str
)
def test_twice_as_much_is_worth_half(used: list[int], score: float) -> None:
    """Up to the ceiling all is well; beyond it counts the ceiling's share, of steps and tokens alike."""
    assert StepCeiling(2).grade(replies_evidence(used)).score == score
    assert TokenCeiling(20).grade(replies_evidence(used)).score == score


def test_calls_of_the_agent_are_counted_with_their_errors() -> None:
    """A failed call took as much as any; the task's own calls are not the agent's."""
    trial = did("a", call("b", error="x"), "a", "a", call("c", by="seed"))

    assert CallCeiling(4).grade(trial).score == 1.0
    assert CallCeiling(2).grade(trial).score == 0.5
    assert CallCeiling(0).grade(trial).score == 0.0
    assert CallCeiling(0).grade(did()).score == 1.0


def test_what_was_not_counted_is_undecided() -> None:
    """Replies without usage, and agents whose asks nobody saw, keep no ceiling and break none."""
    assert TokenCeiling(20).grade(replies_evidence([10, 0])).score is None
    assert TokenCeiling(20).grade(replies_evidence([])).score is None
    assert StepCeiling(2).grade(replies_evidence([])).score is None
    assert StepCeiling(2).grade(replies_evidence([0, 0])).score == 1.0


def test_the_reason_says_how_much_was_used() -> None:
    """Also where the ceiling was kept."""
    assert StepCeiling(3).grade(replies_evidence([1, 1])).rationale == "2 of at most 3 steps"
    assert (
        TokenCeiling(3).grade(replies_evidence([4])).rationale
        == "no: at most 3 tokens (expected at most 3, found 4)"
    )
    assert (
        TokenCeiling(3).grade(replies_evidence([4, 0])).rationale
        == "1 of 2 replies came without a count of tokens"
    )


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_a_ceiling_falls_evenly(ceiling: int, used: int, more: int) -> None:
    """Using more never pays, a higher ceiling never costs, and full marks are for keeping it only."""
    score = budget_score(ceiling, used)

    assert 0.0 <= budget_score(ceiling, used + more) <= score <= budget_score(ceiling + more, used) <= 1.0
    assert (score == 1.0) is (used <= ceiling)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StepCeiling(0), "steps: expected a whole number, 1 or more, found 0"),
        (lambda: TokenCeiling(0), "tokens: expected a whole number, 1 or more, found 0"),
        (lambda: CallCeiling(-1), "calls: expected a whole number, 0 or more, found -1"),
        (lambda: StepCeiling(True), "steps: expected a whole number, 1 or more, found true"),
        (lambda: StepCeiling(2.5), "steps: expected a whole number, 1 or more, found 2.5"),  # type: ignore[arg-type]  # wrong on purpose
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make: Any, message: str) -> None:
    """A wrong setting is told by its key, with both sides."""
    with pytest.raises(WrongSetting) as caught:
        make()

    assert message in str(caught.value)

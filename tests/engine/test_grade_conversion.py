"""What counts as a grade, and how the traceback of somebody's grader reads."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.engine.grading import InvalidGrade, as_grade
from pytest_agenteval.engine.tracebacks import exception_line, user_frames_first
from pytest_agenteval.graders.grader_settings import pattern_at
from pytest_agenteval.records.evidence import UNDECIDED, Check, Grade
from pytest_agenteval.text.errors import CAUSES

ANYTHING = st.recursive(
    st.none() | st.text() | st.binary() | st.integers() | st.floats() | st.complex_numbers() | st.booleans(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=6,
)


@given(ANYTHING | ANYTHING.map(lambda odd: Grade("g", odd, "")))
def test_only_what_lies_from_0_to_1_is_a_score(returned: Any) -> None:
    """Whatever is returned becomes a grade of that score, or is refused in a short line."""
    expected = returned.score if isinstance(returned, Grade) else returned
    is_share = isinstance(expected, bool | int | float) and -1e-9 <= expected <= 1 + 1e-9
    if expected is None and isinstance(returned, Grade):
        assert as_grade("g", returned).score is None
    elif is_share:
        assert as_grade("g", returned).score == pytest.approx(float(expected), abs=1e-9)
    else:
        with pytest.raises(InvalidGrade, match="expected a Grade, a bool or a number from 0 to 1") as refused:
            as_grade("g", returned)
        assert len(str(refused.value)) < 2000
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("returned", "score"),
    [(1.0000000000000002, "1.0"), (-1e-17, "0.0"), (-0.0, "0.0"), (Fraction(1, 2), "0.5"), (True, "1.0")],
)
def test_a_score_is_a_float_and_past_an_end_it_is_that_end(returned: Any, score: str) -> None:
    """A weighted mean of ones is 1, whatever its last digit says; and there is no score of minus 0."""
    assert repr(as_grade("g", returned).score) == score
    assert repr(as_grade("g", Grade("g", returned, "")).score) == score


def test_a_measure_is_a_number_that_can_be_reckoned_with() -> None:
    """Past the scale there is room, but not for what no float holds."""
    assert as_grade("g", Grade("g", 0.0, "", unclamped=-8)).unclamped == -8
    for odd in (10**400, float("nan"), float("-inf"), "low"):
        with pytest.raises(InvalidGrade, match="unclamped: expected a number"):
            as_grade("g", Grade("g", 0.0, "", unclamped=odd))  # type: ignore[arg-type]


def test_why_there_is_no_score_is_one_of_a_closed_list() -> None:
    """A word of a grader's own would be counted by nobody; a reason beside a score says two things."""
    for reason in ("", *UNDECIDED, *CAUSES):
        assert as_grade("g", Grade("g", None, "", undecided=reason)).undecided == reason
    with pytest.raises(InvalidGrade, match=r"for the reason 'tired' .*one of no_judge, limit"):
        as_grade("g", Grade("g", None, "", undecided="tired"))
    with pytest.raises(InvalidGrade, match=r"with the score 0\.5 that is undecided"):
        as_grade("g", Grade("g", 0.5, "", undecided="limit"))


def failing() -> Iterator[Check]:
    """Raise where our own code is in between."""
    yield Check("first", True)
    raise ValueError("second")


def test_our_frames_are_counted_not_shown() -> None:
    """An author reads the own lines first; of ours that lie between them there is only the number."""
    try:
        Grade.from_checks("g", failing())
    except ValueError as raised:
        lines = user_frames_first(raised).splitlines()
    assert __file__ in lines[1]
    assert "  ... 1 frame of pytest-agenteval" in lines
    assert "in failing" in lines[-3]
    assert lines[-1] == "ValueError: second"


def test_the_frame_that_raised_is_shown_even_if_it_is_ours() -> None:
    """What was raised, and where, is never folded away; causes are folded alike."""
    try:
        try:
            pattern_at(("p",), 3)  # type: ignore[arg-type]
        except ValueError as inner:
            raise KeyError("outer") from inner
    except KeyError as raised:
        trace = user_frames_first(raised)
    first, second = trace.split("\nThe above exception was the direct cause of the following exception:\n")
    assert "... 1 frame of pytest-agenteval" in first
    assert "in text_at" in first
    assert second.endswith("KeyError: 'outer'\n")


def test_where_all_frames_are_ours_all_are_shown() -> None:
    """Then it is our mistake."""
    with pytest.raises(ValueError) as refused:
        pattern_at(("p",), 3)  # type: ignore[arg-type]
    trace = user_frames_first(refused.value.with_traceback(refused.tb.tb_next))
    assert "in pattern_at" in trace
    assert "in text_at" in trace
    assert "..." not in trace.replace("Traceback", "")


def test_an_exception_that_cannot_say_what_it_is_has_a_headline() -> None:
    """Somebody's ``__str__`` raises: the name is left."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert exception_line(Mute()).startswith("Mute: (its text cannot be had")

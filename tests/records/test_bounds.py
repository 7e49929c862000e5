"""Values that are too deep, too large or hold themselves are cut where they enter, and say so."""

from __future__ import annotations

import json
import threading
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.records import truncation
from pytest_agenteval.records.evidence import Answer, Check, Grade
from pytest_agenteval.records.truncation import MOST_DEEP, truncated, truncated_answer, truncated_grade

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def nested(depth: int) -> Any:
    """Give lists so many deep."""
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    return value


@given(plain)
def test_what_a_trial_can_hold_is_given_back_as_it_is(value: Any) -> None:
    """No copy is made of what need not be cut: it is looked at for every call of every trial."""
    assert truncated(value) is value


@given(plain, st.integers(1, 8), st.integers(1, 30))
def test_what_is_cut_can_be_written_down(value: Any, deep: int, many: int) -> None:
    """However low the bounds are: what is left is JSON, no deeper than allowed, and says where it was cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(truncation, "MOST_DEEP", deep)
        patch.setattr(truncation, "MOST_VALUES", many)
        patch.setattr(truncation, "MOST_CHARS", 20)
        left = truncated(value)
    text = json.dumps(left)
    assert left is value or "cut: " in text
    assert depth_of(left) <= deep + 1


def depth_of(value: Any) -> int:
    """Give how many maps and lists stand in one another."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


def test_a_value_that_is_too_deep_says_where_it_was_cut() -> None:
    """The last level that is kept holds the reason in place of what was below it."""
    left = truncated(nested(5000))
    for _ in range(MOST_DEEP):
        (left,) = left
    assert left == f"… (cut: nested deeper than {MOST_DEEP})"
    assert truncated(nested(MOST_DEEP)) == nested(MOST_DEEP)


def test_a_value_that_holds_itself_is_cut_where_it_does() -> None:
    """What stands beside it stays; a value that merely occurs twice is no circle."""
    circle: dict[str, Any] = {"name": "circle"}
    circle["self"] = circle
    assert truncated({"a": circle, "b": [1]})["a"] == {"name": "circle", "self": "… (cut: holds itself)"}
    twice = [1]
    assert truncated({"a": twice, "b": twice, "deep": nested(200)})["b"] == [1]


def test_an_object_that_cannot_be_copied_is_its_text() -> None:
    """Each grader is given a copy: it would break on an agent's lock, and be blamed for it."""
    lock, day = threading.Lock(), date(2026, 3, 1)
    value = {"lock": lock, "days": [day]}
    assert truncated(value) == {"lock": repr(lock), "days": [day]}


def test_a_value_that_multiplies_itself_is_cut_soon() -> None:
    """Forty lists that each hold the next one twice mean a million million values, and are no circle."""
    bomb: Any = "x"
    for _ in range(40):
        bomb = [bomb, bomb]
    assert "more of 2)" in json.dumps(truncated(bomb), ensure_ascii=False)


def test_texts_and_numbers_are_cut_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of one value share one length; a number that Python cannot write is told by its bits."""
    monkeypatch.setattr(truncation, "MOST_CHARS", 10)
    assert truncated("x" * 11) == "x" * 10 + "… (cut: 11 characters long)"
    left = truncated({"a": "12345", "b": "1234567", "c": 1, "d": 2})
    assert left == {"a": "12345", "b": "123… (cut: 7 characters long)", "…": "(cut: 2 more of 4)"}
    full = {"a": "12345", "b": "678", 1: 2}
    assert truncated(full) is full
    assert truncated([b"12345678", b"9012"]) == [b"12345678", "… (cut: 4 bytes)"]
    assert truncated({"n": 10**5000}) == {"n": "… (cut: a whole number of 16610 bits)"}


def test_a_number_that_nobody_can_write_is_cut_as_a_key_too() -> None:
    """A map's keys are written down as its values are."""
    assert truncated([{10**6000: 1, 7: 2}]) == [{"… (cut: a whole number of 19932 bits)": 1, 7: 2}]


def test_a_grade_is_cut_like_any_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rationale, checks and details alike; its score and its threshold are as they were."""
    monkeypatch.setattr(truncation, "MOST_CHARS", 30)
    grade = Grade("g", 0.5, "y" * 31, (Check("claim", False, "e" * 50, "f"),), {"deep": nested(200)})
    left = truncated_grade(grade)
    assert (left.score, left.checks[0].passed) == (0.5, False)
    assert left.rationale == "y" * 30 + "… (cut: 31 characters long)"
    assert left.checks[0].expected == "e" * 10 + "… (cut: 50 characters long)"
    assert "nested deeper" in str(left.details)


def test_an_answer_that_was_joined_of_pieces_has_whole_characters() -> None:
    """An agent that adds up the pieces of a stream has halves where a server cut an emoji."""
    assert truncated_answer(Answer("a\ud83d" + "\ude00b\ud83d")).text == "a😀b\ufffd"

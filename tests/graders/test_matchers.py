"""Matchers: what each takes for the value that was meant, and how they stand in task files."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.graders.matchers import check_value, matcher_of
from pytest_agenteval.text.json_values import ABSENT, fold_text, is_part_of, json_equal

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NUMBERS = st.integers(-(10**6), 10**6)


def matches(setting: Any, found: Any) -> bool:
    """Ask a matcher as it stands in a task file."""
    return matcher_of(setting, ()).matches(found)


@given(JSON)
def test_a_value_matches_itself(value: Any) -> None:
    """Exactly, as part of itself, as one of itself, and as any value, folded or not."""
    for kind in ("exact", "subset"):
        assert matches({kind: value}, value)
        assert matches({kind: value, "fold": True}, value)
    assert matches({"one_of": [value]}, value)
    assert matches({"any": True}, value)
    assert not matches({"absent": True}, value)
    assert matches(value if not isinstance(value, dict) else {"exact": value}, value)


@given(JSON, JSON)
def test_being_the_same_is_mutual(one: Any, other: Any) -> None:
    """And whatever is the same is part of each other."""
    assert json_equal(one, other) == json_equal(other, one)
    if json_equal(one, other):
        assert is_part_of(one, other)
        assert is_part_of(other, one)


def _parts(value: Any) -> st.SearchStrategy[Any]:
    """Draw something that is part of a value: keys and items are left out, all the way down."""
    if isinstance(value, dict) and value:
        keys = st.lists(st.sampled_from(sorted(value)), unique=True)
        return keys.flatmap(lambda kept: st.fixed_dictionaries({key: _parts(value[key]) for key in kept}))
    if isinstance(value, list) and value:
        return st.lists(st.sampled_from(range(len(value))), max_size=5).flatmap(
            lambda places: st.tuples(*(_parts(value[place]) for place in places)).map(list)
        )
    return st.just(value)


@given(JSON.flatmap(lambda value: st.tuples(st.just(value), _parts(value))))
def test_what_is_left_after_leaving_out_is_a_part(pair: tuple[Any, Any]) -> None:
    """Keys may be missing from a map, items from a list in any order, at any depth."""
    whole, part = pair
    assert is_part_of(part, whole)
    assert matches({"subset": part}, whole)


@given(
    JSON.flatmap(lambda c: st.tuples(st.just(c), _parts(c))).flatmap(
        lambda p: st.tuples(st.just(p), _parts(p[1]))
    )
)
def test_a_part_of_a_part_is_a_part(triple: tuple[tuple[Any, Any], Any]) -> None:
    """Being part of something is transitive."""
    (whole, part), smaller = triple
    assert is_part_of(smaller, part)
    assert is_part_of(smaller, whole)


@pytest.mark.parametrize(
    ("expected", "found", "same", "part"),
    [
        (1, 1.0, True, True),
        (1, True, False, False),
        (0, False, False, False),
        ("1", 1, False, False),
        (None, False, False, False),
        ([1, 2], [2, 1], False, True),
        ([1, 1], [1], False, True),
        ({"a": 1}, {"a": 1, "b": 2}, False, True),
        ({"a": {"b": [1]}}, {"a": {"b": [0, 1.0], "c": 0}}, False, True),
        ({"a": 1}, {"a": True}, False, False),
        ({}, {"a": 1}, False, True),
        ({}, [], False, False),
        ([], None, False, False),
        ([{"a": 1}], [{"b": 1}, {"a": 1, "b": 1}], False, True),
    ],
)
def test_what_is_equal_and_what_is_part(expected: Any, found: Any, same: bool, part: bool) -> None:
    """Numbers are compared as numbers, true is no number, and order counts only where all is wanted."""
    assert (json_equal(expected, found), is_part_of(expected, found)) == (same, part)


@pytest.mark.parametrize(
    ("setting", "found", "expected"),
    [
        ("sea", "sea", True),
        ("sea", "Sea", False),
        ({"exact": "Sea  Trip", "fold": True}, " ｓｅａ\ttrip", True),
        ({"exact": "Straße", "fold": True}, "STRASSE", True),
        ({"exact": ["A", {"k": "B"}], "fold": True}, ["a", {"k": "b"}], True),
        ({"exact": {"K": "b"}, "fold": True}, {"k": "b"}, False),
        ({"subset": {"a": "X"}, "fold": True}, {"a": "x", "b": 1}, True),
        ({"contains": "ea"}, "sea", True),
        ({"contains": "EA"}, "sea", False),
        ({"contains": "EA", "fold": True}, "sea", True),
        ({"contains": "a"}, ["a", "b"], True),
        ({"contains": "a"}, ["ab"], False),
        ({"contains": 1}, [1.0], True),
        ({"contains": 1}, "1", False),
        ({"contains": "a"}, {"a": 1}, False),
        ({"one_of": ["a", 2, None]}, None, True),
        ({"one_of": ["a", 2]}, 2.0, True),
        ({"one_of": ["a", 2]}, "b", False),
        ({"one_of": ["A"], "fold": True}, "a", True),
        ({"regex": "^20[0-9]{2}"}, "2026-09", True),
        ({"regex": "[0-9]$"}, "see 2026", True),
        ({"regex": "^a$"}, "b\na", False),
        ({"regex": "1"}, 1, False),
        ({"number": 5}, 5.0, True),
        ({"number": 5}, "5.00", True),
        ({"number": 5}, " +5e0 ", True),
        ({"number": 5}, "5 km", False),
        ({"number": 1}, True, False),
        ({"number": 0.3, "tolerance": 0.1}, 0.4, True),
        ({"number": 0.3, "tolerance": 0.1}, 0.41, False),
        ({"number": -200, "relative": 0.05}, -190, True),
        ({"number": -200, "relative": 0.05}, -189.9, False),
        ({"number": 0, "relative": 0.5}, 0.001, False),
        ({"number": 5}, float("inf"), False),
        ({"number": 5}, float("nan"), False),
        ({"number": 5}, "1e999999999", False),
        ({"number": 5, "tolerance": 1}, 10**4000, False),
        ({"number": 10**40}, 10**40 + 1, False),
        (5, "5", False),
        ({"any": True}, None, True),
        ({"absent": True}, None, False),
        ({"exact": {"regex": "a"}}, {"regex": "a"}, True),
        ({"exact": {}}, {}, True),
    ],
)
def test_what_a_matcher_takes(setting: Any, found: Any, expected: bool) -> None:
    """Each kind by its own rule, and by no looser one."""
    assert matches(setting, found) is expected


@pytest.mark.parametrize(
    "setting",
    [None, "a", [], {"exact": None}, {"subset": {}}, {"one_of": [None]}, {"contains": "a"}, {"any": True}],
)
def test_only_absent_takes_what_is_not_there(setting: Any) -> None:
    """Null was said, a missing value was not."""
    assert not matches(setting, ABSENT)
    assert matches({"absent": True}, ABSENT)
    assert check_value("x", matcher_of(setting, ()), ABSENT).found == "nothing"


@given(NUMBERS, NUMBERS, st.integers(0, 10**6), st.integers(0, 5))
def test_a_margin_is_measured_as_it_is_written(number: int, found: int, margin: int, places: int) -> None:
    """Decimals are compared exactly, on whichever side the value lies."""
    scale = 10**places
    setting = {"number": number / scale, "tolerance": margin / scale}

    assert matches(setting, found / scale) is (abs(number - found) <= margin)


@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    """Folding leaves nothing to fold."""
    assert fold_text(fold_text(text)) == fold_text(text)


def test_folding_is_done_with_every_character() -> None:
    """Also where the case of one letter folds to letters that NFKC writes otherwise."""
    for first in (*range(0, 0x33000, 4096), 0xE0000):  # all others are unassigned, or of private use
        once = fold_text("".join(f"a{chr(code)}b" for code in range(first, first + 4096)))
        assert fold_text(once) == once


@given(st.text(), st.sampled_from([str.upper, str.title, lambda text: f"\u3000{text}\n"]))
def test_folding_takes_no_notice_of_case_and_ends(text: str, change: Any) -> None:
    """Letters that have no way back from capitals aside, a changed text folds to the same."""
    if change(text).casefold().strip() == text.casefold().strip():
        assert fold_text(change(text)) == fold_text(text)


@pytest.mark.parametrize(
    ("setting", "path", "message"),
    [
        ({"contians": "a"}, ("args", "q", "contians"), "did you mean 'contains'?"),
        (
            {"title": "x"},
            ("args", "q", "title"),
            "a map that is meant as it stands is written {exact: {...}}",
        ),
        ({"exact": 1, "tolerence": 2}, ("args", "q", "tolerence"), "did you mean 'tolerance'?"),
        ({}, ("args", "q"), "expected exactly one of exact, subset, contains"),
        ({"fold": True}, ("args", "q"), "found none of them"),
        ({"exact": 1, "regex": "a"}, ("args", "q"), "found exact and regex"),
        (
            {"regex": "a", "fold": True},
            ("args", "q", "fold"),
            "expected fold beside exact or subset or contains",
        ),
        ({"exact": 1, "tolerance": 1}, ("args", "q", "tolerance"), "expected tolerance beside number"),
        ({"number": 1, "tolerance": 1, "relative": 1}, ("args", "q"), "tolerance or relative, found both"),
        ({"number": "1"}, ("args", "q", "number"), "expected a number, found '1'"),
        ({"number": True}, ("args", "q", "number"), "expected a number, found true"),
        (
            {"number": 1, "tolerance": -1},
            ("args", "q", "tolerance"),
            "expected a number, 0 or more, found -1",
        ),
        ({"regex": "a("}, ("args", "q", "regex"), "at position 1"),
        ({"regex": 5}, ("args", "q", "regex"), "expected a text"),
        ({"contains": ""}, ("args", "q", "contains"), "expected a text that is not blank"),
        ({"one_of": []}, ("args", "q", "one_of"), "expected a list of at least one value, found []"),
        ({"one_of": "ab"}, ("args", "q", "one_of"), "expected a list"),
        ({"any": False}, ("args", "q", "any"), "expected true, found false"),
        ({"absent": 1}, ("args", "q", "absent"), "expected true, found 1"),
        ({"exact": 1, "fold": "yes"}, ("args", "q", "fold"), "expected true or false, found 'yes'"),
    ],
)
def test_a_matcher_that_cannot_be_meant_is_refused(setting: Any, path: tuple[str, ...], message: str) -> None:
    """It is told by its key, with the nearest name where one is near."""
    with pytest.raises(WrongSetting) as caught:
        matcher_of(setting, ("args", "q"))

    assert caught.value.path == path
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "setting",
    [
        "a",
        {"exact": [1, "a"]},
        {"subset": {"a": 1}, "fold": True},
        {"contains": "a"},
        {"one_of": [1, "a"]},
        {"number": 1, "relative": 0.1},
        {"regex": "^a"},
        {"any": True},
        {"absent": True},
    ],
)
def test_matchers_of_one_setting_are_equal_and_can_be_sent(setting: Any) -> None:
    """A grader that holds a matcher as a field is equal to its like, and can be pickled."""
    matcher = matcher_of(setting, ())
    sent = pickle.loads(pickle.dumps(matcher))

    assert matcher == matcher_of(setting, ()) == sent
    assert matcher != matcher_of({"exact": "something else"}, ())
    assert [sent.matches(value) for value in ("a", "b", 1, ABSENT)] == [
        matcher.matches(value) for value in ("a", "b", 1, ABSENT)
    ]

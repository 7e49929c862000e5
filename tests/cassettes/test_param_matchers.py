"""When two calls that differ are the same call: the rule of each parameter."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pytest_agenteval.cassettes.request_matching import ParamMatchers
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.tools.tool import normalize_arguments

SAME: dict[str, tuple[Any, Any, Any]] = {
    "exact text": ("exact", "서울역", "서울역"),
    "one and 1.0": ("exact", 1, 1.0),
    "lists": ("exact", [1, {"a": 2.0}], [1.0, {"a": 2}]),
    "folded case and space": ("folded", "Seoul  Station", "seoulstation"),
    "folded width": ("folded", "ＡＢＣ１", "abc1"),
    "folded Hangul jamo": ("folded", "\u1112\u1161\u11ab", "한"),
    "folded in a list": ("folded", ["A b"], ["ab"]),
    "a number at the very tolerance": ({"number": 0.1}, 37.5, 37.6),
    "a text that is a number": ({"number": 0.001}, "127.0276", 127.0275),
    "ignored": ("ignore", "a", {"b": 1}),
    "contains": ("contains", "강남역 맛집", "서울 강남역맛집 추천"),
    "contains, the other way": ("contains", "서울 강남역맛집 추천", "강남역 맛집"),
}
DIFFERENT: dict[str, tuple[Any, Any, Any]] = {
    "exact text": ("exact", "서울역", "서울역 "),
    "one and true": ("exact", 1, True),
    "one and its text": ("exact", 1, "1"),
    "folded": ("folded", "서울역", "서울"),
    "a number beyond the tolerance": ({"number": 0.1}, 37.5, 37.61),
    "no number": ({"number": 10}, "a", "b"),
    "true is no number": ({"number": 10}, 1, True),
    "not a finite number": ({"number": 10}, "nan", 1),
    "an empty text in another": ("contains", "", "서울"),
    "contains of what is no text": ("contains", 12, 1),
}


@pytest.mark.parametrize(("rule", "recorded", "asked"), SAME.values(), ids=SAME)
def test_same(rule: Any, recorded: Any, asked: Any) -> None:
    """A rule says which difference is none, and calls that are the same have the same key."""
    rules = ParamMatchers({"x": rule})
    assert rules.accepts({"x": recorded, "y": 1}, {"x": asked, "y": 1})
    assert rules.key({"x": recorded}) == rules.key({"x": asked})


@pytest.mark.parametrize(("rule", "recorded", "asked"), DIFFERENT.values(), ids=DIFFERENT)
def test_different(rule: Any, recorded: Any, asked: Any) -> None:
    """Beyond what the rule forgives, two calls are two."""
    assert not ParamMatchers({"x": rule}).accepts({"x": recorded}, {"x": asked})


@pytest.mark.parametrize(
    ("rule", "same"), [("exact", False), ("folded", False), ({"number": 1}, False), ("ignore", True)]
)
def test_a_parameter_that_only_one_side_has(rule: Any, same: bool) -> None:
    """It differs, unless it is ignored."""
    rules = ParamMatchers({"x": rule})
    assert rules.accepts({"x": 1}, {}) is same
    assert rules.accepts({}, {"x": 1}) is same


WORDS = ("서울", "서울역", "서울 역 맛집", "Café", "café 2", "", "ＡＢ", "ab c")
VALUES: tuple[Any, ...] = (*WORDS, 1, 1.0, True, None, "1.05", "x", 1.1, 1.2, [1], "-0.05", 0)


@pytest.mark.parametrize("rule", ["exact", "folded", "contains", "ignore", {"number": 0.1}], ids=str)
def test_calls_that_are_accepted_share_a_key(rule: Any) -> None:
    """So a look-up misses none, whatever is recorded and asked, and with one of them missing."""
    draw = random.Random(0)
    rules = ParamMatchers({"a": rule})

    def some() -> dict[str, Any]:
        return {name: draw.choice(VALUES) for name in "ab" if draw.random() < 0.9}

    pairs = [(some(), some()) for _ in range(20_000)]
    accepted = [(recorded, args) for recorded, args in pairs if rules.accepts(recorded, args)]
    assert len(accepted) > 50
    assert all(rules.key(recorded) == rules.key(args) for recorded, args in accepted)


MISTAKES: dict[str, tuple[Any, str]] = {
    "a misspelt word": ("foldet", "tool: matching.x: a rule is exact, folded, ignore, contains or"),
    "with a hint": ("foldet", "did you mean 'folded'?"),
    "number without tolerance": ("number", "{number: 0.001}"),
    "a negative tolerance": ({"number": -1}, "0 or more, not -1"),
    "yes as a tolerance": ({"number": True}, "0 or more, not True"),
    "a text as a tolerance": ({"number": "a"}, "0 or more, not 'a'"),
    "another map": ({"near": 1}, "not {'near': 1}"),
    "nothing": (None, "not None"),
}


@pytest.mark.parametrize(("rule", "message"), MISTAKES.values(), ids=MISTAKES)
def test_an_unknown_rule_is_the_authors_mistake(rule: Any, message: str) -> None:
    """It names the parameter and what a rule can be."""
    with pytest.raises(UsageMistake) as caught:
        ParamMatchers({"x": rule}, where="tool: matching")
    assert message in str(caught.value)


SCHEMA = {
    "properties": {
        "q": {"type": "string"},
        "n": {"type": "integer", "default": 10},
        "x": {"type": ["number", "null"]},
        "flag": {"type": "boolean"},
        "any": {},
    }
}
SETTLED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": ({}, {"n": 10}),
    "an integer from a text": ({"n": "5"}, {"n": 5}),
    "what is no integer stays": ({"n": 5.5}, {"n": 5.5}),
    "what is no number stays": ({"n": 1, "x": "far"}, {"n": 1, "x": "far"}),
    "nan stays a text": ({"n": 1, "x": "nan"}, {"n": 1, "x": "nan"}),
    "a number from a text": ({"n": 1, "x": "1.5"}, {"n": 1, "x": 1.5}),
    "a text from a number": ({"n": 1, "q": 5930}, {"n": 1, "q": "5930"}),
    "null stays": ({"n": None, "q": None}, {"n": None, "q": None}),
    "yes and no": ({"n": 1, "flag": "True"}, {"n": 1, "flag": True}),
    "unknown keys": ({"n": 1, "page": 2, "any": [1]}, {"n": 1, "any": [1]}),
}


@pytest.mark.parametrize(("given", "expected"), SETTLED.values(), ids=SETTLED)
def test_arguments_as_the_schema_has_them(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """Defaults are filled in, values are of their type, and what the schema does not know is gone."""
    assert normalize_arguments(given, SCHEMA) == expected


def test_a_schema_without_properties_changes_nothing() -> None:
    """Of a tool that declares nothing, all is compared."""
    assert normalize_arguments({"a": "1"}, {}) == {"a": "1"}

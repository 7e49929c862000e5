"""JSON Schemas with patterns of their authors: they mean what they mean to jsonschema, and end in time."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft201909Validator, Draft202012Validator

from pytest_agenteval.text import patterns
from pytest_agenteval.text.patterns import PatternTooSlow, with_bounded_patterns

SLOW = "(a|a)+$"


@pytest.mark.parametrize("others", [False, True, {"type": "integer"}])
@pytest.mark.parametrize("known", [{}, {"^x": {"type": "string"}}, {"^x": {}, "d$": {}}])
def test_other_properties_are_told_as_jsonschema_tells_them(known: dict[str, Any], others: Any) -> None:
    """Word for word, with patterns and without."""
    schema = {"additionalProperties": others, "properties": {"named": {}}}
    schema |= {"patternProperties": known} if known else {}
    for value in ({"named": 1, "xa": 1, "bad": 2}, {"other": "text", "more": 1}, {"other": "text"}, [1]):
        ours = with_bounded_patterns(Draft202012Validator)(schema).iter_errors(value)
        theirs = Draft202012Validator(schema).iter_errors(value)
        assert [(e.message, list(e.path)) for e in ours] == [(e.message, list(e.path)) for e in theirs]


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": False, "patternProperties": {SLOW: {}}},
        {"patternProperties": {SLOW: {}}},
        {
            "unevaluatedProperties": False,
            "$ref": "#/$defs/x",
            "$defs": {"x": {"patternProperties": {SLOW: {}}}},
        },
        {"unevaluatedProperties": False, "allOf": [{"if": True, "then": {"patternProperties": {SLOW: {}}}}]},
        {"propertyNames": {"pattern": SLOW}},
    ],
)
@pytest.mark.parametrize("kind", [Draft201909Validator, Draft202012Validator])
def test_a_slow_pattern_ends_wherever_it_stands(
    monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any], kind: Any
) -> None:
    """Also where other properties are forbidden, in whichever draft, before it is said which are known."""
    monkeypatch.setattr(patterns, "SECONDS", 0.02)

    with pytest.raises(PatternTooSlow, match="took too long"):
        list(with_bounded_patterns(kind)(schema).iter_errors({"a" * 60 + "!": 1}))


@pytest.mark.parametrize(
    "more", [{}, {"properties": {"named": {}}}, {"patternProperties": {"^b": {"type": "null"}}}]
)
@pytest.mark.parametrize("others", [False, {"type": "string"}])
@pytest.mark.parametrize("kind", [Draft201909Validator, Draft202012Validator])
def test_properties_that_nobody_speaks_of_are_told_as_jsonschema_tells_them(
    kind: Any, others: Any, more: dict[str, Any]
) -> None:
    """Word for word, through references and conditions."""
    known = {"patternProperties": {"^x": {}}}
    for inside in (
        known,
        {"allOf": [known]},
        {"$ref": "#/$defs/x"},
        {"if": {"required": ["xa"]}, "then": known},
    ):
        schema = {"unevaluatedProperties": others, "$defs": {"x": known}, **inside, **more}
        for value in ({"xa": 1, "named": 1}, {"bad": None}, {"bad": 2, "worse": "text"}, [1], {}):
            ours = with_bounded_patterns(kind)(schema).iter_errors(value)
            theirs = kind(schema).iter_errors(value)
            assert [(e.message, list(e.path)) for e in ours] == [(e.message, list(e.path)) for e in theirs]

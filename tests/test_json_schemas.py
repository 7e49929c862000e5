"""JSON Schemas with patterns of their authors: they mean what they mean to jsonschema, and end in time."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pytest_agenteval import patterns
from pytest_agenteval.json_schemas import with_bounded_patterns
from pytest_agenteval.patterns import PatternTooSlow

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


def test_a_slow_pattern_ends_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the other properties are forbidden before it is said which are known."""
    monkeypatch.setattr(patterns, "SECONDS", 0.1)
    schema = {"additionalProperties": False, "patternProperties": {SLOW: {}}}

    with pytest.raises(PatternTooSlow, match="took too long"):
        list(with_bounded_patterns(Draft202012Validator)(schema).iter_errors({"a" * 60 + "!": 1}))

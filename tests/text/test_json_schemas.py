"""JSON Schemas with patterns of their authors: they mean what they mean to jsonschema, and end in time."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft201909Validator, Draft202012Validator

from pytest_agenteval.text import patterns
from pytest_agenteval.text.patterns import PatternTooSlow, with_bounded_patterns

KINDS = [Draft201909Validator, Draft202012Validator]


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_pattern_ends_wherever_it_stands(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    """Also below a reference, and for the names of properties."""
    monkeypatch.setattr(patterns, "SECONDS", 0.02)
    slow, value = {"pattern": "(a|a)+$"}, "a" * 60 + "!"

    for schema, given in [
        (slow, value),
        ({"$ref": "#/$defs/x", "$defs": {"x": slow}}, value),
        ({"propertyNames": slow}, {value: 1}),
    ]:
        with pytest.raises(PatternTooSlow, match="took too long"):
            list(with_bounded_patterns(kind)(schema).iter_errors(given))


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_match_is_told_as_jsonschema_tells_it(kind: Any) -> None:
    """Word for word, at its place; what is no text has no pattern."""
    schema = {"items": {"pattern": "^x[0-9]$"}, "additionalProperties": {"pattern": "a"}}
    for value in (["x1", "x", "ax1", 1], {"k": "b", "l": None}):
        ours, theirs = (
            [(e.message, list(e.path)) for e in of(schema).iter_errors(value)]
            for of in (with_bounded_patterns(kind), kind)
        )
        assert ours == theirs
        assert ours

"""JSON Schemas that authors write: their patterns are searched for where they can be ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_agenteval.patterns import Pattern

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator


@lru_cache(maxsize=16)
def with_bounded_patterns(validator: type[Validator]) -> type[Validator]:
    """Give the validator class whose patterns end in time: they raise PatternTooSlow."""
    from jsonschema import validators

    extend: Any = validators.extend  # not typed
    ours = {"pattern": _pattern, "patternProperties": _pattern_properties}
    made: type[Validator] = extend(validator, {**ours, "additionalProperties": _additional_properties})
    return made


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if validator.is_type(instance, "string") and not Pattern(pattern).search(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, inner in patterns.items():
        for key, value in instance.items():
            if Pattern(pattern).search(key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _additional_properties(
    validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    from jsonschema import Draft202012Validator, ValidationError

    if not schema.get("patternProperties"):
        yield from Draft202012Validator.VALIDATORS["additionalProperties"](
            validator, allowed, instance, schema
        )
        return
    if not validator.is_type(instance, "object"):
        return
    named, patterns = schema.get("properties", {}), schema["patternProperties"]
    others = [
        key
        for key in instance
        if key not in named and not any(Pattern(pattern).search(key) for pattern in patterns)
    ]
    if validator.is_type(allowed, "object"):
        for key in others:
            yield from validator.descend(instance[key], allowed, path=key)
    elif not allowed and others:
        verb = "does" if len(others) == 1 else "do"
        shown = [", ".join(map(repr, each)) for each in (sorted(others), sorted(patterns))]
        yield ValidationError(f"{shown[0]} {verb} not match any of the regexes: {shown[1]}")

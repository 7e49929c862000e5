"""Checking values against a JSON Schema that an author wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from pytest_agenteval.graders.formatting import brief, cut
from pytest_agenteval.graders.settings import WrongSetting
from pytest_agenteval.text.errors import KeyPath
from pytest_agenteval.text.json_values import canonical_json, format_path, normal_keys, normal_texts
from pytest_agenteval.text.patterns import author_pattern, with_bounded_patterns

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MAX_PROBLEMS = 5
_VALUE_KEYWORDS = frozenset({"const", "default", "enum", "examples"})
"""Keywords that hold values, not schemas."""
_COMPARING = frozenset({"const", "enum", "maxLength", "minLength", "uniqueItems"})
"""Keywords that look at texts; the value itself is checked as it is, for the sake of patterns."""


def check_schema(name: str, schema: Mapping[str, Any]) -> None:
    """Refuse what is no JSON Schema, and one that refers to anything outside itself."""
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for

    if not isinstance(schema, Mapping) or not schema:
        raise WrongSetting((name,), "a JSON Schema: a map with at least one key", brief(schema))
    plain = json.loads(canonical_json(schema))
    try:
        validator_for(plain, default=Draft202012Validator).check_schema(plain)
    except SchemaError as error:
        place = (name, *error.absolute_path)
        raise WrongSetting(place, "a JSON Schema", cut(error.message)) from None
    _check_references(name, plain)


def schema_problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Say what is wrong with a value, in the schema's words; the first few, each with its place."""
    errors = islice(_validator(canonical_json(schema)).iter_errors(value), MAX_PROBLEMS)
    return [_problem_text(error.absolute_path, error.message) for error in errors]


def _problem_text(path: Any, message: str) -> str:
    place = format_path(path)
    return f"{place}: {cut(message)}" if place else cut(message)


# Kept: compiling a schema costs a hundred times more than checking against it.
@lru_cache(maxsize=256)
def _validator(text: str) -> Validator:
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    schema = _normal_schema(json.loads(text))
    bounded = with_bounded_patterns(validators.validator_for(schema, default=Draft202012Validator))
    compared = {
        name: _of_normal_texts(bounded.VALIDATORS[name]) for name in _COMPARING & {*bounded.VALIDATORS}
    }
    extend: Any = validators.extend  # not typed
    kind: type[Validator] = extend(bounded, {**compared, "pattern": _check_pattern})
    # A registry of our own, because the default one fetches what it does not know from the network.
    return kind(schema, registry=Registry())


def _normal_schema(schema: Any) -> Any:
    """Bring a schema into normal form, but for its patterns, which may name ends of lines."""
    if isinstance(schema, dict):
        return {
            key: value if key == "pattern" and isinstance(value, str) else _normal_schema(value)
            for key, value in normal_keys(schema).items()
        }
    return list(map(_normal_schema, schema)) if isinstance(schema, list) else normal_texts(schema)


def _of_normal_texts(check: Callable[..., Any]) -> Callable[..., Any]:
    """Give a keyword's check that compares values in normal form."""
    return lambda validator, wanted, value, schema: check(validator, wanted, normal_texts(value), schema)


def _check_pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(value, str) and not author_pattern(pattern).matches(value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _check_references(name: str, schema: dict[str, Any]) -> None:
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resource = DRAFT202012.create_resource(schema)
    resolver = Registry().resolver_with_root(resource)
    for place, target in _references(schema, (name,)):
        if not target.startswith("#"):
            raise WrongSetting(place, "a place in the schema itself, as in #/$defs/item", brief(target))
        try:
            resolver.lookup(target)
        except Unresolvable:
            raise WrongSetting(place, "a place that is in the schema", brief(target)) from None


def _references(value: Any, place: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("$ref", "$dynamicRef") and isinstance(inner, str):
                yield (*place, key), inner
            elif key not in _VALUE_KEYWORDS:
                yield from _references(inner, (*place, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _references(inner, (*place, number))

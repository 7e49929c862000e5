"""Declarations of tools, as the validator of OpenAI's takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from pytest_agenteval.cassettes.wire.traffic import as_map, as_text

_OF_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMA = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_ANY = ("anyOf", "oneOf")
_UNIONS = ("allOf", *_ANY)
_REFUSED = (*_UNIONS, "enum", "const", "not")
"""What the schema of a tool may not have at its top; below it everything may."""
_DEPTH = 32


def accepted_tool(tool: Mapping[str, Any], *, flat: bool) -> dict[str, Any]:
    """Give a declaration without patterns that Python cannot read; ``flat``, also without a union at its top.

    What has to be left out was a hint to the model, not a rule for its calls.
    """
    function = as_map(tool.get("function"))
    if not (parameters := as_map(function.get("parameters"))):
        return dict(tool)
    accepted = _with_known_patterns(parameters)
    return {**tool, "function": {**function, "parameters": _flattened(accepted) if flat else accepted}}


def _with_known_patterns(schema: Any) -> Any:
    """Give a schema without patterns that Python cannot read; what is an example or a value stays."""
    if not isinstance(schema, dict):
        return schema
    given = {name: value for name, value in schema.items() if name != "pattern" or _is_pattern(value)}
    for name, value in given.items():
        if name in _OF_SCHEMAS and isinstance(value, dict):
            kept = value if name != "patternProperties" else filter(_is_pattern, value)
            given[name] = {key: _with_known_patterns(value[key]) for key in kept}
        elif isinstance(value, list) and (name in _SCHEMAS or name == "items"):
            given[name] = list(map(_with_known_patterns, value))
        elif name in _SCHEMA:
            given[name] = _with_known_patterns(value)
    return given


def _is_pattern(text: object) -> bool:
    try:
        re.compile(text if isinstance(text, str) else "")
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _flattened(schema: dict[str, Any]) -> dict[str, Any]:
    """Give a tool's schema as one object with the keys of all its branches, where it is one of several."""
    if not any(name in schema for name in _REFUSED):
        return schema
    merged = _object_of(schema, schema, _DEPTH)
    return schema if merged is None else merged


def _object_of(schema: Any, root: Mapping[str, Any], depth: int) -> dict[str, Any] | None:
    """Give the one object that a schema's branches make, or None where they make none."""
    if not isinstance(schema, dict) or depth < 0:
        return None
    if "$ref" in schema:
        return _object_of(_referred(as_text(schema["$ref"]), root), root, depth - 1)
    groups = {name: schema[name] for name in _UNIONS if isinstance(schema.get(name), list)}
    merged = {name: [_object_of(one, root, depth - 1) for one in group] for name, group in groups.items()}
    branches = [one for group in merged.values() for one in group if one is not None]
    if len(branches) < sum(map(len, merged.values())) or not _is_object(schema, branches):
        return None
    properties: dict[str, Any] = {}
    for one in (*reversed(branches), schema):
        properties |= as_map(one.get("properties"))
    required = set(schema.get("required") or ()).union(*(_required(*group) for group in merged.items()))
    kept = {name: value for name, value in schema.items() if name not in _REFUSED}
    named = {"required": sorted(required)} if required else {}
    return {**kept, "type": "object", "properties": properties, **named}


def _is_object(schema: Mapping[str, Any], branches: Sequence[Mapping[str, Any]]) -> bool:
    return schema.get("type") == "object" or (
        "type" not in schema and ("properties" in schema or bool(branches))
    )


def _required(union: str, branches: Sequence[Mapping[str, Any] | None]) -> set[str]:
    """Give the keys that a union requires: those of all its branches, or those that each of them has."""
    named = [set(as_map(one).get("required") or ()) for one in branches]
    combine: Callable[[set[str], set[str]], set[str]] = set.intersection if union in _ANY else set.union
    return reduce(combine, named) if named else set()


def _referred(ref: str, root: Mapping[str, Any]) -> Any:
    place, _, name = ref.removeprefix("#/").rpartition("/")
    return as_map(root.get(place)).get(name) if place in ("$defs", "definitions") else None

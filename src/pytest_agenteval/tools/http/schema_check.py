"""A first look at a JSON Schema: the keywords that authors use, without loading a library for all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from pytest_agenteval.tasks.validation_errors import value_text
from pytest_agenteval.text.errors import KeyPath, nearest

KINDS = ("string", "integer", "number", "boolean", "array", "object", "null")

SchemaComplaint = tuple[KeyPath, str, str, str]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError):
        return False
    return True


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_NUMBER: tuple[str, Callable[[Any], bool]] = ("a number", _is_number)
_COUNT: tuple[str, Callable[[Any], bool]] = ("a whole number, 0 or more", _is_count)
_TEXT: tuple[str, Callable[[Any], bool]] = ("a text", lambda value: isinstance(value, str))
_SHAPES: tuple[str, Callable[[Any], bool]] = (
    "a map from name to schema",
    lambda value: isinstance(value, Mapping),
)

_KEYWORDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "enum": ("a list", lambda value: isinstance(value, list)),
    "required": ("a list of names", _is_names),
    "properties": _SHAPES,
    "$defs": _SHAPES,
    "pattern": ("a regular expression", _is_pattern),
    "description": _TEXT,
    "format": _TEXT,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "exclusiveMaximum": _NUMBER,
    "multipleOf": _NUMBER,
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
}


def wrong_in(schema: Any, path: KeyPath = (), root: Any = None) -> Iterator[SchemaComplaint]:
    """Give place, expected, found and hint of what no JSON Schema says.

    References lead to something within the ``root``, the schema itself: nothing is fetched for a check.
    """
    root = schema if root is None else root
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield path, "a schema: a map", value_text(schema), ""
        return
    if "type" in schema:
        yield from _kind(schema["type"], (*path, "type"))
    for keyword, (expected, fits) in _KEYWORDS.items():
        if keyword in schema and not fits(schema[keyword]):
            yield (*path, keyword), expected, value_text(schema[keyword]), ""
    if "$ref" in schema and not _leads(schema["$ref"], root):
        expected = "a reference within `parameters`, as #/$defs/place"
        yield (*path, "$ref"), expected, value_text(schema["$ref"]), ""
    for below, inner in _inner(schema):
        yield from wrong_in(inner, (*path, *below), root)


def _leads(ref: Any, root: Any) -> bool:
    steps = ref.split("/") if isinstance(ref, str) else [""]
    for step in (unquote(part).replace("~1", "/").replace("~0", "~") for part in steps[1:]):
        if not isinstance(root, Mapping) or step not in root:
            return False
        root = root[step]
    return steps[0] == "#"


def _kind(kind: Any, path: KeyPath) -> Iterator[SchemaComplaint]:
    for type_name in kind if isinstance(kind, list) else [kind]:
        if type_name not in KINDS:
            yield path, f"one of {', '.join(KINDS)}", value_text(type_name), nearest(str(type_name), KINDS)


def _inner(schema: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    for keyword in ("properties", "$defs"):
        if isinstance(schema.get(keyword), Mapping):
            yield from (((keyword, name), inner) for name, inner in schema[keyword].items())
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield (keyword,), schema[keyword]
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(keyword), list):
            yield from (((keyword, index), inner) for index, inner in enumerate(schema[keyword]))

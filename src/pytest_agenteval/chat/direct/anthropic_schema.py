"""JSON Schemas as Anthropic takes them: references written out, and no rule that its grammar cannot hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_INPUT_KEYS = ("type", "properties", "additionalProperties", "required", "$defs", "strict")
"""What the schema of a tool's arguments may say at its top."""

_SAID_IN_WORDS: Mapping[str, str] = {
    "minItems": "minimum number of items: {}",
    "maxItems": "maximum number of items: {}",
    "uniqueItems": "all array items must be unique",
    "contains": "array must contain an item matching: {}",
    "minContains": "minimum number of matching items: {}",
    "maxContains": "maximum number of matching items: {}",
    "prefixItems": "leading items must match, in order: {}",
    "minimum": "minimum value: {}",
    "maximum": "maximum value: {}",
    "exclusiveMinimum": "exclusive minimum value: {}",
    "exclusiveMaximum": "exclusive maximum value: {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "minimum length: {}",
    "maxLength": "maximum length: {}",
    "minProperties": "minimum number of properties: {}",
    "maxProperties": "maximum number of properties: {}",
    "patternProperties": "properties whose names match each pattern must satisfy: {}",
    "propertyNames": "property names must satisfy: {}",
    "dependentRequired": "dependent required properties: {}",
    "dependentSchemas": "dependent schemas: {}",
    "unevaluatedProperties": "unevaluated properties must satisfy: {}",
    "if": "conditional (if): {}",
    "then": "conditional (then): {}",
    "else": "conditional (else): {}",
    "not": "must not match: {}",
}
"""Rules that the provider refuses in a reply's schema, and how the description tells the model of them.

The words are litellm's, so that a model reads the same whoever asks it.
"""

_KINDS: Mapping[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list, tuple),
    "object": (Mapping,),
}


def input_schema(schema: Schema) -> dict[str, Any]:
    """Give the schema of a tool's arguments: an object's, with references only to ``$defs``."""
    whole = {**schema, "type": "object", "properties": schema.get("properties", {})}
    older = _older_definitions(whole)
    if older is not None:
        bare = {name: whole[name] for name in whole if name not in ("definitions", "components")}
        whole = _inlined(bare, older)
    return {name: whole[name] for name in whole if name in _INPUT_KEYS}


def _older_definitions(schema: Schema) -> dict[str, Any] | None:
    """Give what older drafts and OpenAPI keep for references, None where a schema has no such place."""
    shared = schema.get("components")
    listed = shared.get("schemas") if isinstance(shared, Mapping) else None
    if "definitions" not in schema and not isinstance(listed, Mapping):
        return None
    return {**(listed or {}), **(schema.get("definitions") or {})}


def reply_schema(schema: Schema) -> dict[str, Any]:
    """Give the schema that a reply has to follow, as the provider compiles it."""
    definitions = schema.get("$defs", schema.get("definitions", {}))
    bare = {name: value for name, value in schema.items() if name not in ("$defs", "definitions")}
    whole: dict[str, Any] = _compiled(_inlined(bare, definitions) if definitions else bare)
    return whole


def _inlined(node: Any, definitions: Schema, within: tuple[str, ...] = ()) -> Any:
    """Write what is referred to in the place of each reference; one that leads into itself stays."""
    if isinstance(node, list | tuple):
        return [_inlined(item, definitions, within) for item in node]
    if not isinstance(node, Mapping):
        return node
    known = {**definitions, **_own_definitions(node)}
    referred = node.get("$ref")
    if not isinstance(referred, str):
        return {name: _inlined(value, known, within) for name, value in node.items()}
    name = referred.rpartition("/")[2]
    target = definitions.get(name)
    if name in within or not isinstance(target, Mapping):
        return dict(node)
    return _inlined(target, definitions, (*within, name))


def _own_definitions(node: Schema) -> dict[str, Any]:
    own = (node.get(place) for place in ("$defs", "definitions"))
    return {name: value for held in own if isinstance(held, Mapping) for name, value in held.items()}


def _compiled(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    kept: dict[str, Any] = {}
    if notes := list(_notes(schema)):
        note = f"Note: {', '.join(notes)}."
        kept["description"] = " ".join(filter(None, (schema.get("description"), note)))
    for name, value in schema.items():
        if _is_refused(name, value) or (name == "description" and notes):
            continue
        if name != "type" or not _is_contradicted(schema):
            _keep(kept, name, value)
    if kept.get("type") == "object":
        kept["additionalProperties"] = False
    return kept


def _keep(kept: dict[str, Any], name: str, value: Any) -> None:
    """Add one key of a schema, with the schemas that it holds."""
    if name in ("properties", "$defs") and isinstance(value, Mapping):
        kept[name] = {inner: _compiled(schema) for inner, schema in value.items()}
    elif name in ("anyOf", "oneOf") and isinstance(value, list | tuple):
        kept["anyOf"] = [*kept.get("anyOf", ()), *map(_compiled, value)]
    elif name == "allOf" and isinstance(value, list | tuple):
        kept[name] = list(map(_compiled, value))
    else:
        kept[name] = _compiled(value) if name == "items" else value


def _notes(schema: Schema) -> Iterator[str]:
    for name, words in _SAID_IN_WORDS.items():
        value = schema.get(name, False)
        if value is not False and _is_refused(name, value):
            yield words.format(json.dumps(value) if isinstance(value, dict | list) else value)


def _is_refused(name: str, value: Any) -> bool:
    """Whether a rule is one that the provider's grammar cannot hold; that a list is not empty it can."""
    return name in _SAID_IN_WORDS and not (name == "minItems" and type(value) is int and value in (0, 1))


def _is_contradicted(schema: Schema) -> bool:
    """Whether a schema lists values that are not all of the type it says: the provider refuses that."""
    values, kind = schema.get("enum"), schema.get("type")
    if not isinstance(values, list) or kind is None:
        return False
    if not isinstance(kind, str):
        return True
    return kind in _KINDS and not all(_is_of(kind, value) for value in values)


def _is_of(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS[kind])

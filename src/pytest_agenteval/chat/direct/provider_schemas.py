"""JSON Schemas of tools and replies as OpenAI and Anthropic accept them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.cassettes.wire.traffic import as_map, as_text
from pytest_agenteval.text.json_values import compact_json


def plain_copy(value: Any) -> Any:
    """Give a plain copy, since litellm writes into its arguments; lone surrogates become question marks."""
    return json.loads(compact_json(value).encode("utf-8", "replace"))


def tool_choice(choice: Any) -> Any:
    """Give the name of a tool as the choice of that tool; OpenAI's own words and maps stay as they are."""
    if choice in ("auto", "none", "required") or not isinstance(choice, str):
        return choice
    return {"type": "function", "function": {"name": choice}}


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give a schema as the response format; strict if it fulfils the providers' rules for that."""
    named = {"name": "reply", "schema": plain_copy(schema), "strict": _is_strict(schema)}
    return {"type": "json_schema", "json_schema": named}


def _is_strict(schema: Any) -> bool:
    """Whether every object of a schema requires all its keys and allows no others."""
    if isinstance(schema, list | tuple):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object":
        keys = set(schema.get("properties", {}))
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != keys:
            return False
    return all(map(_is_strict, schema.values()))


Schema = Mapping[str, Any]

# Rules that the provider refuses in the schema of a reply, with their wording for its description. The words
# are litellm's, so a model reads the same through both transports.
_RULES_IN_WORDS: Mapping[str, str] = {
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

_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list, tuple),
    "object": (Mapping,),
}


def anthropic_input_schema(schema: Schema) -> dict[str, Any]:
    """Give the schema of a tool's arguments: an object's, with references only to ``$defs``."""
    whole = {**schema, "type": "object", "properties": schema.get("properties", {})}
    # Older drafts refer to ``definitions``, OpenAPI to the schemas of its components.
    shared = whole.get("components")
    listed = shared.get("schemas") if isinstance(shared, Mapping) else None
    if "definitions" in whole or isinstance(listed, Mapping):
        bare = {name: whole[name] for name in whole if name not in ("definitions", "components")}
        whole = _inlined(bare, {**(listed or {}), **(whole.get("definitions") or {})})
    # A schema of arguments may have no other keys at its top.
    accepted = ("type", "properties", "additionalProperties", "required", "$defs", "strict")
    return {name: whole[name] for name in whole if name in accepted}


def anthropic_reply_schema(schema: Schema) -> dict[str, Any]:
    """Give the schema that a reply has to follow, as the provider compiles it."""
    definitions = schema.get("$defs", schema.get("definitions", {}))
    bare = {name: value for name, value in schema.items() if name not in ("$defs", "definitions")}
    whole: dict[str, Any] = _anthropic_schema(_inlined(bare, definitions) if definitions else bare)
    return whole


def _inlined(node: Any, definitions: Schema, within: tuple[str, ...] = ()) -> Any:
    """Replace each reference by its target, except within the target itself."""
    if isinstance(node, list | tuple):
        return [_inlined(item, definitions, within) for item in node]
    if not isinstance(node, Mapping):
        return node
    known = dict(definitions)
    for place in ("$defs", "definitions"):
        if isinstance(own := node.get(place), Mapping):
            known |= own
    referred = node.get("$ref")
    if not isinstance(referred, str):
        return {name: _inlined(value, known, within) for name, value in node.items()}
    name = referred.rpartition("/")[2]
    target = definitions.get(name)
    # A schema that contains itself is written out once; below that, the reference stays.
    if name in within or not isinstance(target, Mapping):
        return dict(node)
    return _inlined(target, definitions, (*within, name))


def _anthropic_schema(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    accepted: dict[str, Any] = {}
    notes = []
    for name, words in _RULES_IN_WORDS.items():
        value = schema.get(name, False)
        if value is not False and _is_refused_rule(name, value):
            notes.append(words.format(json.dumps(value) if isinstance(value, dict | list) else value))
    if notes:
        note = f"Note: {', '.join(notes)}."
        accepted["description"] = " ".join(filter(None, (schema.get("description"), note)))
    for name, value in schema.items():
        if _is_refused_rule(name, value) or (name == "description" and notes):
            continue
        if name == "type" and _is_contradicted(schema):
            continue
        if name in ("properties", "$defs") and isinstance(value, Mapping):
            accepted[name] = {inner: _anthropic_schema(each) for inner, each in value.items()}
        elif name in ("anyOf", "oneOf") and isinstance(value, list | tuple):
            accepted["anyOf"] = [*accepted.get("anyOf", ()), *map(_anthropic_schema, value)]
        elif name == "allOf" and isinstance(value, list | tuple):
            accepted[name] = list(map(_anthropic_schema, value))
        else:
            accepted[name] = _anthropic_schema(value) if name == "items" else value
    if accepted.get("type") == "object":
        # Structured output of this provider requires it of every object.
        accepted["additionalProperties"] = False
    return accepted


def _is_refused_rule(name: str, value: Any) -> bool:
    """Whether the provider refuses a rule; of those listed, it accepts that a list is not empty."""
    return name in _RULES_IN_WORDS and not (name == "minItems" and type(value) is int and value in (0, 1))


def _is_contradicted(schema: Schema) -> bool:
    """Whether a schema's enum does not fit its type, which the provider refuses."""
    values, kind = schema.get("enum"), schema.get("type")
    if not isinstance(values, list) or kind is None:
        return False
    if not isinstance(kind, str):
        return True
    if kind not in _JSON_TYPES:
        return False
    # True and False are numbers to Python, and none to JSON.
    return not all(
        kind == "boolean" if isinstance(value, bool) else isinstance(value, _JSON_TYPES[kind])
        for value in values
    )


_MAPS_OF_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE_SCHEMAS = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_UNIONS = ("allOf", "anyOf", "oneOf")
# Keys that are refused at the top of a tool's schema, and accepted further down.
_REFUSED_AT_TOP = (*_UNIONS, "enum", "const", "not")
_DEEPEST = 32


def openai_tool(tool: Mapping[str, Any], *, flat: bool) -> dict[str, Any]:
    """Give a tool without patterns that Python cannot compile; if ``flat``, without a union at its top.

    What is left out was a hint to the model, not a rule for its calls.
    """
    function = as_map(tool.get("function"))
    if not (parameters := as_map(function.get("parameters"))):
        return dict(tool)
    accepted = _with_known_patterns(parameters)
    if flat and any(name in accepted for name in _REFUSED_AT_TOP):
        accepted = _object_of(accepted, accepted, _DEEPEST) or accepted
    return {**tool, "function": {**function, "parameters": accepted}}


def _with_known_patterns(schema: Any) -> Any:
    """Give a schema without patterns that Python cannot compile; examples and values stay as they are."""
    if not isinstance(schema, dict):
        return schema
    given = {name: value for name, value in schema.items() if name != "pattern" or _is_pattern(value)}
    for name, value in given.items():
        if name in _MAPS_OF_SCHEMAS and isinstance(value, dict):
            keys = value if name != "patternProperties" else filter(_is_pattern, value)
            given[name] = {key: _with_known_patterns(value[key]) for key in keys}
        elif isinstance(value, list) and (name in _LISTS_OF_SCHEMAS or name == "items"):
            given[name] = list(map(_with_known_patterns, value))
        elif name in _SINGLE_SCHEMAS:
            given[name] = _with_known_patterns(value)
    return given


def _is_pattern(text: object) -> bool:
    try:
        re.compile(text if isinstance(text, str) else "")
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _object_of(schema: Any, root: Mapping[str, Any], depth: int) -> dict[str, Any] | None:
    """Merge a schema's branches into one object; None if a branch is no object."""
    if not isinstance(schema, dict) or depth < 0:
        return None
    if "$ref" in schema:
        ref = as_text(schema["$ref"])
        place, _, name = ref.removeprefix("#/").rpartition("/")
        target = as_map(root.get(place)).get(name) if place in ("$defs", "definitions") else None
        return _object_of(target, root, depth - 1)
    groups = {name: schema[name] for name in _UNIONS if isinstance(schema.get(name), list)}
    merged = {name: [_object_of(one, root, depth - 1) for one in group] for name, group in groups.items()}
    branches = [one for group in merged.values() for one in group if one is not None]
    is_object = "properties" in schema or bool(branches)
    if "type" in schema:
        is_object = schema["type"] == "object"
    if len(branches) < sum(map(len, merged.values())) or not is_object:
        return None
    properties: dict[str, Any] = {}
    for one in (*reversed(branches), schema):
        properties |= as_map(one.get("properties"))
    required = set(schema.get("required") or ())
    for union, group in merged.items():
        keys = [set(as_map(one).get("required") or ()) for one in group]
        if union == "allOf":  # every branch holds
            required |= set().union(*keys)
        elif keys:  # any one branch may hold: only what all of them require is required
            required |= set.intersection(*keys)
    rest = {name: value for name, value in schema.items() if name not in _REFUSED_AT_TOP}
    named = {"required": sorted(required)} if required else {}
    return {**rest, "type": "object", "properties": properties, **named}

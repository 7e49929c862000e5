"""Schemas of an OpenAPI document as the JSON Schema of a tool's arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from pytest_agenteval.errors import KeyPath
from pytest_agenteval.tools.openapi.source import Source

_NOT_SCHEMA = ("nullable", "discriminator", "xml", "externalDocs", "example", "readOnly", "writeOnly")


class Schemas:
    """Writes schemas anew for draft 2020-12; what they refer to is collected in ``defs``."""

    def __init__(self, source: Source) -> None:
        self._source, self._names = source, dict[str, str]()
        self.defs: dict[str, Any] = {}

    def written(self, schema: Any, place: KeyPath) -> Any:
        """Give a schema whose references lead to ``#/$defs/``."""
        if isinstance(schema, list):
            return [self.written(one, (*place, index)) for index, one in enumerate(schema)]
        if not isinstance(schema, Mapping):
            return schema
        if isinstance(schema.get("$ref"), str):
            others = {key: value for key, value in schema.items() if key != "$ref"}
            return {"$ref": f"#/$defs/{self._define(schema['$ref'], place)}", **others}
        kept = {key: value for key, value in _of_requests(schema).items() if key not in _NOT_SCHEMA}
        read = {key: self._below(key, value, place) for key, value in kept.items()}
        return _as_of_3_1(read, nullable=schema.get("nullable") is True)

    def open(self, schema: Any, place: KeyPath) -> dict[str, Any]:
        """Give a schema that starts with no reference, so that its type can be seen."""
        return dict(self.written(self._source.followed(schema, place), place))

    def _below(self, key: str, value: Any, place: KeyPath) -> Any:
        if key in ("properties", "patternProperties", "$defs", "dependentSchemas"):
            return {name: self.written(one, (*place, key, name)) for name, one in value.items()}
        return (
            value if key in ("enum", "const", "default", "examples") else self.written(value, (*place, key))
        )

    def _define(self, ref: str, place: KeyPath) -> str:
        if ref not in self._names:
            name = re.sub(r"\W+", "_", unquote(ref.rsplit("/", 1)[-1]))
            while name in self.defs:
                name += "_"
            self._names[ref] = name
            self.defs[name] = {}  # its place: a schema may refer to itself
            self.defs[name] = self.written(self._source.target(ref, place), place)
        return self._names[ref]


def _of_requests(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out the properties that only responses have."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return schema
    read_only = {
        name for name, one in properties.items() if isinstance(one, Mapping) and one.get("readOnly") is True
    }
    if not read_only:
        return schema
    needed = [name for name in schema.get("required") or () if name not in read_only]
    sent = {name: one for name, one in properties.items() if name not in read_only}
    return {**schema, "properties": sent, "required": needed}


def _as_of_3_1(schema: dict[str, Any], *, nullable: bool) -> dict[str, Any]:
    """Write what OpenAPI 3.0 says in its own way as JSON Schema does."""
    if nullable and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and bound in schema:
            schema[exclusive] = schema.pop(bound)
    return schema


def merged(schema: dict[str, Any], schemas: Schemas, source: Source, place: KeyPath) -> dict[str, Any]:
    """Give an object's properties with those of its ``allOf``; ``schema`` is as the document has it."""
    followed = source.followed(schema, place)
    parts = followed.get("allOf")
    if not isinstance(parts, list):
        return schemas.open(schema, place)
    whole: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    own = {key: value for key, value in followed.items() if key != "allOf"}
    for index, part in enumerate([*parts, own]):
        read = merged(part, schemas, source, (*place, "allOf", index))
        whole["properties"].update(read.get("properties", {}))
        whole["required"] += [name for name in read.get("required", ()) if name not in whole["required"]]
    return whole

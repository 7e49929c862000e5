"""An OpenAPI document: operations, references and schemas, the keys they take, and what is wrong where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import unquote

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import Document, short_path
from pytest_agenteval.tasks.validation_errors import value_text
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, nearest

METHODS = ("get", "put", "post", "delete", "head", "patch")
MOST_STEPS = 20
"""References in a row before they are taken for a ring."""

_NOT_SCHEMA = ("nullable", "discriminator", "xml", "externalDocs", "example", "readOnly", "writeOnly")


class Operation(FrozenValue, frozen=True):
    """One operation of the document, with what it shares with others of its path."""

    path: str
    method: str
    spec: Mapping[str, Any]
    shared: Mapping[str, Any]

    @property
    def place(self) -> KeyPath:
        """Where it stands in the document."""
        return ("paths", self.path, self.method)

    @property
    def names(self) -> tuple[str, ...]:
        """What authors may call it."""
        ident = self.spec.get("operationId")
        own = (str(ident),) if ident else ()
        return (*own, f"{self.method.upper()} {self.path}")


class OpenApiSource:
    """The document, which is a file of its own or stands below ``base`` in ours."""

    def __init__(self, document: Document, base: KeyPath = ()) -> None:
        self.document, self._base = document, base
        value: Any = document.value
        for step in base:
            value = value[step]
        if not isinstance(value, Mapping):
            self.refuse((), "an OpenAPI document: a map", value_text(value))
        self.root: Mapping[str, Any] = value
        version = str(value.get("openapi", value.get("swagger", "")))
        if not version.startswith(("3.0", "3.1")):
            key = "swagger" if "swagger" in value else "openapi"
            self.refuse((key,), "OpenAPI 3.0 or 3.1", value_text(version or None))

    def operations(self) -> Iterator[Operation]:
        """Give all operations, in the document's order."""
        paths = self.root.get("paths") or {}
        for path, given in paths.items():
            item = self.followed(given, ("paths", path))
            for method in METHODS:
                if isinstance(item.get(method), Mapping):
                    yield Operation(str(path), method, item[method], item)

    def followed(self, given: Any, place: KeyPath) -> Mapping[str, Any]:
        """Give a map, or that which its ``$ref`` leads to within the document."""
        for _ in range(MOST_STEPS):
            if not isinstance(given, Mapping):
                self.refuse(place, "a map", value_text(given))
            if "$ref" not in given:
                break
            given = self.target(given["$ref"], place)
        else:
            self.refuse((*place, "$ref"), "a reference that ends", "a ring of references")
        target: Mapping[str, Any] = given
        return target

    def target(self, ref: Any, place: KeyPath) -> Any:
        """Give what a reference leads to."""
        if not isinstance(ref, str) or not ref.startswith("#/"):
            self.refuse(
                (*place, "$ref"), "a reference within this document, as #/components/…", value_text(ref)
            )
        value: Any = self.root
        for step in (unquote(part).replace("~1", "/").replace("~0", "~") for part in ref[2:].split("/")):
            if isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            elif isinstance(value, Mapping) and step in value:
                value = value[step]
            else:
                keys = value if isinstance(value, Mapping) else ()
                self.refuse((*place, "$ref"), "a reference to something", f"{ref!r}", nearest(step, keys))
        return value

    def problem(self, place: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
        """Say what is wrong with a place of the document."""
        path = (*self._base, *place)
        file = short_path(self.document.path)
        return Problem(file, self.document.line_of(path), path, expected, found, hint)

    def refuse(self, place: KeyPath, expected: str, found: str, hint: str = "") -> NoReturn:
        """Raise the problem."""
        raise ProblemsFound([self.problem(place, expected, found, hint)])


@dataclass(slots=True)
class Keys:
    """What is sent with each request, and the environment variables it takes."""

    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


def keys_of(source: OpenApiSource, operation: Operation, variables: Mapping[str, str]) -> Keys:
    """Give what the first way of the operation's ``security`` needs whose schemes all have a variable."""
    ways = operation.spec.get("security", source.root.get("security")) or [{}]
    chosen = next((way for way in ways if way and set(way) <= set(variables)), None)
    if chosen is None and {} not in ways:
        named = " or ".join(" with ".join(way) for way in ways)
        place = operation.place if "security" in operation.spec else ()
        expected = f"a variable for {named} under `security` of the tool file"
        source.refuse((*place, "security"), expected, f"variables for {', '.join(variables) or 'none'}")
    keys = Keys()
    for name in chosen or ():
        _add(keys, source, name, variables[name])
    return keys


def _add(keys: Keys, source: OpenApiSource, name: str, variable: str) -> None:
    place: KeyPath = ("components", "securitySchemes", name)
    schemes = (source.root.get("components") or {}).get("securitySchemes") or {}
    if name not in schemes:
        scheme_names = ", ".join(schemes) or "no security scheme"
        source.refuse(
            ("components", "securitySchemes"), f"the scheme {name!r}", scheme_names, nearest(name, schemes)
        )
    scheme: Mapping[str, Any] = source.followed(schemes[name], place)
    kind, secret = scheme.get("type"), f"${{{variable}}}"
    keys.secrets = (*keys.secrets, variable)
    if kind == "apiKey" and scheme.get("in") == "query":
        keys.query[str(scheme["name"])] = secret
    elif kind == "apiKey":
        cookie = scheme.get("in") == "cookie"
        keys.headers["Cookie" if cookie else str(scheme["name"])] = (
            f"{scheme['name']}={secret}" if cookie else secret
        )
    elif kind in ("oauth2", "openIdConnect") or str(scheme.get("scheme", "")).lower() == "bearer":
        keys.headers["Authorization"] = f"Bearer {secret}"
    else:
        scheme_kind = f"{kind} {scheme.get('scheme', '')}".strip()
        source.refuse(place, "apiKey, http bearer, oauth2 or openIdConnect", scheme_kind)


class Schemas:
    """Writes schemas anew for draft 2020-12; what they refer to is collected in ``defs``."""

    def __init__(self, source: OpenApiSource) -> None:
        self._source, self._names = source, dict[str, str]()
        self.defs: dict[str, Any] = {}

    def convert(self, schema: Any, place: KeyPath) -> Any:
        """Give a schema whose references lead to ``#/$defs/``."""
        if isinstance(schema, list):
            return [self.convert(inner, (*place, index)) for index, inner in enumerate(schema)]
        if not isinstance(schema, Mapping):
            return schema
        if isinstance(schema.get("$ref"), str):
            others = {key: value for key, value in schema.items() if key != "$ref"}
            return {"$ref": f"#/$defs/{self._define(schema['$ref'], place)}", **others}
        schema_keys = {key: value for key, value in _of_requests(schema).items() if key not in _NOT_SCHEMA}
        read = {key: self._below(key, value, place) for key, value in schema_keys.items()}
        return _as_of_3_1(read, nullable=schema.get("nullable") is True)

    def open(self, schema: Any, place: KeyPath) -> dict[str, Any]:
        """Give a schema that starts with no reference, so that its type can be seen."""
        return dict(self.convert(self._source.followed(schema, place), place))

    def _below(self, key: str, value: Any, place: KeyPath) -> Any:
        if key in ("properties", "patternProperties", "$defs", "dependentSchemas"):
            return {name: self.convert(inner, (*place, key, name)) for name, inner in value.items()}
        return (
            value if key in ("enum", "const", "default", "examples") else self.convert(value, (*place, key))
        )

    def _define(self, ref: str, place: KeyPath) -> str:
        if ref not in self._names:
            name = re.sub(r"\W+", "_", unquote(ref.rsplit("/", 1)[-1]))
            while name in self.defs:
                name += "_"
            self._names[ref] = name
            self.defs[name] = {}  # its place: a schema may refer to itself
            self.defs[name] = self.convert(self._source.target(ref, place), place)
        return self._names[ref]


def _of_requests(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out the properties that only responses have."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return schema
    read_only = {
        name
        for name, inner in properties.items()
        if isinstance(inner, Mapping) and inner.get("readOnly") is True
    }
    if not read_only:
        return schema
    needed = [name for name in schema.get("required") or () if name not in read_only]
    sent = {name: inner for name, inner in properties.items() if name not in read_only}
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


def merged(schema: dict[str, Any], schemas: Schemas, source: OpenApiSource, place: KeyPath) -> dict[str, Any]:
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

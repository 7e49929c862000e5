"""From one operation of an OpenAPI document to the declaration of a tool.

Parameters of path, query and header and the properties of a JSON or form body are the tool's parameters. One
whose name is taken has its place put before it: ``query_id``, ``header_id``, ``body_id``. A body that is no
object is the parameter ``body``. What is not sent by a tool (cookies, objects outside of bodies) is left out
where it is optional.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.tasks.field_types import Map, Named, NamedBesideOthers, Spec, check_named, expects
from pytest_agenteval.tasks.validation_errors import value_text
from pytest_agenteval.text.errors import KeyPath
from pytest_agenteval.tools.http.declaration import (
    ErrorSpec,
    RequestSpec,
    ResultSpec,
    ToolDeclaration,
    ToolName,
    Variable,
)
from pytest_agenteval.tools.openapi.source import Keys, OpenApiSource, Operation, Schemas, merged


class OperationSpec(Spec, frozen=True, kw_only=True):
    """One operation that becomes a tool, and what the tool has of its own."""

    id: Annotated[Named, expects("an operationId, or as `GET /path`")]
    name: Annotated[ToolName | None, expects("1 to 64 letters, digits, _ or -: the tool's name")] = None
    description: Annotated[Named | None, expects("a text: what the tool is for")] = None
    result: Annotated[ResultSpec | None, expects("a map: what is shown of the response")] = None
    errors: Annotated[tuple[ErrorSpec, ...], expects("a list of what a failure looks like")] = ()
    matching: Annotated[
        Map, expects("a map from parameter to exact, folded, ignore, contains or {number: TOLERANCE}")
    ] = NOTHING


class OpenApiFile(Spec, frozen=True, kw_only=True):
    """A document, and which of its operations are tools.

    ``security`` names for each security scheme of the document the environment variable that holds its key
    or token.
    """

    openapi: Annotated[NamedBesideOthers | Map, expects("the path of an OpenAPI document, or the document")]
    operations: Annotated[
        tuple[OperationSpec | Named, ...],
        Meta(min_length=1),
        expects("a list of operationIds, or of maps with `id`"),
    ]
    name: Annotated[ToolName | None, expects("1 to 64 letters, digits, _ or -: the provider")] = None
    base: Annotated[Named | None, expects("the address that paths are put behind")] = None
    security: Annotated[
        Mapping[str, Variable], expects("a map from security scheme to environment variable")
    ] = NOTHING
    errors: Annotated[tuple[ErrorSpec, ...], expects("a list of what a failure looks like")] = ()

    def __post_init__(self) -> None:
        check_named(self.openapi)


_BETWEEN = {"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}
_OF_HTTP = ("accept", "content-type", "authorization")
_JSON = re.compile(r"application/(?:[\w.+-]*\+)?json\b")
_FORM = "application/x-www-form-urlencoded"


@dataclass(slots=True)
class _Draft:
    """A request as far as it is known."""

    schemas: Schemas
    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, Any] = field(default_factory=dict)
    body: Any = None
    body_as: str = "json"

    def take(self, name: str, place: str, schema: dict[str, Any], *, required: bool) -> str:
        """Make a parameter of the tool; gives its name there."""
        named = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or place
        while named in self.properties:
            named = f"{place}_{named}"
        self.properties[named] = schema
        if required:
            self.required.append(named)
        return named


def declaration(
    source: OpenApiSource, operation: Operation, spec: OperationSpec, keys: Keys
) -> ToolDeclaration:
    """Make the declaration; raises ProblemsFound for what no tool can ask."""
    draft = _Draft(Schemas(source), query=dict(keys.query), headers=dict(keys.headers))
    for place, given in _parameters(source, operation):
        _parameter(draft, source, given, place)
    if "requestBody" in operation.spec:
        _body(draft, source, operation)
    parameters: dict[str, Any] = {"type": "object", "properties": draft.properties}
    if draft.required:
        parameters["required"] = draft.required
    if draft.schemas.defs:
        parameters["$defs"] = draft.schemas.defs
    url = re.sub(r"\{([^{}]+)\}", lambda match: f"{{{draft.path.get(match[1], match[1])}}}", operation.path)
    return ToolDeclaration(
        name=name_of(operation, spec),
        description=spec.description or _description(operation),
        parameters=parameters,
        request=RequestSpec(
            method=operation.method.upper(),  # type: ignore[arg-type]  # one of METHODS
            url=url,
            query=draft.query,
            headers=draft.headers,
            body=draft.body,
            body_as=draft.body_as,  # type: ignore[arg-type]  # json or form
        ),
        result=spec.result or ResultSpec(text="any"),
        errors=spec.errors,
        matching=spec.matching,
        secrets=keys.secrets,
    )


def name_of(operation: Operation, spec: OperationSpec) -> str:
    """Give the tool's name; empty where the operation's id has no letter that a tool's name may have."""
    return spec.name or re.sub(r"[^A-Za-z0-9_-]+", "_", operation.names[0]).strip("_")[:64]


def _parameters(source: OpenApiSource, operation: Operation) -> list[tuple[KeyPath, Mapping[str, Any]]]:
    """Give the parameters of the operation, and those of its path that it does not say anew."""
    parameters: dict[tuple[Any, Any], tuple[KeyPath, Mapping[str, Any]]] = {}
    for place, holder in ((operation.place[:2], operation.shared), (operation.place, operation.spec)):
        for index, given in enumerate(holder.get("parameters") or ()):
            here = (*place, "parameters", index)
            parameter = source.followed(given, here)
            parameters[parameter.get("in"), parameter.get("name")] = (here, parameter)
    order = ("path", "query", "header", "cookie")
    return sorted(
        parameters.values(),
        key=lambda entry: order.index(str(entry[1].get("in"))) if entry[1].get("in") in order else 9,
    )


def _parameter(draft: _Draft, source: OpenApiSource, given: Mapping[str, Any], place: KeyPath) -> None:
    where, name = given.get("in"), str(given.get("name", ""))
    required = where == "path" or given.get("required") is True
    if where not in ("path", "query", "header"):
        if required:
            source.refuse((*place, "in"), "path, query or header", f"a required parameter in {where!r}")
        return
    if where == "header" and name.lower() in _OF_HTTP:
        return
    shape = _shape(draft, given, place)
    kinds = shape["type"] if isinstance(shape.get("type"), list) else [shape.get("type")]
    if "content" not in given and ("object" in kinds or (where == "path" and "array" in kinds)):
        if required:
            source.refuse(
                (*place, "schema", "type"), "single values in an address", value_text(shape["type"])
            )
        return
    named = draft.take(name, where, shape, required=required)
    if where == "path":
        draft.path[name] = named
    elif where == "header":
        draft.headers[name] = {"param": named, "join": ","} if "array" in kinds else f"{{{named}}}"
    else:
        draft.query[name] = _in_query(given, named)


def _shape(draft: _Draft, given: Mapping[str, Any], place: KeyPath) -> dict[str, Any]:
    for kind, inner in (given.get("content") or {}).items():  # of which there is one
        return draft.schemas.open(inner.get("schema", {}), (*place, "content", kind, "schema"))
    shape = draft.schemas.open(given.get("schema", {}), (*place, "schema"))
    description = given.get("description")
    return {**shape, "description": description} if description and "description" not in shape else shape


def _in_query(given: Mapping[str, Any], named: str) -> Any:
    style = given.get("style", "form")
    if given.get("explode", style == "form") or style not in _BETWEEN:
        return f"{{{named}}}"
    return {"param": named, "join": _BETWEEN[style]}


def _body(draft: _Draft, source: OpenApiSource, operation: Operation) -> None:
    place: KeyPath = (*operation.place, "requestBody")
    given = source.followed(operation.spec["requestBody"], place)
    kinds = given.get("content") or {}
    kind = next((kind for kind in kinds if _JSON.match(kind)), _FORM if _FORM in kinds else None)
    if kind is None:
        if given.get("required") is True:
            source.refuse((*place, "content"), f"application/json or {_FORM}", ", ".join(kinds) or "nothing")
        return
    here = (*place, "content", kind, "schema")
    schema = merged(kinds[kind].get("schema", {}), draft.schemas, source, here)
    draft.body_as = "form" if kind == _FORM else "json"
    properties, needed = schema.get("properties"), given.get("required") is True
    if properties and not {"oneOf", "anyOf"} & set(schema):
        draft.body = {
            key: f"{{{draft.take(key, 'body', _resolve(inner, draft), required=_is_required(schema, key))}}}"
            for key, inner in properties.items()
        }
    else:
        draft.body = f"{{{draft.take('body', 'body', schema, required=needed)}}}"


def _is_required(schema: Mapping[str, Any], key: str) -> bool:
    return key in schema.get("required", ())


def _resolve(schema: Any, draft: _Draft) -> dict[str, Any]:
    """Give what a property's reference leads to, so that its type can be seen."""
    while isinstance(schema, Mapping) and set(schema) == {"$ref"}:
        schema = draft.schemas.defs[schema["$ref"].rsplit("/", 1)[-1]]
    return dict(schema) if isinstance(schema, Mapping) else {}


def _description(operation: Operation) -> str:
    spec = operation.spec
    texts = (spec.get("summary"), spec.get("description"))
    return "\n\n".join(str(text).strip() for text in texts if text) or operation.names[-1]

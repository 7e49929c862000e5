"""Tools made from operations of an OpenAPI document.

Parameters of path, query and header and the properties of a JSON or form body are the tool's parameters. A
parameter whose name is taken gets its place as a prefix: ``query_id``, ``header_id``, ``body_id``. A body
that is no object is the parameter ``body``. What a tool cannot send (cookies, objects outside of bodies) is
left out if it is optional.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import unquote

from msgspec import Meta

from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.tasks.documents import ParsedDocument, read_document, short_path
from pytest_agenteval.tasks.task_spec import Map, Named, NamedBesideOthers, Spec, check_named, expects
from pytest_agenteval.tasks.validation import read_spec, value_text
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean
from pytest_agenteval.tools.http_declaration import (
    ErrorSpec,
    ProviderSpec,
    RequestSpec,
    ResultSpec,
    ToolDeclaration,
    ToolName,
    Variable,
    is_address,
    provider_problems,
    tool_problems,
)
from pytest_agenteval.tools.http_tool import http_tool
from pytest_agenteval.tools.tool import Tool

METHODS = ("get", "put", "post", "delete", "head", "patch")
# A chain of more references than this is taken for a circle.
MOST_STEPS = 20

_NOT_SCHEMA = ("nullable", "discriminator", "xml", "externalDocs", "example", "readOnly", "writeOnly")


class Operation(FrozenValue, frozen=True):
    """One operation of the document, with the part that it shares with others of its path."""

    path: str
    method: str
    spec: Mapping[str, Any]
    shared: Mapping[str, Any]

    @property
    def place(self) -> KeyPath:
        return ("paths", self.path, self.method)

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which authors may refer to it."""
        ident = self.spec.get("operationId")
        own = (str(ident),) if ident else ()
        return (*own, f"{self.method.upper()} {self.path}")


class OpenApiSource:
    """The document, which is a file of its own or stands below ``base`` in the tool file."""

    def __init__(self, document: ParsedDocument, base: KeyPath = ()) -> None:
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
        """Give a map, or the map that its ``$ref`` leads to within the document."""
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
                self.refuse(
                    (*place, "$ref"), "a reference to something", f"{ref!r}", did_you_mean(step, keys)
                )
        return value

    def refuse(self, place: KeyPath, expected: str, found: str, hint: str = "") -> NoReturn:
        raise ProblemsFound([_problem(self.document, (*self._base, *place), expected, found, hint)])


@dataclass(slots=True)
class SecurityKeys:
    """The keys that are sent with each request, and the environment variables that hold them."""

    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


def security_keys(source: OpenApiSource, operation: Operation, variables: Mapping[str, str]) -> SecurityKeys:
    """Give the keys for the first of the operation's security ways whose schemes all have a variable."""
    ways = operation.spec.get("security", source.root.get("security")) or [{}]
    chosen = next((way for way in ways if way and set(way) <= set(variables)), None)
    # In OpenAPI, an empty requirement means that requests without a key are accepted, too.
    if chosen is None and {} not in ways:
        named = " or ".join(" with ".join(way) for way in ways)
        place = operation.place if "security" in operation.spec else ()
        expected = f"a variable for {named} under `security` of the tool file"
        source.refuse((*place, "security"), expected, f"variables for {', '.join(variables) or 'none'}")
    keys = SecurityKeys()
    for name in chosen or ():
        _add_key(keys, source, name, variables[name])
    return keys


def _add_key(keys: SecurityKeys, source: OpenApiSource, name: str, variable: str) -> None:
    place: KeyPath = ("components", "securitySchemes", name)
    schemes = (source.root.get("components") or {}).get("securitySchemes") or {}
    if name not in schemes:
        scheme_names = ", ".join(schemes) or "no security scheme"
        hint = did_you_mean(name, schemes)
        source.refuse(place[:2], f"the scheme {name!r}", scheme_names, hint)
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
    """Rewrites schemas for draft 2020-12; the targets of their references are collected in ``defs``."""

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
            ref = schema["$ref"]
            if ref not in self._names:
                name = re.sub(r"\W+", "_", unquote(ref.rsplit("/", 1)[-1]))
                while name in self.defs:
                    name += "_"
                self._names[ref] = name
                self.defs[name] = {}  # its place: a schema may refer to itself
                self.defs[name] = self.convert(self._source.target(ref, place), place)
            return {"$ref": f"#/$defs/{self._names[ref]}", **others}
        schema_keys = {
            key: value for key, value in _without_read_only(schema).items() if key not in _NOT_SCHEMA
        }
        read = {key: self._below(key, value, place) for key, value in schema_keys.items()}
        # OpenAPI 3.0 has its own form for null and for exclusive bounds.
        nullable = schema.get("nullable") is True
        if nullable and isinstance(read.get("type"), str):
            read["type"] = [read["type"], "null"]
            if isinstance(read.get("enum"), list) and None not in read["enum"]:
                read["enum"] = [*read["enum"], None]
        for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if isinstance(read.get(exclusive), bool) and read.pop(exclusive) and bound in read:
                read[exclusive] = read.pop(bound)
        return read

    def open(self, schema: Any, place: KeyPath) -> dict[str, Any]:
        """Give a schema that is no reference itself, so that its type can be read."""
        return dict(self.convert(self._source.followed(schema, place), place))

    def _below(self, key: str, value: Any, place: KeyPath) -> Any:
        if key in ("properties", "patternProperties", "$defs", "dependentSchemas"):
            return {name: self.convert(inner, (*place, key, name)) for name, inner in value.items()}
        if key in ("enum", "const", "default", "examples"):
            return value
        return self.convert(value, (*place, key))


def _without_read_only(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out the properties that only responses have."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return schema
    maps = {name: inner for name, inner in properties.items() if isinstance(inner, Mapping)}
    read_only = {name for name, inner in maps.items() if inner.get("readOnly") is True}
    if not read_only:
        return schema
    needed = [name for name in schema.get("required") or () if name not in read_only]
    sent = {name: inner for name, inner in properties.items() if name not in read_only}
    return {**schema, "properties": sent, "required": needed}


def merged_schema(
    schema: dict[str, Any], schemas: Schemas, source: OpenApiSource, place: KeyPath
) -> dict[str, Any]:
    """Give an object's properties with those of its ``allOf``; ``schema`` is as the document has it."""
    followed = source.followed(schema, place)
    parts = followed.get("allOf")
    if not isinstance(parts, list):
        return schemas.open(schema, place)
    whole: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    own = {key: value for key, value in followed.items() if key != "allOf"}
    for index, part in enumerate([*parts, own]):
        read = merged_schema(part, schemas, source, (*place, "allOf", index))
        whole["properties"].update(read.get("properties", {}))
        whole["required"] += [name for name in read.get("required", ()) if name not in whole["required"]]
    return whole


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
_JSON = re.compile(r"application/(?:[\w.+-]*\+)?json\b")
_FORM = "application/x-www-form-urlencoded"


@dataclass(slots=True)
class _Draft:
    """The parts of a request that are known so far."""

    schemas: Schemas
    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, Any] = field(default_factory=dict)
    body: Any = None
    body_as: str = "json"

    def take(self, name: str, place: str, schema: dict[str, Any], *, required: bool) -> str:
        """Add a parameter to the tool, and give its name there."""
        named = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or place
        while named in self.properties:
            named = f"{place}_{named}"
        self.properties[named] = schema
        if required:
            self.required.append(named)
        return named


def operation_declaration(
    source: OpenApiSource, operation: Operation, spec: OperationSpec, keys: SecurityKeys
) -> ToolDeclaration:
    """Make the declaration; raises ProblemsFound for an operation that no tool can send."""
    draft = _Draft(Schemas(source), query=dict(keys.query), headers=dict(keys.headers))
    for place, given in _parameters(source, operation):
        _add_parameter(draft, source, given, place)
    if "requestBody" in operation.spec:
        _add_body(draft, source, operation)
    parameters: dict[str, Any] = {"type": "object", "properties": draft.properties}
    if draft.required:
        parameters["required"] = draft.required
    if draft.schemas.defs:
        parameters["$defs"] = draft.schemas.defs
    url = re.sub(r"\{([^{}]+)\}", lambda match: f"{{{draft.path.get(match[1], match[1])}}}", operation.path)
    given_texts = (operation.spec.get("summary"), operation.spec.get("description"))
    texts = [str(text).strip() for text in given_texts if text]
    return ToolDeclaration(
        name=tool_name(operation, spec),
        description=spec.description or "\n\n".join(texts) or operation.names[-1],
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


def tool_name(operation: Operation, spec: OperationSpec) -> str:
    """Give the tool's name; empty if the operation's id has no letter that a tool's name may have."""
    return spec.name or re.sub(r"[^A-Za-z0-9_-]+", "_", operation.names[0]).strip("_")[:64]


def _parameters(source: OpenApiSource, operation: Operation) -> list[tuple[KeyPath, Mapping[str, Any]]]:
    """Give the parameters of the operation and of its path, in the order path, query, header, cookie."""
    parameters: dict[tuple[Any, Any], tuple[KeyPath, Mapping[str, Any]]] = {}
    for place, holder in ((operation.place[:2], operation.shared), (operation.place, operation.spec)):
        for index, given in enumerate(holder.get("parameters") or ()):
            here = (*place, "parameters", index)
            parameter = source.followed(given, here)
            # As OpenAPI has it, an operation's parameter replaces
            # that of its path with the same name and place.
            parameters[parameter.get("in"), parameter.get("name")] = (here, parameter)
    places = {"path": 0, "query": 1, "header": 2, "cookie": 3}
    return sorted(parameters.values(), key=lambda entry: places.get(str(entry[1].get("in")), 9))


def _add_parameter(draft: _Draft, source: OpenApiSource, given: Mapping[str, Any], place: KeyPath) -> None:
    where, name = given.get("in"), str(given.get("name", ""))
    # OpenAPI requires that every parameter of a path is required.
    required = where == "path" or given.get("required") is True
    if where not in ("path", "query", "header"):
        if required:
            source.refuse((*place, "in"), "path, query or header", f"a required parameter in {where!r}")
        return
    # OpenAPI says that a parameter with one of these names is ignored.
    if where == "header" and name.lower() in ("accept", "content-type", "authorization"):
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
        # OpenAPI's defaults: a list repeats its key (explode)
        # unless its style or the document says otherwise.
        style = given.get("style", "form")
        whole = given.get("explode", style == "form") or style not in _BETWEEN
        draft.query[name] = f"{{{named}}}" if whole else {"param": named, "join": _BETWEEN[style]}


def _shape(draft: _Draft, given: Mapping[str, Any], place: KeyPath) -> dict[str, Any]:
    for kind, inner in (given.get("content") or {}).items():  # of which there is one
        return draft.schemas.open(inner.get("schema", {}), (*place, "content", kind, "schema"))
    shape = draft.schemas.open(given.get("schema", {}), (*place, "schema"))
    description = given.get("description")
    return {**shape, "description": description} if description and "description" not in shape else shape


def _add_body(draft: _Draft, source: OpenApiSource, operation: Operation) -> None:
    place: KeyPath = (*operation.place, "requestBody")
    given = source.followed(operation.spec["requestBody"], place)
    kinds = given.get("content") or {}
    kind = next((kind for kind in kinds if _JSON.match(kind)), _FORM if _FORM in kinds else None)
    if kind is None:
        if given.get("required") is True:
            source.refuse((*place, "content"), f"application/json or {_FORM}", ", ".join(kinds) or "nothing")
        return
    here = (*place, "content", kind, "schema")
    schema = merged_schema(kinds[kind].get("schema", {}), draft.schemas, source, here)
    draft.body_as = "form" if kind == _FORM else "json"
    properties, needed = schema.get("properties"), given.get("required") is True
    if properties and not {"oneOf", "anyOf"} & set(schema):
        required = schema.get("required", ())
        draft.body = {
            key: f"{{{draft.take(key, 'body', _resolve(inner, draft), required=key in required)}}}"
            for key, inner in properties.items()
        }
    else:
        draft.body = f"{{{draft.take('body', 'body', schema, required=needed)}}}"


def _resolve(schema: Any, draft: _Draft) -> dict[str, Any]:
    """Give the target of a property's reference, so that its type can be read."""
    while isinstance(schema, Mapping) and set(schema) == {"$ref"}:
        schema = draft.schemas.defs[schema["$ref"].rsplit("/", 1)[-1]]
    return dict(schema) if isinstance(schema, Mapping) else {}


def openapi_tools(document: ParsedDocument) -> tuple[dict[str, Tool], tuple[Path, ...]]:
    """Give the tools of a file, and all files that were read for them."""
    read = read_spec(OpenApiFile, document)
    source = _source(document, read)
    # Only ``base`` and ``errors`` come from the author, so a provider with these finds their problems.
    shared = ProviderSpec(name="shared", base=read.base or "https://server", errors=read.errors)
    problems = [
        _problem(document, wrong.path, wrong.expected, wrong.found, wrong.hint)
        for wrong in provider_problems(shared)
    ]
    made = list(_make_tools(document, source, read))
    problems += [each for each in made if isinstance(each, Problem)]
    if problems:
        raise ProblemsFound(problems)
    tools = [each for each in made if isinstance(each, Tool)]
    files = dict.fromkeys((document.path, source.document.path))
    return {tool.spec.name: tool for tool in tools}, tuple(files)


def _source(document: ParsedDocument, read: OpenApiFile) -> OpenApiSource:
    if not isinstance(read.openapi, str):
        return OpenApiSource(document, ("openapi",))
    path = document.path.parent / read.openapi
    if not path.is_file():
        line = document.line_of(("openapi",))
        found = f"{read.openapi!r}, which is not there"
        expected = "the path of an OpenAPI document, from this file's folder"
        raise ProblemsFound([Problem(short_path(document.path), line, ("openapi",), expected, found)])
    return OpenApiSource(read_document(path))


def _make_tools(
    document: ParsedDocument, source: OpenApiSource, read: OpenApiFile
) -> Iterator[Tool | Problem]:
    by_name: dict[str, Operation] = {}
    again: set[str] = set()
    for operation in source.operations():
        # An id that two operations have names neither of them.
        again.update(name for name in operation.names if name in by_name)
        by_name.update(dict.fromkeys(operation.names, operation))
    names: set[str] = set()
    for index, given in enumerate(read.operations):
        spec = given if isinstance(given, OperationSpec) else OperationSpec(id=given)
        place: KeyPath = ("operations", index, *(("id",) if isinstance(given, OperationSpec) else ()))
        if spec.id not in by_name:
            found = f"unknown operation {spec.id!r}"
            idents = dict.fromkeys(operation.names[0] for operation in by_name.values())
            expected = f"one of {', '.join(list(idents)[:12])}{', …' if len(idents) > 12 else ''}"
            yield _problem(document, place, expected, found, did_you_mean(spec.id, by_name))
            continue
        operation = by_name[spec.id]
        if spec.id in again:
            yield _problem(
                document, place, "the id of one operation, or as `GET /path`", f"{spec.id!r} of two"
            )
            continue
        if not tool_name(operation, spec):
            yield _problem(document, place, "a `name`: of letters, digits, _ or -", f"only {spec.id!r}")
            continue
        declared = operation_declaration(
            source, operation, spec, security_keys(source, operation, read.security)
        )
        name = read.name or re.sub(r"[^A-Za-z0-9_-]+", "_", document.path.stem)
        base = read.base or _server(source, operation)
        provider = ProviderSpec(name=name, base=base, errors=read.errors)
        for wrong in tool_problems(declared, provider):
            # Only these three come from the tool file; the rest of the declaration comes from the document.
            is_ours = wrong.path[0] in ("matching", "errors", "result")
            where = (*place[:2], *wrong.path) if is_ours else place
            yield _problem(document, where, wrong.expected, wrong.found, wrong.hint)
        if declared.name in names:
            yield _problem(
                document, place, "a name that no other tool has: set `name`", f"{declared.name!r} again"
            )
        names.add(declared.name)
        yield http_tool(declared, provider)


def _server(source: OpenApiSource, operation: Operation) -> str:
    holders = (operation.spec, operation.shared, source.root)
    servers = next((holder["servers"] for holder in holders if holder.get("servers")), None)
    if not servers:
        source.refuse(("servers",), "an address under `servers`, or `base` in the tool file", "none")
    variables = servers[0].get("variables") or {}
    url = str(servers[0].get("url", ""))
    for name, variable in variables.items():
        url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    if not is_address(url) or "{" in url:
        place = ("servers", 0, "url")
        source.refuse(place, "an address with its host, or `base` in the tool file", repr(url))
    return url


def _problem(document: ParsedDocument, place: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
    return Problem(short_path(document.path), document.line_of(place), place, expected, found, hint)

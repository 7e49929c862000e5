"""The declarations that authors of tool files write, and the problems in them.

A text in ``url``, ``query``, ``headers`` and ``body`` may name arguments as ``{keyword}``, with a value for
an absent one as ``{unit=1}``, environment variables as ``${KAKAO_REST_API_KEY}`` and the token as
``${token}``. A text that is one argument and nothing else keeps the argument's type; a key whose argument is
absent is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Meta, field

from pytest_agenteval.cassettes.request_matching import MATCHER_WORDS
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.tasks.task_spec import Count, Map, Named, Number, Positive, Spec, expects
from pytest_agenteval.tasks.validation import value_text
from pytest_agenteval.text.errors import KeyPath, did_you_mean
from pytest_agenteval.tools.request_values import TemplateValue, compile_value, is_chosen

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]
# Providers of models accept no other names of tools.
ToolName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
Variable = Annotated[str, Meta(pattern=r"^\w+\Z")]
ValueMap = Mapping[str, Any]


class Chosen(Spec, frozen=True, kw_only=True):
    """An argument written in other words: by a table, or a list in one text."""

    param: Annotated[Named, expects("the name of a parameter")]
    table: Annotated[Map, expects("a map from argument to what is sent for it")] = NOTHING
    join: Annotated[str | None, expects("a text that is put between the items of a list")] = None

    @property
    def template(self) -> Map:
        """The map {param, table, join} in the form that request templates expect."""
        return {"param": self.param, "table": self.table} | ({} if self.join is None else {"join": self.join})


class RequestSpec(Spec, frozen=True, kw_only=True):
    """What is sent for a call."""

    method: Annotated[Method, expects("GET, POST, PUT, PATCH, DELETE or HEAD")] = "GET"
    url: Annotated[Chosen | Named, expects("an address, or a path below `base`; or {param, table} of them")]
    query: Annotated[ValueMap, expects("a map from query parameter to value")] = NOTHING
    headers: Annotated[ValueMap, expects("a map from header to value")] = NOTHING
    body: Annotated[Any, expects("any JSON value; texts in it may name arguments")] = None
    body_as: Annotated[Literal["json", "form"], expects("json or form")] = "json"


class TokenSpec(Spec, frozen=True, kw_only=True):
    """The request that returns the token for all others; the token is reused until it expires."""

    url: Annotated[Named, expects("an address, or a path below `base`")]
    method: Annotated[Method, expects("GET, POST, PUT, PATCH, DELETE or HEAD")] = "POST"
    query: Annotated[ValueMap, expects("a map from query parameter to value")] = NOTHING
    headers: Annotated[ValueMap, expects("a map from header to value")] = NOTHING
    body: Annotated[Any, expects("any JSON value")] = None
    body_as: Annotated[Literal["json", "form"], expects("json or form")] = "json"
    path: Annotated[Named, expects("the path of the token in the response")] = "access_token"
    expires: Annotated[Named, expects("the path of its seconds in the response")] = "expires_in"
    lasts: Annotated[Positive, expects("seconds it lasts where the response does not say")] = 3600.0


class ErrorSpec(Spec, frozen=True, kw_only=True):
    """How a body looks that says that the call failed, whatever its status."""

    path: Annotated[str, expects("the path of the error's value, as in error.code")] = ""
    ok: Annotated[tuple[Any, ...], expects("values that mean success; none: its presence is one")] = ()
    message: Annotated[str, expects("the path of the message, as in error.message")] = ""
    pattern: Annotated[str, expects("a regular expression for a body that is not JSON")] = ""


class Starts(Spec, frozen=True, kw_only=True):
    """Which items of a list remain: those that start with a text."""

    path: Annotated[Named, expects("the path of the text in the item")]
    starts: Annotated[Any, expects("a text, `{parameter}`, or {param, table}")]


class PartSpec(Spec, frozen=True, kw_only=True):
    """A value that the agent is shown, made of the response."""

    path: Annotated[str, expects("the path of the value, as in documents[0].address")] = ""
    fields: Annotated[
        Mapping[str, PartSpec | str] | None, expects("a map from key to path, `{parameter}` or part")
    ] = None
    each: Annotated[
        Mapping[str, PartSpec | str] | None,
        expects("for a list: a map from key to path in the item, `{parameter}` or part"),
    ] = None
    where: Annotated[Starts | None, expects("a map {path, starts}: which items are kept")] = None
    limit: Annotated[
        Count | Annotated[str, Meta(pattern=r"^\{\w+\}\Z")] | None,
        expects("how many items: a number or `{parameter}`"),
    ] = None
    drop: Annotated[tuple[Named, ...], expects("a list of keys left out, at any depth")] = ()
    join: Annotated[tuple[Named, ...], expects("a list of paths whose texts are joined")] = ()
    between: Annotated[str, expects("the text between joined texts")] = " "
    convert: Annotated[
        Literal["number", "integer", "text", "count"] | None, expects("number, integer, text or count")
    ] = field(default=None, name="as")
    times: Annotated[Number | None, expects("a number by which the value is multiplied")] = None
    value: Annotated[Any, expects("a constant")] = None
    default: Annotated[Any, expects("the value if the response has none")] = None


class ResultSpec(PartSpec, frozen=True, kw_only=True):
    """What the agent is shown of a response."""

    text: Annotated[
        Literal["xml", "any"] | None, expects("xml or any: bodies that are shown unparsed, besides JSON")
    ] = None
    empty: Annotated[Any, expects("what an empty body means")] = None


class ToolDeclaration(Spec, frozen=True, kw_only=True):
    """One tool: its description for the agent, the request, and what is shown of the response."""

    name: Annotated[ToolName, expects("1 to 64 letters, digits, _ or -")]
    description: Annotated[Named, expects("a text: what the tool is for")]
    parameters: Annotated[Map, expects("the JSON Schema of an object")] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    request: Annotated[RequestSpec, expects("a map with url (and method, query, headers, body)")]
    result: Annotated[ResultSpec, expects("a map: what is shown of the response")] = ResultSpec()
    errors: Annotated[tuple[ErrorSpec, ...], expects("a list of what a failure looks like")] = ()
    matching: Annotated[
        Map, expects("a map from parameter to exact, folded, ignore, contains or {number: TOLERANCE}")
    ] = NOTHING
    secrets: Annotated[tuple[Variable, ...], expects("a list of environment variables")] = ()
    token: Annotated[TokenSpec | None, expects("a map: the request that gives a token")] = None
    checked: Annotated[bool, expects("true or false: whether arguments are checked before sending")] = True


class ProviderSpec(Spec, frozen=True, kw_only=True):
    """What the tools of one provider have in common."""

    name: Annotated[ToolName, expects("1 to 64 letters, digits, _ or -")]
    base: Annotated[Named, expects("the address that paths are put behind")]
    headers: Annotated[ValueMap, expects("a map from header to value")] = NOTHING
    query: Annotated[ValueMap, expects("a map from query parameter to value")] = NOTHING
    secrets: Annotated[tuple[Variable, ...], expects("a list of environment variables")] = ()
    token: Annotated[TokenSpec | None, expects("a map: the request that gives a token")] = None
    errors: Annotated[tuple[ErrorSpec, ...], expects("a list of what a failure looks like")] = ()


class ToolFile(Spec, frozen=True, kw_only=True):
    """A file of several tools."""

    provider: Annotated[ProviderSpec | None, expects("a map: what the tools share")] = None
    tools: Annotated[tuple[ToolDeclaration, ...], Meta(min_length=1), expects("a list of 1 tool or more")]


_NAME = re.compile(r"\$?\{[^{}\s]+\}")
_ADDRESS = re.compile(r"https?://[^\s/?#{}]+(?:/[^\s?#{}]*)?")
_PATH = re.compile(r"/[^\s?#{}]*")


def is_address(text: str) -> bool:
    """Whether this is the address of a server, perhaps with a path, and without a query."""
    plain = _NAME.sub("x", text)
    try:
        return bool(_ADDRESS.fullmatch(plain)) and urlsplit(plain).port != 0
    except ValueError:  # a port that is no port
        return False


def is_path(text: str) -> bool:
    """Whether this can stand behind a server's address."""
    return bool(_PATH.fullmatch(_NAME.sub("x", text)))


KINDS = ("string", "integer", "number", "boolean", "array", "object", "null")


class DeclarationProblem(FrozenValue, frozen=True):
    """A problem whose file is not known here; its path starts at the tool."""

    path: KeyPath
    expected: str
    found: str
    hint: str = ""


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError):
        return False
    return True


_Rule: TypeAlias = "tuple[str, Callable[[Any], bool]]"
_NUMBER: _Rule = ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool))
_COUNT: _Rule = (
    "a whole number, 0 or more",
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
)
_NAMES: _Rule = (
    "a list of names",
    lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
)
_TEXT: _Rule = ("a text", lambda value: isinstance(value, str))
_SHAPES: _Rule = ("a map from name to schema", lambda value: isinstance(value, Mapping))

_KEYWORDS: Mapping[str, _Rule] = {
    "enum": ("a list", lambda value: isinstance(value, list)),
    "required": _NAMES,
    **dict.fromkeys(("properties", "$defs"), _SHAPES),
    "pattern": ("a regular expression", _is_pattern),
    **dict.fromkeys(("description", "format"), _TEXT),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _COUNT),
}


def schema_problems(schema: Any, path: KeyPath = (), root: Any = None) -> Iterator[DeclarationProblem]:
    """Give the parts of a schema that are not valid JSON Schema.

    References have to lead to something within the ``root``, the schema itself: nothing is fetched for a
    check.
    """
    root = schema if root is None else root
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield DeclarationProblem(path, "a schema: a map", value_text(schema))
        return
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in KINDS:
            expected, hint = f"one of {', '.join(KINDS)}", did_you_mean(str(kind), KINDS)
            yield DeclarationProblem((*path, "type"), expected, value_text(kind), hint)
    for keyword, (expected, fits) in _KEYWORDS.items():
        if keyword in schema and not fits(schema[keyword]):
            yield DeclarationProblem((*path, keyword), expected, value_text(schema[keyword]))
    if "$ref" in schema:
        ref, target = schema["$ref"], root
        first, *steps = ref.split("/") if isinstance(ref, str) else [""]
        leads = first == "#"
        for step in (unquote(part).replace("~1", "/").replace("~0", "~") for part in steps):
            leads = leads and isinstance(target, Mapping) and step in target
            target = target[step] if leads else None
        if not leads:
            expected = "a reference within `parameters`, as #/$defs/place"
            yield DeclarationProblem((*path, "$ref"), expected, value_text(ref))
    for keyword in ("properties", "$defs"):
        if isinstance(schema.get(keyword), Mapping):
            for name, inner in schema[keyword].items():
                yield from schema_problems(inner, (*path, keyword, name), root)
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from schema_problems(schema[keyword], (*path, keyword), root)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(keyword), list):
            for index, inner in enumerate(schema[keyword]):
                yield from schema_problems(inner, (*path, keyword, index), root)


TOKEN = "token"
_INVALID_NAME = re.compile(r"(\$?)\{(?!\w+[=}])([^{}\s]+)\}")


def tool_problems(tool: ToolDeclaration, provider: ProviderSpec | None) -> Iterator[DeclarationProblem]:
    if tool.parameters.get("type") != "object":
        found = value_text(tool.parameters.get("type"))
        yield DeclarationProblem(("parameters", "type"), "object: arguments are a map", found)
        return
    wrong = list(schema_problems(tool.parameters, ("parameters",)))
    properties = tool.parameters.get("properties", {})
    for index, name in enumerate(() if wrong else tool.parameters.get("required", ())):
        if name not in properties:
            place: KeyPath = ("parameters", "required", index)
            hint = did_you_mean(name, properties)
            wrong.append(DeclarationProblem(place, "a name in `properties`", value_text(name), hint))
    yield from wrong
    # The other checks read the schema's properties, so they need a valid schema.
    if wrong:
        return
    names = tuple(properties or ())
    own_secrets = (*tool.secrets, *(provider.secrets if provider else ()))
    if tool.token:
        yield from _token_problems(tool.token, own_secrets, provider)
    secrets = (*own_secrets, TOKEN) if tool.token or (provider and provider.token) else own_secrets
    request = tool.request
    # A form is a list of fields, so its body has to be a map of them.
    form = request.body if request.body_as == "form" and request.body is not None else {}
    if not isinstance(form, Mapping) or is_chosen(form):
        expected = "a map from field to value: it is sent as a form"
        yield DeclarationProblem(("request", "body"), expected, value_text(form))
        form = {}
    url: Any = request.url.template if isinstance(request.url, Chosen) else request.url
    values: list[tuple[KeyPath, TemplateValue]] = [(("request", "url"), compile_value(url))]
    for part, pairs in (("query", request.query), ("headers", request.headers), ("body", form)):
        for key, value in pairs.items():
            if isinstance(value, Mapping) and not is_chosen(value):  # a misspelt {param, table}
                expected = "a value, {param, table} or {param, join}"
                yield DeclarationProblem(("request", part, key), expected, value_text(value))
            if part != "body":
                values.append((("request", part, key), compile_value(value)))
    for path, value in (*values, *_body_values(("request", "body"), request.body)):
        yield from _unknown_names(path, "a parameter of the tool", value.names, names)
        yield from _unknown_names(path, "a name in `secrets`", value.secrets, secrets)
    for part in ("url", "query", "headers", "body"):
        yield from _misspelt_names(("request", part), getattr(tool.request, part), names)
    yield from _result_problems(tool.result, names, ("result",))
    yield from _errors_problems(tool.errors)
    yield from _address_problems(tool, provider)
    for name, rule in tool.matching.items():
        yield from _unknown_names(("matching", name), "a parameter of the tool", (name,), names)
        tolerance = rule["number"] if isinstance(rule, Mapping) and set(rule) == {"number"} else None
        number = isinstance(tolerance, int | float) and not isinstance(tolerance, bool) and tolerance >= 0
        if not number and rule not in MATCHER_WORDS:
            expected = f"one of {', '.join(MATCHER_WORDS)}, or {{number: TOLERANCE}}"
            yield DeclarationProblem(
                ("matching", name), expected, value_text(rule), did_you_mean(str(rule), MATCHER_WORDS)
            )


def provider_problems(provider: ProviderSpec) -> Iterator[DeclarationProblem]:
    """Give what is wrong with the part that tools share; the path starts at the provider."""
    yield from _shared_part_problems(("base",), provider.base, provider.secrets)
    if not is_address(provider.base):
        yield DeclarationProblem(
            ("base",), "an address as https://host/path, without a query", value_text(provider.base)
        )
    yield from _errors_problems(provider.errors)
    secrets = provider.secrets if provider.token is None else (*provider.secrets, TOKEN)
    for part in ("query", "headers"):
        for key, given in getattr(provider, part).items():
            yield from _shared_part_problems((part, key), given, secrets)
    if provider.token is not None:
        yield from _token_problems(provider.token, provider.secrets, provider)


def _errors_problems(errors: Iterable[ErrorSpec]) -> Iterator[DeclarationProblem]:
    for index, error in enumerate(errors):
        path: KeyPath = ("errors", index)
        if not error.path and not error.pattern:
            expected = "a `path` or a `pattern`: what tells that a call failed"
            yield DeclarationProblem(path, expected, "neither")
        yield from _value_path_problems((*path, "path"), error.path)
        yield from _value_path_problems((*path, "message"), error.message)
        try:
            re.compile(error.pattern)
        except re.error as wrong:
            found = f"{error.pattern!r}: {wrong}"
            yield DeclarationProblem((*path, "pattern"), "a regular expression", found)


def _token_problems(
    token: TokenSpec, secrets: Iterable[str], provider: ProviderSpec | None
) -> Iterator[DeclarationProblem]:
    for part in ("url", "query", "headers", "body"):
        yield from _shared_part_problems(("token", part), getattr(token, part), secrets)
    yield from _url_problems(("token", "url"), token.url, provider)


def _shared_part_problems(path: KeyPath, given: Any, secrets: Iterable[str]) -> Iterator[DeclarationProblem]:
    """Check a part that is sent for every tool: it may name secrets, but no arguments."""
    value = compile_value(given)
    yield from _misspelt_names(path, given, ())
    yield from _unknown_names(path, "no parameters: the tools' own requests have them", value.names, ())
    yield from _unknown_names(path, "a name in `secrets`", value.secrets, secrets)


def _misspelt_names(path: KeyPath, given: Any, names: Iterable[str]) -> Iterator[DeclarationProblem]:
    """Find braces that look like a name but would be sent unchanged."""
    if isinstance(given, str):
        for secret, name in _INVALID_NAME.findall(given):
            if secret:
                yield DeclarationProblem(path, "a name in `secrets`", f"unknown name {name!r}")
            # Braces may be meant as text. A mistake is likely only if a parameter has this name.
            elif name in names:
                expected = f"{{param: {name}}}: in braces stand letters, digits and _"
                yield DeclarationProblem(path, expected, value_text(given))
    elif isinstance(given, Chosen):
        yield from _misspelt_names((*path, "table"), given.table, names)
    elif isinstance(given, Mapping):
        for key, value in given.items():
            yield from _misspelt_names((*path, key), value, names)
    elif isinstance(given, list | tuple):
        for index, value in enumerate(given):
            yield from _misspelt_names((*path, index), value, names)


def _body_values(path: KeyPath, body: Any) -> Iterator[tuple[KeyPath, TemplateValue]]:
    value = compile_value(body)
    if isinstance(body, dict) and hasattr(value, "inner"):
        for key, below in body.items():
            yield from _body_values((*path, key), below)
    else:
        yield path, value


def _unknown_names(
    path: KeyPath, expected: str, used: Iterable[str], names: Iterable[str]
) -> Iterator[DeclarationProblem]:
    for name in dict.fromkeys(used):
        if name not in names:
            yield DeclarationProblem(path, expected, f"unknown name {name!r}", did_you_mean(name, names))


def _address_problems(tool: ToolDeclaration, provider: ProviderSpec | None) -> Iterator[DeclarationProblem]:
    url = tool.request.url
    texts = [url] if isinstance(url, str) else list(url.table.values())
    if not texts or (isinstance(url, Chosen) and url.join is not None):
        yield DeclarationProblem(("request", "url"), "an address, or {param, table} of them", "an argument")
    for text in texts:
        yield from _url_problems(("request", "url"), str(text), provider)
        # A query's key is left out if its argument is absent; a part of an address cannot be left out.
        sure = {
            *tool.parameters.get("required", ()),
            *(name for name, shape in tool.parameters.get("properties", {}).items() if "default" in shape),
        }
        for name in compile_value(str(text)).sure_of(sure):
            expected = "required parameters, or a value for an absent one, as in {unit=1}"
            yield DeclarationProblem(("request", "url"), expected, f"the optional parameter {name!r}")


def _url_problems(path: KeyPath, url: str, provider: ProviderSpec | None) -> Iterator[DeclarationProblem]:
    if "://" not in url and not provider:
        yield DeclarationProblem(path, "an address with its host, or a `provider`", value_text(url))
    elif not (is_address(url) or is_path(url)):
        hint = "what stands behind ? belongs under `query`" if "?" in url else ""
        yield DeclarationProblem(
            path, "an address as https://host/path, or a path as /path", value_text(url), hint
        )


# A path that begins with $. or $[ is JSONPath, which is not supported.
_VALUE_PATH = re.compile(r"(?!\$[.\[])(?:[^.\[\]]+|\[\d+\])(?:\.[^.\[\]]+|\[\d+\])*")


def _result_problems(part: PartSpec, names: Collection[str], path: KeyPath) -> Iterator[DeclarationProblem]:
    yield from _value_path_problems((*path, "path"), part.path)
    for index, joined_path in enumerate(part.join):
        yield from _value_path_problems((*path, "join", index), joined_path)
    if part.where is not None:
        yield from _value_path_problems((*path, "where", "path"), part.where.path)
        yield from _unknown_parameters((*path, "where", "starts"), part.where.starts, names)
    yield from _unknown_parameters((*path, "limit"), part.limit, names)
    for key, below in (("fields", part.fields or {}), ("each", part.each or {})):
        for name, inner in below.items():
            here: KeyPath = (*path, key, name)
            if isinstance(inner, PartSpec):
                yield from _result_problems(inner, names, here)
            elif compile_value(inner).names:
                yield from _unknown_parameters(here, inner, names)
            else:
                yield from _value_path_problems(here, inner)


def _value_path_problems(path: KeyPath, given: str) -> Iterator[DeclarationProblem]:
    if given and not _VALUE_PATH.fullmatch(given):
        yield DeclarationProblem(path, "keys and indexes, as documents[0].address", value_text(given))


def _unknown_parameters(path: KeyPath, given: Any, names: Iterable[str]) -> Iterator[DeclarationProblem]:
    return _unknown_names(path, "a parameter of the tool", compile_value(given).names, names)

"""What no model can see of a declaration: whether its names are those of its parameters and secrets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pytest_agenteval.cassettes.param_matchers import WORDS
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.validation_errors import value_text
from pytest_agenteval.text.errors import KeyPath, nearest
from pytest_agenteval.tools.http.declaration import (
    Chosen,
    ErrorSpec,
    PartSpec,
    ProviderSpec,
    TokenSpec,
    ToolDeclaration,
    is_address,
    is_path,
)
from pytest_agenteval.tools.http.schema_check import SchemaComplaint, wrong_in
from pytest_agenteval.tools.http.template_values import Value, compiled, is_chosen

TOKEN = "token"

_ODD_NAME = re.compile(r"(\$?)\{(?!\w+[=}])([^{}\s]+)\}")


class DeclarationProblem(FrozenValue, frozen=True):
    """A problem whose file is not known here; the path starts at the tool."""

    path: KeyPath
    expected: str
    found: str
    hint: str = ""


def problems_of(tool: ToolDeclaration, provider: ProviderSpec | None) -> Iterator[DeclarationProblem]:
    """Give what is wrong with one tool."""
    wrong = tuple(_schema(tool.parameters))
    yield from wrong
    if wrong:
        return
    names = tuple(tool.parameters.get("properties") or ())
    own_secrets = (*tool.secrets, *(provider.secrets if provider else ()))
    if tool.token:
        yield from _token(tool.token, own_secrets, provider)
    secrets = (*own_secrets, TOKEN) if tool.token or (provider and provider.token) else own_secrets
    yield from _flat(tool)
    for path, value in _values(tool):
        yield from _unknown_names(path, "a parameter of the tool", value.names, names)
        yield from _unknown_names(path, "a name in `secrets`", value.secrets, secrets)
    for part in ("url", "query", "headers", "body"):
        yield from _misspelt(("request", part), getattr(tool.request, part), names)
    for place, *problem in wrong_in_result(tool.result, names):
        yield DeclarationProblem(("result", *place), *problem)
    yield from _errors(tool.errors)
    yield from _address(tool, provider)
    yield from _matching(tool.matching, names)


def provider_problems(provider: ProviderSpec) -> Iterator[DeclarationProblem]:
    """Give what is wrong with what tools share; the path starts at the provider."""
    yield from _of_nobody(("base",), provider.base, provider.secrets)
    if not is_address(provider.base):
        yield DeclarationProblem(
            ("base",), "an address as https://host/path, without a query", value_text(provider.base)
        )
    yield from _errors(provider.errors)
    secrets = provider.secrets if provider.token is None else (*provider.secrets, TOKEN)
    for part in ("query", "headers"):
        for key, given in getattr(provider, part).items():
            yield from _of_nobody((part, key), given, secrets)
    if provider.token is not None:
        yield from _token(provider.token, provider.secrets, provider)


def _errors(errors: Iterable[ErrorSpec]) -> Iterator[DeclarationProblem]:
    for index, error in enumerate(errors):
        for path, *problem in wrong_in_error(error):
            yield DeclarationProblem(("errors", index, *path), *problem)


def _token(
    token: TokenSpec, secrets: Iterable[str], provider: ProviderSpec | None
) -> Iterator[DeclarationProblem]:
    for part in ("url", "query", "headers", "body"):
        yield from _of_nobody(("token", part), getattr(token, part), secrets)
    yield from _place(("token", "url"), token.url, provider)


def _of_nobody(path: KeyPath, given: Any, secrets: Iterable[str]) -> Iterator[DeclarationProblem]:
    """Look at what is sent for every tool: it has secrets, but no arguments."""
    value = compiled(given)
    yield from _misspelt(path, given, ())
    yield from _unknown_names(path, "no parameters: the tools' own requests have them", value.names, ())
    yield from _unknown_names(path, "a name in `secrets`", value.secrets, secrets)


def _schema(parameters: Mapping[str, Any]) -> Iterator[DeclarationProblem]:
    if parameters.get("type") != "object":
        found = value_text(parameters.get("type"))
        yield DeclarationProblem(("parameters", "type"), "object: arguments are a map", found)
        return
    wrong = [DeclarationProblem(("parameters", *path), *problem) for path, *problem in wrong_in(parameters)]
    yield from wrong
    properties, required = parameters.get("properties", {}), parameters.get("required", ())
    for index, name in enumerate(() if wrong else required):
        if name not in properties:
            hint = nearest(name, properties)
            yield DeclarationProblem(
                ("parameters", "required", index), "a name in `properties`", value_text(name), hint
            )


def _flat(tool: ToolDeclaration) -> Iterator[DeclarationProblem]:
    """Queries and headers have no maps in them: one there is a misspelt {param, table}."""
    request = tool.request
    form = request.body if request.body_as == "form" and request.body is not None else {}
    if not isinstance(form, Mapping) or is_chosen(form):
        yield DeclarationProblem(
            ("request", "body"), "a map from field to value: it is sent as a form", value_text(form)
        )
        form = {}
    for part, pairs in (("query", request.query), ("headers", request.headers), ("body", form)):
        for key, value in pairs.items():
            if isinstance(value, Mapping) and not is_chosen(value):
                expected = "a value, {param, table} or {param, join}"
                yield DeclarationProblem(("request", part, key), expected, value_text(value))


def _misspelt(path: KeyPath, given: Any, names: Iterable[str]) -> Iterator[DeclarationProblem]:
    """Look for braces that would be sent as they stand, though they look like a name."""
    if isinstance(given, str):
        for secret, name in _ODD_NAME.findall(given):
            if secret:
                yield DeclarationProblem(path, "a name in `secrets`", f"unknown name {name!r}")
            elif name in names:
                expected = f"{{param: {name}}}: in braces stand letters, digits and _"
                yield DeclarationProblem(path, expected, value_text(given))
    elif isinstance(given, Chosen):
        yield from _misspelt((*path, "table"), given.table, names)
    elif isinstance(given, Mapping):
        for key, value in given.items():
            yield from _misspelt((*path, key), value, names)
    elif isinstance(given, list | tuple):
        for index, value in enumerate(given):
            yield from _misspelt((*path, index), value, names)


def _values(tool: ToolDeclaration) -> Iterator[tuple[KeyPath, Value]]:
    request = tool.request
    url: Any = request.url.template if isinstance(request.url, Chosen) else request.url
    yield ("request", "url"), compiled(url)
    for part in ("query", "headers"):
        for key, value in getattr(request, part).items():
            yield ("request", part, key), compiled(value)
    yield from _body_values(("request", "body"), request.body)


def _body_values(path: KeyPath, body: Any) -> Iterator[tuple[KeyPath, Value]]:
    value = compiled(body)
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
            yield DeclarationProblem(path, expected, f"unknown name {name!r}", nearest(name, names))


def _address(tool: ToolDeclaration, provider: ProviderSpec | None) -> Iterator[DeclarationProblem]:
    url = tool.request.url
    texts = [url] if isinstance(url, str) else list(url.table.values())
    if not texts or (isinstance(url, Chosen) and url.join is not None):
        yield DeclarationProblem(("request", "url"), "an address, or {param, table} of them", "an argument")
    for text in texts:
        yield from _place(("request", "url"), str(text), provider)
        sure = {
            *tool.parameters.get("required", ()),
            *(name for name, shape in tool.parameters.get("properties", {}).items() if "default" in shape),
        }
        for name in compiled(str(text)).sure_of(sure):
            expected = "required parameters, or a value for an absent one, as in {unit=1}"
            yield DeclarationProblem(("request", "url"), expected, f"the optional parameter {name!r}")


def _place(path: KeyPath, url: str, provider: ProviderSpec | None) -> Iterator[DeclarationProblem]:
    if "://" not in url and not provider:
        yield DeclarationProblem(path, "an address with its host, or a `provider`", value_text(url))
    elif not (is_address(url) or is_path(url)):
        hint = "what stands behind ? belongs under `query`" if "?" in url else ""
        yield DeclarationProblem(
            path, "an address as https://host/path, or a path as /path", value_text(url), hint
        )


def _matching(matching: Mapping[str, Any], names: Iterable[str]) -> Iterator[DeclarationProblem]:
    for name, rule in matching.items():
        yield from _unknown_names(("matching", name), "a parameter of the tool", (name,), names)
        number = isinstance(rule, Mapping) and set(rule) == {"number"} and _amount(rule["number"])
        if not number and rule not in WORDS:
            expected = f"one of {', '.join(WORDS)}, or {{number: TOLERANCE}}"
            yield DeclarationProblem(
                ("matching", name), expected, value_text(rule), nearest(str(rule), WORDS)
            )


def _amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


_PLACE = re.compile(r"(?!\$[.\[])(?:[^.\[\]]+|\[\d+\])(?:\.[^.\[\]]+|\[\d+\])*")


def wrong_in_result(part: PartSpec, names: Collection[str], path: KeyPath = ()) -> Iterator[SchemaComplaint]:
    """Give place, expected, found and hint of what no response can be made into."""
    yield from _value_path((*path, "path"), part.path)
    for index, joined_path in enumerate(part.join):
        yield from _value_path((*path, "join", index), joined_path)
    if part.where is not None:
        yield from _value_path((*path, "where", "path"), part.where.path)
        yield from _unknown_parameter((*path, "where", "starts"), part.where.starts, names)
    yield from _unknown_parameter((*path, "limit"), part.limit, names)
    for key, below in (("fields", part.fields or {}), ("each", part.each or {})):
        for name, inner in below.items():
            here: KeyPath = (*path, key, name)
            if isinstance(inner, PartSpec):
                yield from wrong_in_result(inner, names, here)
            elif compiled(inner).names:
                yield from _unknown_parameter(here, inner, names)
            else:
                yield from _value_path(here, inner)


def wrong_in_error(error: ErrorSpec) -> Iterator[SchemaComplaint]:
    """Give what is wrong with one way of telling that a call failed."""
    if not error.path and not error.pattern:
        yield (), "a `path` or a `pattern`: what tells that a call failed", "neither", ""
    yield from _value_path(("path",), error.path)
    yield from _value_path(("message",), error.message)
    try:
        re.compile(error.pattern)
    except re.error as wrong:
        yield ("pattern",), "a regular expression", f"{error.pattern!r}: {wrong}", ""


def _value_path(path: KeyPath, given: str) -> Iterator[SchemaComplaint]:
    if given and not _PLACE.fullmatch(given):
        yield path, "keys and indexes, as documents[0].address", value_text(given), ""


def _unknown_parameter(path: KeyPath, given: Any, names: Collection[str]) -> Iterator[SchemaComplaint]:
    for name in compiled(given).names:
        if name not in names:
            yield path, "a parameter of the tool", f"unknown name {name!r}", nearest(name, names)

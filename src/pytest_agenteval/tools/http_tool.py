"""HTTP tools: made of what a file declares, with the mapping from a provider's response to the result."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pytest_agenteval.cassettes.interaction import NOTHING, Request, Response, text_of
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolError
from pytest_agenteval.tasks.documents import Document, read_document, short_path
from pytest_agenteval.tasks.spec_reading import read_spec
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, UsageMistake
from pytest_agenteval.text.json_values import ABSENT, compact_json, loose_path, value_at
from pytest_agenteval.text.patterns import Pattern
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from pytest_agenteval.tools.http_declaration import (
    TOKEN,
    DeclarationProblem,
    ErrorSpec,
    PartSpec,
    ProviderSpec,
    ResultSpec,
    TokenSpec,
    ToolDeclaration,
    ToolFile,
    provider_problems,
    tool_problems,
)
from pytest_agenteval.tools.http_request import RequestTemplate, TokenRequest, ToolEndpoint
from pytest_agenteval.tools.request_values import Args, compile_value
from pytest_agenteval.tools.tool import Tool, ToolFailed, ToolResult

PROVIDER_ERROR = "provider_error"
LONGEST = 300

Picker = Callable[[Any, Args], Any]


class ResponseMapping:
    """How one tool's responses become results."""

    def __init__(self, spec: ResultSpec, errors: Sequence[ErrorSpec]) -> None:
        self._text, self._empty = spec.text, spec.empty
        self._part = _part(spec)
        self._errors = tuple(map(_ErrorRule, errors))

    def result(self, response: Response, args: Args) -> ToolResult:
        """Give what is shown, or the error that the response is."""
        text = text_of(response.body).strip().removeprefix("\ufeff")
        body = _parse_json(text)
        error = next((error for rule in self._errors if (error := rule.error_text(body, text))), "")
        if error or response.status >= 300:
            return _failure(error or f"HTTP {response.status}: {_short(text) or response.message}")
        if not text:
            return ToolResult(self._empty)
        if body is ABSENT:
            if self._text == "any" or (self._text == "xml" and text.startswith("<")):
                return ToolResult(text)
            return _failure(f"the response is not JSON: {_short(text)}")
        return ToolResult(self._part(body, args))


class _ErrorRule:
    """One way in which a body says that the call failed."""

    def __init__(self, spec: ErrorSpec) -> None:
        self._at, self._message = _at(spec.path), _at(spec.message) if spec.message else None
        self._ok, self._by_path = frozenset(map(str, spec.ok)), bool(spec.path)
        self._pattern = Pattern(spec.pattern, re.S) if spec.pattern else None

    def error_text(self, body: Any, text: str) -> str:
        """Give what the body says went wrong, or an empty text."""
        if body is ABSENT:
            match = self._pattern.search(text) if self._pattern else None
            return _short(match[match.lastindex or 0]) if match else ""
        value = self._at(body) if self._by_path else ABSENT
        if value is ABSENT or value is None or (self._ok and str(value) in self._ok):
            return ""
        message = self._message(body) if self._message else ABSENT
        code = value if isinstance(value, str | int | float) else ABSENT
        parts = [part for part in (message, code) if part is not ABSENT and part not in (None, "")]
        return _short(" / ".join(dict.fromkeys(map(str, parts))) or compact_json(value))


def _at(path: str) -> Callable[[Any], Any]:
    return partial(value_at, path=loose_path(path))


def _part(spec: PartSpec) -> Picker:
    """Chain what the part asks for: pick, keep, cut, select, drop, convert."""
    if spec.value is not None:
        return lambda body, args: spec.value
    steps: list[Picker] = [_join_step(spec) if spec.join else _pick_step(spec)]
    steps += [make(spec) for key, make in _STEPS.items() if getattr(spec, key) not in (None, ())]

    def part(body: Any, args: Args) -> Any:
        value = body
        for step in steps:
            value = step(value, args)
            if value is None:
                return None
        return value

    return part


def _pick_step(spec: PartSpec) -> Picker:
    at, default = _at(spec.path), spec.default

    def pick(body: Any, args: Args) -> Any:
        value = at(body)
        return default if value is ABSENT or value is None else value

    return pick


def _join_step(spec: PartSpec) -> Picker:
    paths = tuple(map(_at, spec.join))

    def joined(body: Any, args: Args) -> Any:
        texts = (at(body) for at in paths)
        return spec.between.join(str(text) for text in texts if text is not ABSENT and text not in (None, ""))

    return joined


def _where_step(spec: PartSpec) -> Picker:
    assert spec.where is not None
    at, starts = _at(spec.where.path), compile_value(spec.where.starts)

    def filtered(value: Any, args: Args) -> Any:
        begin = starts.write(args, str)
        prefix = "" if begin is ABSENT else str(begin)
        return (
            [item for item in value if str(at(item)).startswith(prefix)] if isinstance(value, list) else value
        )

    return filtered


def _limit_step(spec: PartSpec) -> Picker:
    limit = compile_value(spec.limit)

    def cut(value: Any, args: Args) -> Any:
        most = limit.write(args, str)
        try:
            return value[: int(most)] if isinstance(value, list) else value
        except (ValueError, TypeError):  # an argument that no schema checked, or none at all
            return value

    return cut


def _fields_step(spec: PartSpec) -> Picker:
    return _map_of(spec.fields or {})


def _each_step(spec: PartSpec) -> Picker:
    select = _map_of(spec.each or {})

    def pick_each(value: Any, args: Args) -> Any:
        return [select(item, args) for item in value] if isinstance(value, list) else value

    return pick_each


def _map_of(given: Mapping[str, str | PartSpec]) -> Picker:
    fields = {key: _field_picker(spec) for key, spec in given.items()}
    return lambda value, args: {key: field(value, args) for key, field in fields.items()}


def _field_picker(given: str | PartSpec) -> Picker:
    if isinstance(given, PartSpec):
        return _part(given)
    named = compile_value(given)
    if named.names:
        return lambda body, args: None if (value := named.write(args, str)) is ABSENT else value
    return _pick_step(PartSpec(path=given))


def _drop_step(spec: PartSpec) -> Picker:
    keys = frozenset(spec.drop)

    def without(value: Any, args: Args) -> Any:
        if isinstance(value, dict):
            return {key: without(inner, args) for key, inner in value.items() if key not in keys}
        return [without(item, args) for item in value] if isinstance(value, list) else value

    return without


def _convert_step(spec: PartSpec) -> Picker:
    assert spec.convert is not None
    convert = _CONVERT[spec.convert]

    def converted(value: Any, args: Args) -> Any:
        try:
            return convert(value)
        except (ValueError, TypeError):
            return value

    return converted


def _scale_step(spec: PartSpec) -> Picker:
    times = spec.times or 1.0
    return lambda value, args: value * times if isinstance(value, int | float) else value


def _number(value: Any) -> int | float:
    text = str(value).strip().replace(",", "")
    return int(text) if text.lstrip("+-").isdigit() else float(text)


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "number": _number,
    "integer": lambda value: int(_number(value)),
    "text": lambda value: value if isinstance(value, str) else compact_json(value),
    "count": len,
}
_STEPS: dict[str, Callable[[PartSpec], Picker]] = {
    "where": _where_step,
    "limit": _limit_step,
    "fields": _fields_step,
    "each": _each_step,
    "drop": _drop_step,
    "convert": _convert_step,
    "times": _scale_step,
}


def _parse_json(text: str) -> Any:
    """Read JSON, also as older providers write it: with a last semicolon and with quotes escaped."""
    older = text.rstrip("; \n").replace("\\'", "'") if text.startswith(("{", "[")) else ""
    for source, strict in ((text, True), (older, False)):
        try:
            return json.loads(source, strict=strict)
        except (ValueError, RecursionError):
            continue
    return ABSENT


def _failure(message: str) -> ToolResult:
    return ToolResult(error=ToolError(PROVIDER_ERROR, message))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


class HttpWire:
    """The wire of one declared tool; see the protocol ``Wire``.

    A ``base`` takes the place of the provider's address where requests are really sent: for tests and
    proxies. What is written down keeps the provider's own.
    """

    def __init__(self, declared: ToolDeclaration, provider: ProviderSpec | None, base: str = "") -> None:
        self._template = RequestTemplate(declared.request, provider, declared.parameters)
        token_spec = declared.token or (provider.token if provider else None)
        token = None if token_spec is None else _token_request(token_spec, provider)
        name = provider.name if provider else ""
        self._endpoint = ToolEndpoint(declared.name, name, self._template, token, base)
        errors = (*declared.errors, *(provider.errors if provider else ()))
        self._mapping = ResponseMapping(declared.result, errors)
        templates = (self._template, *([token.template] if token else []))
        variables = (name for template in templates for value in template.values for name in value.secrets)
        self._secrets = tuple(name for name in dict.fromkeys(variables) if name != TOKEN)
        KNOWN_SECRETS.know_variables(
            (*self._secrets, *declared.secrets, *(provider.secrets if provider else ()))
        )

    def request(self, args: Mapping[str, Any]) -> Request:
        """Write a call as the request that asks the provider, with defaults filled in and no secret."""
        return self._template.request(args)

    def args(self, request: Request) -> dict[str, Any]:
        """Read the arguments back out of a request of this tool."""
        return self._template.args(request)

    def result(self, response: Response, args: Mapping[str, Any] = NOTHING) -> ToolResult:
        """Make of the response to a call what the agent is shown; what says that it failed is an error."""
        return self._mapping.result(response, self._template.filled(args))

    async def send(self, args: Mapping[str, Any]) -> Response:
        """Really ask the provider; raises ToolFailed where it is out of reach, UsageMistake without a key."""
        from pytest_agenteval.tools.http_request import send_call

        self._need_secrets()
        response = await send_call(self._endpoint, args)
        headers = {name: value for name, value in response.headers.items() if name.lower() == "content-type"}
        return Response(response.status, response.message, headers, response.body)

    def _need_secrets(self) -> None:
        missing = [name for name in self._secrets if not os.environ.get(name)]
        if missing:
            names = " and ".join(f"${name}" for name in missing)
            raise UsageMistake(
                f"the tool {self._endpoint.tool!r} asks its provider, which takes {names}: not set"
            )


def _token_request(spec: TokenSpec, provider: ProviderSpec | None) -> TokenRequest:
    return TokenRequest(RequestTemplate(spec, provider, {}), spec.path, spec.expires, spec.lasts)


def http_tool(declared: ToolDeclaration, provider: ProviderSpec | None = None, base: str = "") -> Tool:
    """Make the tool of a declaration."""
    wire = HttpWire(declared, provider, base)

    async def ask(args: Mapping[str, Any]) -> Any:
        result = wire.result(await wire.send(args), args)
        if result.error is not None:
            raise ToolFailed(result.error.message, result.error.type)
        return result.value

    spec = ToolSpec(
        declared.name,
        declared.description.strip(),
        declared.parameters,
        checked=declared.checked,
        taped=True,
        blocking=False,
    )
    return Tool(spec, ask, wire=wire, matching=declared.matching)


def read_tools(path: Path, bases: Mapping[str, str] | None = None) -> dict[str, Tool]:
    """Give the tools that a file declares, in its order."""
    return declared_tools(read_document(path), bases)


def declared_tools(document: Document, bases: Mapping[str, str] | None = None) -> dict[str, Tool]:
    """Give the tools that a document declares; it holds one tool, or ``tools`` with a ``provider``."""
    declared = read_declarations(document)
    return {
        declaration.name: http_tool(
            declaration, provider, (bases or {}).get(provider.name, "") if provider else ""
        )
        for declaration, provider in declared
    }


def read_declarations(document: Document) -> list[tuple[ToolDeclaration, ProviderSpec | None]]:
    """Give what a document declares, or raise every problem in it."""
    value = document.value
    several = isinstance(value, dict) and not {"tools", "provider"}.isdisjoint(value)
    declared = (
        read_spec(ToolFile, document) if several else ToolFile(tools=(read_spec(ToolDeclaration, document),))
    )
    tools, provider = declared.tools, declared.provider
    problems = list(_problems(document, tools, provider, several))
    if problems:
        raise ProblemsFound(sorted(problems, key=lambda problem: problem.line or 0))
    return [(tool, provider) for tool in tools]


def _problems(
    document: Document,
    tools: tuple[ToolDeclaration, ...],
    provider: ProviderSpec | None,
    several: bool,
) -> Iterator[Problem]:
    if provider is not None:
        yield from (_at_line(document, ("provider",), problem) for problem in provider_problems(provider))
    first: dict[str, int] = {}
    for index, tool in enumerate(tools):
        place: KeyPath = ("tools", index) if several else ()
        for problem in tool_problems(tool, provider):
            yield _at_line(document, place, problem)
        if first.setdefault(tool.name, index) != index:
            name_in_use = f"{tool.name!r}, which tools[{first[tool.name]}] has too"
            yield _at_line(document, place, DeclarationProblem(("name",), "a name of its own", name_in_use))


def _at_line(document: Document, place: KeyPath, problem: DeclarationProblem) -> Problem:
    path = (*place, *problem.path)
    line = document.line_of(path)
    return Problem(short_path(document.path), line, path, problem.expected, problem.found, problem.hint)

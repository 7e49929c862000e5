"""HTTP tools, made from the declarations of a file, and the mapping from responses to results."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pytest_agenteval.cassettes.interaction import NOTHING, Request, Response, text_of
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolError
from pytest_agenteval.tasks.documents import ParsedDocument, read_document, short_path
from pytest_agenteval.tasks.validation import read_spec
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
    ToolDeclaration,
    ToolFile,
    provider_problems,
    tool_problems,
)
from pytest_agenteval.tools.http_request import RequestTemplate, exchange, forget_token, token_of
from pytest_agenteval.tools.request_values import Args, compile_value
from pytest_agenteval.tools.tool import Tool, ToolFailed, ToolResult

PROVIDER_ERROR = "provider_error"
LONGEST = 300

Picker = Callable[[Any, Args], Any]


class ResponseMapping:
    """How one tool's responses become results."""

    def __init__(self, spec: ResultSpec, errors: Sequence[ErrorSpec]) -> None:
        self._text, self._empty = spec.text, spec.empty
        self._part = _Part(spec)
        self._errors = tuple(map(_ErrorRule, errors))

    def result(self, response: Response, args: Args) -> ToolResult:
        # Some servers begin JSON with a byte order mark.
        text = text_of(response.body).strip().removeprefix("\ufeff")
        body = _parse_json(text)
        error = next((error for rule in self._errors if (error := rule.error_text(body, text))), "")
        # Redirects are not followed, since keys would go with them, and their text is no answer.
        if error or response.status >= 300:
            return _failure(error or f"HTTP {response.status}: {_short(text) or response.message}")
        if not text:
            return ToolResult(self._empty)
        # A page of a proxy must not be shown as a result.
        if body is ABSENT:
            if self._text == "any" or (self._text == "xml" and text.startswith("<")):
                return ToolResult(text)
            return _failure(f"the response is not JSON: {_short(text)}")
        return ToolResult(self._part.pick(body, args))


class _ErrorRule:
    """One form in which a body reports that the call failed."""

    def __init__(self, spec: ErrorSpec) -> None:
        self._at, self._message = _at(spec.path), _at(spec.message) if spec.message else None
        self._ok, self._by_path = frozenset(map(str, spec.ok)), bool(spec.path)
        self._pattern = Pattern(spec.pattern, re.S) if spec.pattern else None

    def error_text(self, body: Any, text: str) -> str:
        """Give the error that the body reports, or an empty text."""
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


class _Part:
    """A value that the agent is shown, made from the response by the steps of a part in a fixed order."""

    def __init__(self, spec: PartSpec) -> None:
        self._spec, self._at = spec, _at(spec.path)
        self._joined = tuple(map(_at, spec.join))
        self._where = None if spec.where is None else (_at(spec.where.path), compile_value(spec.where.starts))
        self._limit = compile_value(spec.limit)
        self._fields = {key: _picker(it) for key, it in (spec.fields or {}).items()}
        self._each = {key: _picker(it) for key, it in (spec.each or {}).items()}

    def pick(self, body: Any, args: Args) -> Any:
        spec = self._spec
        if spec.value is not None:
            return spec.value
        if spec.join:
            parts = (at(body) for at in self._joined)
            texts = (str(part) for part in parts if part is not ABSENT and part not in (None, ""))
            value: Any = spec.between.join(texts)
        else:
            value = self._at(body)
            value = spec.default if value is ABSENT or value is None else value
        if value is None:
            return None
        if isinstance(value, list):
            value = self._items(value, args)
        if spec.fields is not None:
            value = {key: pick(value, args) for key, pick in self._fields.items()}
        if spec.each is not None and isinstance(value, list):
            value = [{key: pick(item, args) for key, pick in self._each.items()} for item in value]
        value = _without_keys(value, spec.drop) if spec.drop else value
        if spec.convert is not None:
            with suppress(ValueError, TypeError):
                value = _CONVERT[spec.convert](value)
        if spec.times is not None and isinstance(value, int | float):
            return value * (spec.times or 1.0)
        return value

    def _items(self, items: list[Any], args: Args) -> list[Any]:
        if self._where is not None:
            at, starts = self._where
            begin = starts.write(args, str)
            prefix = "" if begin is ABSENT else str(begin)
            items = [item for item in items if str(at(item)).startswith(prefix)]
        if self._spec.limit is not None:
            with suppress(ValueError, TypeError):  # an argument that no schema checked, or none at all
                items = items[: int(self._limit.write(args, str))]
        return items


def _picker(given: str | PartSpec) -> Picker:
    if isinstance(given, PartSpec):
        return _Part(given).pick
    named = compile_value(given)
    if named.names:
        return lambda body, args: None if (value := named.write(args, str)) is ABSENT else value
    return _Part(PartSpec(path=given)).pick


def _without_keys(value: Any, keys: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without_keys(inner, keys) for key, inner in value.items() if key not in keys}
    return [_without_keys(item, keys) for item in value] if isinstance(value, list) else value


def _number(value: Any) -> int | float:
    text = str(value).strip().replace(",", "")
    return int(text) if text.lstrip("+-").isdigit() else float(text)


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "number": _number,
    "integer": lambda value: int(_number(value)),
    "text": lambda value: value if isinstance(value, str) else compact_json(value),
    "count": len,
}


def _parse_json(text: str) -> Any:
    """Read JSON; also as older providers write it, with a semicolon at the end or escaped quotes."""
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

    A ``base`` replaces the provider's address when requests are really sent, for tests and proxies.
    Recordings hold the provider's own address.
    """

    def __init__(self, declared: ToolDeclaration, provider: ProviderSpec | None, base: str = "") -> None:
        self._tool, self._base = declared.name, base
        self._provider = provider.name if provider else ""
        self.template = RequestTemplate(declared.request, provider, declared.parameters)
        self._token = declared.token or (provider.token if provider else None)
        self._token_template = None if self._token is None else RequestTemplate(self._token, provider, {})
        templates = [self.template, *([self._token_template] if self._token_template else [])]
        sent = dict.fromkeys(name for each in templates for value in each.values for name in value.secrets)
        self._secrets = tuple(name for name in sent if name != TOKEN)
        errors = (*declared.errors, *(provider.errors if provider else ()))
        self._mapping = ResponseMapping(declared.result, errors)
        KNOWN_SECRETS.know_variables(
            (*self._secrets, *declared.secrets, *(provider.secrets if provider else ()))
        )

    def request(self, args: Mapping[str, Any]) -> Request:
        return self.template.request(args)

    def result(self, response: Response, args: Mapping[str, Any] = NOTHING) -> ToolResult:
        return self._mapping.result(response, self.template.filled(args))

    async def send(self, args: Mapping[str, Any]) -> Response:
        missing = [name for name in self._secrets if not os.environ.get(name)]
        if missing:
            names = " and ".join(f"${name}" for name in missing)
            raise UsageMistake(
                f"the tool {self._tool!r} needs {names} for its provider: not set in the environment"
            )
        variable = "AGENTEVAL_TOOLS_BASE_" + self._provider.upper().replace("-", "_")
        base = self._base or (os.environ.get(variable, "") if self._provider else "")
        if self._token is None or self._token_template is None:
            return await exchange(self.template, args, os.environ, base)
        who = self._provider or self._tool
        key, token = await token_of(self._token_template, self._token, base, who)
        response = await exchange(self.template, args, {**os.environ, TOKEN: token}, base)
        if response.status == 401:
            forget_token(key)
        return response


def http_tool(declared: ToolDeclaration, provider: ProviderSpec | None = None, base: str = "") -> Tool:
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


def declared_tools(document: ParsedDocument, bases: Mapping[str, str] | None = None) -> dict[str, Tool]:
    """Give the tools of a document, which holds one tool, or ``tools`` with a ``provider``."""
    value = document.value
    several = isinstance(value, dict) and not {"tools", "provider"}.isdisjoint(value)
    if several:
        declared = read_spec(ToolFile, document)
    else:
        declared = ToolFile(tools=(read_spec(ToolDeclaration, document),))
    tools, provider = declared.tools, declared.provider
    problems = list(_problems(document, tools, provider, several))
    if problems:
        raise ProblemsFound(sorted(problems, key=lambda problem: problem.line or 0))
    base = (bases or {}).get(provider.name, "") if provider else ""
    return {tool.name: http_tool(tool, provider, base) for tool in tools}


def _problems(
    document: ParsedDocument, tools: tuple[ToolDeclaration, ...], provider: ProviderSpec | None, several: bool
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


def _at_line(document: ParsedDocument, place: KeyPath, problem: DeclarationProblem) -> Problem:
    path = (*place, *problem.path)
    line = document.line_of(path)
    return Problem(short_path(document.path), line, path, problem.expected, problem.found, problem.hint)

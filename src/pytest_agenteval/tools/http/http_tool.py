"""Declared tools: what a file declares as tools that can be called, or every problem in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.cassettes.interaction import NOTHING, Request, Response
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.tasks.documents import Document, read_document, short_path
from pytest_agenteval.tasks.spec_reading import read_spec
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, UsageMistake
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS
from pytest_agenteval.tools.http.declaration import ProviderSpec, TokenSpec, ToolDeclaration, ToolFile
from pytest_agenteval.tools.http.declaration_check import (
    TOKEN,
    DeclarationProblem,
    problems_of,
    provider_problems,
)
from pytest_agenteval.tools.http.request_template import Endpoint, RequestTemplate, TokenRequest
from pytest_agenteval.tools.http.response_mapping import ResponseMapping
from pytest_agenteval.tools.tool import Tool, ToolFailed, ToolResult


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
        self._endpoint = Endpoint(declared.name, name, self._template, token, base)
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
        from pytest_agenteval.tools.http.http_client import send

        self._need_secrets()
        response = await send(self._endpoint, args)
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
    return tools_of(read_document(path), bases)


def tools_of(document: Document, bases: Mapping[str, str] | None = None) -> dict[str, Tool]:
    """Give the tools that a document declares; it holds one tool, or ``tools`` with a ``provider``."""
    declared = declarations(document)
    return {
        declaration.name: http_tool(
            declaration, provider, (bases or {}).get(provider.name, "") if provider else ""
        )
        for declaration, provider in declared
    }


def declarations(document: Document) -> list[tuple[ToolDeclaration, ProviderSpec | None]]:
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
        for problem in problems_of(tool, provider):
            yield _at_line(document, place, problem)
        if first.setdefault(tool.name, index) != index:
            name_in_use = f"{tool.name!r}, which tools[{first[tool.name]}] has too"
            yield _at_line(document, place, DeclarationProblem(("name",), "a name of its own", name_in_use))


def _at_line(document: Document, place: KeyPath, problem: DeclarationProblem) -> Problem:
    path = (*place, *problem.path)
    line = document.line_of(path)
    return Problem(short_path(document.path), line, path, problem.expected, problem.found, problem.hint)

"""Reading a file of tool declarations: its tools, or every problem in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from pytest_agenteval.errors import KeyPath, Problem, ProblemsFound
from pytest_agenteval.tasks.documents import Document, read_document, shown
from pytest_agenteval.tasks.validation_errors import explain
from pytest_agenteval.tools.http.checking import Found, problems_of, provider_problems
from pytest_agenteval.tools.http.declaration import ProviderSpec, ToolDeclaration, ToolFile
from pytest_agenteval.tools.http.wire import http_tool
from pytest_agenteval.tools.tool import Tool


def read_tools(path: Path, bases: Mapping[str, str] | None = None) -> dict[str, Tool]:
    """Give the tools that a file declares, in its order."""
    return tools_of(read_document(path), bases)


def tools_of(document: Document, bases: Mapping[str, str] | None = None) -> dict[str, Tool]:
    """Give the tools that a document declares; it holds one tool, or ``tools`` with a ``provider``."""
    declared = declarations(document)
    return {
        one.name: http_tool(one, provider, (bases or {}).get(provider.name, "") if provider else "")
        for one, provider in declared
    }


def declarations(document: Document) -> list[tuple[ToolDeclaration, ProviderSpec | None]]:
    """Give what a document declares, or raise every problem in it."""
    value = document.value
    several = isinstance(value, dict) and not {"tools", "provider"}.isdisjoint(value)
    model: type[BaseModel] = ToolFile if several else ToolDeclaration
    try:
        read = model.model_validate(value)
    except ValidationError as error:
        raise ProblemsFound(explain(error, document, shown(document.path), (), shape(model))) from None
    assert isinstance(read, ToolFile | ToolDeclaration)
    tools = (read,) if isinstance(read, ToolDeclaration) else read.tools
    provider = None if isinstance(read, ToolDeclaration) else read.provider
    found = list(_problems(document, tools, provider, several))
    if found:
        raise ProblemsFound(sorted(found, key=lambda problem: problem.line or 0))
    return [(tool, provider) for tool in tools]


def _problems(
    document: Document,
    tools: tuple[ToolDeclaration, ...],
    provider: ProviderSpec | None,
    several: bool,
) -> Iterator[Problem]:
    if provider is not None:
        yield from (_placed(document, ("provider",), found) for found in provider_problems(provider))
    first: dict[str, int] = {}
    for index, tool in enumerate(tools):
        place: KeyPath = ("tools", index) if several else ()
        for found in problems_of(tool, provider):
            yield _placed(document, place, found)
        if first.setdefault(tool.name, index) != index:
            taken = f"{tool.name!r}, which tools[{first[tool.name]}] has too"
            yield _placed(document, place, Found(("name",), "a name of its own", taken))


def _placed(document: Document, place: KeyPath, found: Found) -> Problem:
    path = (*place, *found.path)
    line = document.line_of(path)
    return Problem(shown(document.path), line, path, found.expected, found.found, found.hint)


@cache
def shape(model: type[BaseModel]) -> dict[str, Any]:
    """Give a model's JSON Schema, whose descriptions are what errors expect."""
    return model.model_json_schema()

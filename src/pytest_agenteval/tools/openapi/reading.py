"""Reading a file that names operations of an OpenAPI document: their tools, or every problem."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.tasks.documents import Document, read_document, short_path
from pytest_agenteval.tasks.spec_reading import read_spec
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, nearest
from pytest_agenteval.tools.http.declaration import ProviderSpec, is_address
from pytest_agenteval.tools.http.declaration_check import problems_of, provider_problems
from pytest_agenteval.tools.http.http_tool import http_tool
from pytest_agenteval.tools.openapi.operation import OpenApiFile, OperationSpec, declaration, name_of
from pytest_agenteval.tools.openapi.source import OpenApiSource, Operation, keys_of
from pytest_agenteval.tools.tool import Tool

_OURS = ("matching", "errors", "result")
"""What an author says of an operation; all else is the document's."""


def openapi_tools(document: Document) -> tuple[dict[str, Tool], tuple[Path, ...]]:
    """Give the tools of a file, and all files that were read for them."""
    read = read_spec(OpenApiFile, document)
    source = _source(document, read)
    made = [*_shared(document, read), *_make_tools(document, source, read)]
    problems = [outcome for outcome in made if isinstance(outcome, Problem)]
    if problems:
        raise ProblemsFound(problems)
    tools = [outcome for outcome in made if isinstance(outcome, Tool)]
    files = dict.fromkeys((document.path, source.document.path))
    return {tool.spec.name: tool for tool in tools}, tuple(files)


def _source(document: Document, read: OpenApiFile) -> OpenApiSource:
    if not isinstance(read.openapi, str):
        return OpenApiSource(document, ("openapi",))
    path = document.path.parent / read.openapi
    if not path.is_file():
        line = document.line_of(("openapi",))
        found = f"{read.openapi!r}, which is not there"
        expected = "the path of an OpenAPI document, from this file's folder"
        raise ProblemsFound([Problem(short_path(document.path), line, ("openapi",), expected, found)])
    return OpenApiSource(read_document(path))


def _shared(document: Document, read: OpenApiFile) -> Iterator[Problem]:
    """Look at what the file says of all its operations."""
    provider = ProviderSpec(name="shared", base=read.base or "https://server", errors=read.errors)
    for wrong in provider_problems(provider):
        yield _problem(document, wrong.path, wrong.expected, wrong.found, wrong.hint)


def _make_tools(document: Document, source: OpenApiSource, read: OpenApiFile) -> Iterator[Tool | Problem]:
    by_name: dict[str, Operation] = {}
    again: set[str] = set()
    for operation in source.operations():
        again.update(name for name in operation.names if name in by_name)
        by_name.update(dict.fromkeys(operation.names, operation))
    names: set[str] = set()
    for index, given in enumerate(read.operations):
        spec = given if isinstance(given, OperationSpec) else OperationSpec(id=given)
        place: KeyPath = ("operations", index, *(("id",) if isinstance(given, OperationSpec) else ()))
        if spec.id not in by_name:
            found = f"unknown operation {spec.id!r}"
            yield _problem(document, place, _list_some(by_name), found, nearest(spec.id, by_name))
            continue
        operation = by_name[spec.id]
        if spec.id in again:
            yield _problem(
                document, place, "the id of one operation, or as `GET /path`", f"{spec.id!r} of two"
            )
            continue
        if not name_of(operation, spec):
            yield _problem(document, place, "a `name`: of letters, digits, _ or -", f"only {spec.id!r}")
            continue
        declared = declaration(source, operation, spec, keys_of(source, operation, read.security))
        provider = _provider(document, source, operation, read)
        for wrong in problems_of(declared, provider):
            where = (*place[:2], *wrong.path) if wrong.path[0] in _OURS else place
            yield _problem(document, where, wrong.expected, wrong.found, wrong.hint)
        if declared.name in names:
            yield _problem(document, place, "a name of its own: say `name`", f"{declared.name!r} again")
        names.add(declared.name)
        yield http_tool(declared, provider)


def _provider(
    document: Document, source: OpenApiSource, operation: Operation, read: OpenApiFile
) -> ProviderSpec:
    name = read.name or re.sub(r"[^A-Za-z0-9_-]+", "_", document.path.stem)
    return ProviderSpec(name=name, base=read.base or _server(source, operation), errors=read.errors)


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


def _list_some(by_name: dict[str, Operation]) -> str:
    idents = dict.fromkeys(operation.names[0] for operation in by_name.values())
    shown_ones = ", ".join(list(idents)[:12])
    return f"one of {shown_ones}{', …' if len(idents) > 12 else ''}"


def _problem(document: Document, place: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
    return Problem(short_path(document.path), document.line_of(place), place, expected, found, hint)

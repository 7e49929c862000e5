"""Whatever public signatures are made of can be imported by its name, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest_agenteval
from tests.source_code import parsed

PACKAGE = Path(pytest_agenteval.__file__).parent
MADE_BY_US = {
    "ToolBox.__init__",
    "ToolBox.open_tape",
    "AgentEval.__init__",
    "Recording.__init__",
    "Suite.__init__",
}
"""The engine alone makes boxes and asks them for their tape; the rest is made by fixtures and functions."""

Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


def _tree(module: str) -> ast.Module:
    return parsed(PACKAGE / f"{module.replace('.', '/')}.py")


@cache
def _definitions(module: str) -> dict[str, ast.stmt]:
    """Give the classes, functions and constants of a module by name."""
    definitions: dict[str, ast.stmt] = {}
    for node in _tree(module).body:
        if isinstance(node, (ast.ClassDef, *Functions)):
            definitions[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            definitions[ast.unparse(target)] = node
    return definitions


@cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """Give what a module imports of ours, by its name there: module below the package, and name."""
    return {
        alias.asname or alias.name: (node.module.removeprefix("pytest_agenteval."), alias.name)
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pytest_agenteval.")
        for alias in node.names
    }


def _signatures(node: ast.stmt, name: str) -> Iterator[tuple[str, ast.expr]]:
    """Give the annotations of a function or a class, or what an alias stands for."""
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            yield from _members(inner, name)
    elif isinstance(node, Functions):
        yield from ((name, annotation) for annotation in _annotations(node))
    elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias" and node.value:
        yield name, node.value


def _classes(module: str, name: str) -> Iterator[tuple[str, ast.stmt]]:
    """Give what a public name stands for, with its module; below a class the bases that are not public."""
    definition = _definitions(module)[name]
    yield module, definition
    for base in definition.bases if isinstance(definition, ast.ClassDef) else ():
        where, own_name = _imports(module).get(ast.unparse(base), (module, ast.unparse(base)))
        if own_name not in pytest_agenteval._MODULE_OF and own_name in _definitions(where):
            yield from _classes(where, own_name)


def _members(node: ast.stmt, name: str) -> Iterator[tuple[str, ast.expr]]:
    """Give the annotations of a class's field or method, if it is public."""
    if isinstance(node, Functions):
        place = f"{name}.{node.name}"
        if place not in MADE_BY_US and (node.name == "__init__" or not node.name.startswith("_")):
            yield from _signatures(node, place)
    elif isinstance(node, ast.AnnAssign):
        field = ast.unparse(node.target)
        if not field.startswith("_"):
            yield f"{name}.{field}", node.annotation


def _annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.annotation is not None:
            yield argument.annotation
    if function.returns is not None:
        yield function.returns


def _hidden_classes(module: str, annotation: ast.expr) -> Iterator[str]:
    """Give the classes of ours in an annotation that are not public; aliases are what they stand for."""
    for name in _names(annotation) - pytest_agenteval._MODULE_OF.keys():
        where, own_name = _imports(module).get(name, (module, name))
        definition = _definitions(where).get(own_name)
        if isinstance(definition, ast.ClassDef):
            yield name
        elif isinstance(definition, ast.Assign | ast.AnnAssign) and definition.value not in (
            annotation,
            None,
        ):
            yield from _hidden_classes(where, definition.value)


def _names(annotation: ast.expr) -> set[str]:
    """Give the names in an annotation; those of one in quotes, too."""
    return set(re.findall(r"[A-Za-z_]\w*", ast.unparse(annotation)))


def test_types_in_public_signatures_are_public() -> None:
    """Whoever annotates what they are given, or make, finds its name where all others are."""
    hidden = {
        f"{place}: {hidden}"
        for name, module in pytest_agenteval._MODULE_OF.items()
        for where, definition in _classes(module, name)
        for place, annotation in _signatures(definition, name)
        for hidden in _hidden_classes(where, annotation)
    }
    assert hidden == set()

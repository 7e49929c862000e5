"""Imports inside functions: of several threads any may be the first to need a library."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

from tests.source_code import MODULES, parsed, place, text

LOADED_BEFORE = {"litellm", "aiohttp", "_pytest"}
"""One behind a lock of ours, one by whoever uses it, one by pytest."""


def _from_within(name: str) -> bool:
    """Whether a module lies inside a library that may not be loaded yet."""
    outermost = name.partition(".")[0]
    known = outermost in sys.stdlib_module_names | LOADED_BEFORE | {"pytest_agenteval"}
    return name != outermost and not known


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _into_the_middle(function: ast.AST) -> Iterator[tuple[int, str]]:
    """Give imports from within a package whose outermost module was not imported before them."""
    whole: set[str] = set()
    for node in ast.walk(function):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for name in names:
            whole.add(name)
            if _from_within(name) and name.partition(".")[0] not in whole:
                yield getattr(node, "lineno", 0), name


def test_a_library_is_entered_by_its_front_door() -> None:
    """Two threads that begin at different modules of a package see each other's half-made ones."""
    found = [
        f"{place(path)}:{line}: {name}"
        for path in MODULES
        if any(map(_from_within, re.findall(r"(?m)^[ ]+(?:from|import) ([\w.]+)", text(path))))
        for function in _functions(parsed(path))
        for line, name in _into_the_middle(function)
    ]
    assert found == []


AT_ONCE = """
import sys, threading
sys.setswitchinterval(1e-6)
from pytest_agenteval.graders.answers import check_schema, schema_problems
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.tools.tool import invalid_arguments

assert "jsonschema" not in sys.modules
failed, schema = [], {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}}

def tried(work):
    try:
        gate.wait()
        work()
    except BaseException as raised:
        failed.append(raised)

works = [
    lambda: check_schema("s", schema),
    lambda: invalid_arguments(ToolSpec("t", parameters=schema), {"a": 1}),
    lambda: schema_problems(schema, {"a": 1}),
] * 3
gate = threading.Barrier(len(works))
threads = [threading.Thread(target=tried, args=(work,)) for work in works]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
sys.exit(repr(failed) if failed else 0)
"""


def test_threads_that_check_schemas_first_all_can() -> None:
    """Whoever comes first loads the library, and the others wait for all of it."""
    subprocess.run([sys.executable, "-c", AT_ONCE], check=True, timeout=60)

"""Calls without marks: a reply that is nothing but calls, as JSON or Python, of tools that are offered."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from pytest_agenteval.chat.local.written.written_call import (
    CallsInText,
    WrittenCall,
    json_calls,
    json_text,
    parameters_of,
)
from pytest_agenteval.records.tool import ToolSpec

MOST_CODE = 20_000
FENCED = re.compile(
    r"```(?P<kind>tool_code|tool_call|json|python)[^\S\n]*\n(?P<body>.*?)(?:```|\Z)", re.DOTALL
)
_CODE_KINDS = ("tool_code", "python")
_MODULES = ("default_api",)


def bare_json(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read a reply that is JSON alone, as Llama 3 writes its calls."""
    if not text.strip().startswith(("{", "[")):
        return None
    return _offered(json_calls(text), tools, "")


def bare_python(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``[weather(city="Oslo"), now()]``, as Llama 3.2, Llama 4 and Gemma 3 write their calls."""
    plain = text.strip().removeprefix("<|python_start|>").removesuffix("<|python_end|>").strip()
    return _offered(tuple(python_calls(plain, tools)), tools, "") if plain.startswith("[") else None


def fenced(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read a fenced block of calls, as Gemma 2 and 3 write them: Python in ``tool_code``, or JSON."""
    match = FENCED.search(text)
    if match is None:
        return None
    code = match["kind"] in _CODE_KINDS
    calls = tuple(python_calls(match["body"], tools)) if code else json_calls(match["body"])
    return _offered(calls, tools, text[: match.start()] + text[match.end() :])


def _offered(calls: tuple[WrittenCall, ...], tools: Collection[ToolSpec], rest: str) -> CallsInText | None:
    """Give the calls where each is of a tool that is offered: else what looks like one is an answer."""
    names = {tool.name for tool in tools}
    return CallsInText(calls, rest) if calls and all(call.tool in names for call in calls) else None


def python_calls(code: str, tools: Collection[ToolSpec]) -> Iterator[WrittenCall]:
    """Read calls with plain values from Python; nothing at all where any of it is something else."""
    if len(code) > MOST_CODE:
        return
    try:
        body = ast.parse(code.strip()).body
        calls = [call for statement in body for call in _calls_in(statement, tools)]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return
    yield from calls


def _calls_in(statement: ast.stmt, tools: Collection[ToolSpec]) -> Iterator[WrittenCall]:
    if not isinstance(statement, ast.Expr | ast.Assign):
        raise ValueError("a statement that is no call")
    node = statement.value
    for element in node.elts if isinstance(node, ast.List | ast.Tuple) else [node]:
        yield _python_call(element, tools)


def _python_call(node: ast.expr, tools: Collection[ToolSpec]) -> WrittenCall:
    if not isinstance(node, ast.Call):
        raise ValueError("no call")
    name = ast.unparse(node.func)
    if name == "print" and len(node.args) == 1:
        return _python_call(node.args[0], tools)
    module, _, plain = name.rpartition(".")
    if module in _MODULES:
        name = plain
    keys = list(parameters_of(tools, name))
    if len(node.args) > len(keys):
        raise ValueError("more values than the tool has parameters")
    values = dict(zip(keys, node.args, strict=False))
    values |= {keyword.arg or "": keyword.value for keyword in node.keywords}
    return WrittenCall(name, json_text({key: ast.literal_eval(value) for key, value in values.items()}))

"""A tool call in the words of a model, and JSON as models write it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from pytest_agenteval.records.tool import DEEPEST, ToolSpec

NAME_KEYS = ("name", "tool_name", "function")
ARGUMENT_KEYS = ("arguments", "parameters", "args")

_BETWEEN = re.compile(r"[\s,;]*")
_NAME = re.compile(r'"(?:name|tool_name|function)"\s*:\s*"([^"\\\n]+)"')
_ARGUMENTS = re.compile(r'"(?:arguments|parameters|args)"\s*:\s*')
_decoder = json.JSONDecoder()


class WrittenCall(NamedTuple):
    """A call as it was written: the tool's name, and the text of its arguments, JSON where all is well."""

    tool: str
    arguments: str


class CallsInText(NamedTuple):
    """The calls of a reply, in the order in which they are written, and what else it says."""

    calls: tuple[WrittenCall, ...]
    text: str


def json_text(value: object) -> str:
    """Write a value as JSON; what is not JSON's, such as NaN, is told by whoever reads the arguments."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parameters_of(tools: Collection[ToolSpec], name: str) -> Mapping[str, Any]:
    """Give the schemas of a tool's parameters by name; empty for a tool that nobody offers."""
    schemas = (tool.parameters.get("properties") for tool in tools if tool.name == name)
    properties = next(schemas, None)
    return properties if isinstance(properties, Mapping) else {}


def json_calls(text: str) -> tuple[WrittenCall, ...]:
    """Read calls from JSON: one object, several behind each other, or a list of them; empty where it is none.

    Where the JSON is broken behind the tool's name, the arguments are the text as it stands.
    """
    try:
        values = list(_values(text))
    except (ValueError, RecursionError):
        broken = _broken_call(text)
        return (broken,) if broken else ()
    objects = [value for one in values for value in (one if isinstance(one, list) else [one])]
    calls = [_call_of(value) for value in objects]
    return tuple(call for call in calls if call) if all(calls) else ()


def _values(text: str) -> Iterator[Any]:
    """Give the JSON values that stand behind each other; raises ValueError for anything else."""
    if text.count("{") + text.count("[") > 100 * DEEPEST:
        raise ValueError("too many brackets")
    at = _end(_BETWEEN, text, 0)
    while at < len(text):
        value, at = _decoder.raw_decode(text, at)
        yield value
        at = _end(_BETWEEN, text, at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _call_of(value: Any) -> WrittenCall | None:
    if not isinstance(value, Mapping):
        return None
    inner = value.get("function")
    if isinstance(inner, Mapping):  # as OpenAI writes it
        return _call_of(inner)
    name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), "")
    if not name:
        return None
    arguments: Any = next((value[key] for key in ARGUMENT_KEYS if key in value), {})
    return WrittenCall(name, arguments if isinstance(arguments, str) else json_text(arguments or {}))


def _broken_call(text: str) -> WrittenCall | None:
    """Give the call of an object that breaks off, or breaks, in its arguments."""
    name, arguments = _NAME.search(text), _ARGUMENTS.search(text)
    if not name:
        return None
    rest = text[arguments.end() :] if arguments else text
    return WrittenCall(name[1], rest.strip())

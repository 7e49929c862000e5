"""A tool as a model sees it: its declaration, and the arguments that the model wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.text.json_values import compact_json, mend_surrogates_in

# The declared schema of a tool without arguments.
NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


class ToolSpec(Record, frozen=True):
    """A tool's name, description, and the JSON Schema of its arguments.

    ``checked``: arguments are checked against ``parameters`` before the tool is called; else the tool does
    that itself. ``taped``: the tool sends requests to the outside world, so its answers are replayed from
    cassettes. ``blocking``: its function waits, so it runs in a thread of its own.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = NOTHING
    checked: bool = True
    taped: bool = False
    blocking: bool = True

    def declaration(self) -> dict[str, Any]:
        """Give the tool as chat-completion APIs want it."""
        parameters = dict(self.parameters or NO_PARAMETERS)
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


# How many tools, and how many lists of tools, are remembered.
MOST_TOOLS = 512

# By the ids of the tools, for all trials of a suite are offered the same objects. Each entry holds its tools:
# else an id could be given to another object.
_declared: dict[int, tuple[ToolSpec, ToolSpec]] = {}
_texts: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], str]] = {}


def declared_tool(tool: ToolSpec) -> ToolSpec:
    """Give a tool as it is declared to a model: by name, description and schema."""
    held = _declared.get(id(tool))
    if held is None:
        if len(_declared) >= MOST_TOOLS:
            _declared.clear()
        held = _declared[id(tool)] = (tool, ToolSpec(tool.name, tool.description, tool.parameters))
    return held[1]


def tools_text(tools: tuple[ToolSpec, ...]) -> str:
    """Give tools as JSON text, which is made only once for the same tools."""
    key = tuple(map(id, tools))
    held = _texts.get(key)
    if held is None:
        if len(_texts) >= MOST_TOOLS:
            _texts.clear()
        held = _texts[key] = (tools, compact_json([tool.to_json() for tool in tools]))
    return held[1]


# How deep brackets may be nested: deeper than any tool needs, and not deep enough to break an encoder.
DEEPEST = 100

NO_OBJECT = "the arguments are not a JSON object"

# A text in quotes is matched as a whole, so that brackets within it are not counted.
_BRACKET = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[\[{]|[\]}]")


def parse_arguments(text: str) -> tuple[Mapping[str, Any], str | None]:
    """Read a call's arguments; what is no JSON object comes back as text beside empty arguments.

    JSON has no NaN and no infinity, though Python's reader takes both. Such arguments are a mistake of the
    model: they could neither be stored nor sent on.
    """
    try:
        args = read_json(text)
    except ValueError:
        return NOTHING, text
    # Only an escape or a character beyond ASCII can be half of a surrogate pair.
    args = mend_surrogates_in(args) if "\\u" in text or not text.isascii() else args
    return (args, None) if isinstance(args, dict) else (NOTHING, text)


def arguments_problem(text: str) -> str:
    """Explain to the model why a text cannot be arguments."""
    try:
        read_json(text)
    except _NotTaken as reason:
        return f"{NO_OBJECT}: {reason}"
    except ValueError:
        pass
    return NO_OBJECT


def read_json(text: str) -> Any:
    """Read JSON that a model wrote; raises ValueError for what other readers could not read."""
    # With so few brackets, as most texts have, the depth need not be counted.
    if text.count("{") + text.count("[") > DEEPEST:
        depth = deepest = 0
        for match in _BRACKET.finditer(text):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(match[0], 0)
            deepest = max(deepest, depth)
        if deepest > DEEPEST:
            raise _NotTaken(f"more than {DEEPEST} brackets stand in one another")
    return JSON_DECODER.decode(text)


def shown_value(text: str) -> Any:
    """Read the result that a model was shown as this text: a list or a map where the text is its JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text


class _NotTaken(ValueError):
    """Raised for what Python's reader of JSON takes, and other readers refuse."""


def _refuse_constant(constant: str) -> Any:
    raise _NotTaken(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _NotTaken(f"{text} is too large for a number")
    return number


# Reads JSON strictly. Python's own decoder also accepts NaN and infinity, which are no JSON.
JSON_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)

"""Tools as Anthropic takes them: names of its alphabet, and which of them is to be called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_agenteval.cassettes.wire.traffic import as_map, as_text
from pytest_agenteval.chat.direct.anthropic_content import marked
from pytest_agenteval.chat.direct.anthropic_schema import input_schema
from pytest_agenteval.records.tool import NO_PARAMETERS

LONGEST_NAME = 128
REPLY_TOOL = "json_tool_call"
"""The tool whose arguments are the reply, where a model takes no schema for it."""

_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_WORDS = {"auto": "auto", "none": "none", "required": "any", "any": "any"}
DUMMY_TOOL: Mapping[str, Any] = {
    "name": "dummy_tool",
    "input_schema": NO_PARAMETERS,
    "type": "custom",
    "description": "This is a dummy tool call",
}
"""What is offered where a conversation holds calls and nothing can be called: the provider insists."""

CODE_EXECUTION: Mapping[str, Any] = {"name": "code_execution", "type": "code_execution_20250522"}
"""What is offered besides where a conversation holds files that only its container reads."""


def tool_names(tools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Give the name on the wire of each tool whose own name the provider would refuse.

    A name that is good stays with its tool; one that was brought to the alphabet and is taken gets a number.
    """
    own = [as_text(as_map(tool.get("function")).get("name")) for tool in tools]
    taken = {name for name in own if name and wire_name(name) == name}
    names: dict[str, str] = {}
    for name in own:
        if name and name not in taken and name not in names:
            names[name] = _free_name(wire_name(name), {*taken, *names.values()})
    return names


def wire_name(name: str) -> str:
    """Give a name in the provider's alphabet, whoever else may have it."""
    return _FOREIGN.sub("_", name)[:LONGEST_NAME]


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name, 1
    while free in taken:
        number += 1
        ending = f"_{number}"
        free = name[: LONGEST_NAME - len(ending)] + ending
    return free


def declared(tools: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Give the tools that are offered; one in a form of the provider's own goes as it is."""
    return [_declared(tool, names) if "function" in tool else dict(tool) for tool in tools]


def _declared(tool: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    function = as_map(tool["function"])
    name = as_text(function.get("name"))
    schema = input_schema(as_map(function.get("parameters", NO_PARAMETERS)))
    told: dict[str, Any] = {"name": names.get(name, name), "input_schema": schema, "type": "custom"}
    if function.get("description") is not None:
        told["description"] = function["description"]
    return marked(told, tool if "cache_control" in tool else function)


def reply_tool(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give the tool whose arguments follow a reply's schema."""
    return {"name": REPLY_TOOL, "input_schema": {"type": "object", **schema}}


def choice_of(said: Any, names: Mapping[str, str]) -> dict[str, Any] | None:
    """Give which tool is to be called; ``said`` is one of OpenAI's words or maps, or the name of a tool."""
    kind = said if isinstance(said, str) else as_text(as_map(said).get("type"))
    name = said if isinstance(said, str) else as_text(as_map(as_map(said).get("function")).get("name"))
    if kind in _WORDS and (not name or name == kind):
        return {"type": _WORDS[kind]}
    return {"type": "tool", "name": names.get(name, name)} if name else None


def forces(choice: Mapping[str, Any]) -> bool:
    """Whether a choice makes the model call a tool."""
    return choice["type"] in ("any", "tool")

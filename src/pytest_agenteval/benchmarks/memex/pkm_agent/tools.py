"""The PKM agent's tools: their declarations, and how their arguments are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from typing import Any

import yaml

from pytest_agenteval import Clock, Tool, ToolSpec, Workspace
from pytest_agenteval.benchmarks.memex.journal import bad_argument, describe_value
from pytest_agenteval.benchmarks.memex.pkm_agent import reading_tools, writing_tools
from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import KnowledgeBase
from pytest_agenteval.text.errors import did_you_mean

# Of these texts an empty one says something.
MAY_BE_EMPTY = ("content", "old_string", "new_string")

# Each takes the knowledge base and its arguments by name; one with a default need not be given.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Read": reading_tools.read,
    "BatchRead": reading_tools.batch_read,
    "Write": writing_tools.write,
    "Edit": writing_tools.edit,
    "Move": writing_tools.move,
    "Remove": writing_tools.remove,
    "LS": reading_tools.ls,
    "Glob": reading_tools.glob,
    "Grep": reading_tools.grep,
    "update_timeline_card_insight": writing_tools.update_insight,
    "skip_pkm_organization": writing_tools.skip,
}


@cache
def specs() -> tuple[ToolSpec, ...]:
    """Declare the tools: they check their own arguments, and none calls the outside world."""
    declared = yaml.safe_load(files(__package__).joinpath("tools.yaml").read_text(encoding="utf-8"))
    return tuple(_spec(name, tool) for name, tool in declared.items())


def _spec(name: str, declared: Mapping[str, str]) -> ToolSpec:
    arguments = {key: text for key, text in declared.items() if key != "use"}
    properties = {key.rstrip("*"): _property(*text.split(": ", 1)) for key, text in arguments.items()}
    required = [key.rstrip("*") for key in arguments if key.endswith("*")]
    parameters = {"type": "object", "properties": properties, "required": required}
    # The tools check their own arguments, so that a refusal can say how to mend them.
    return ToolSpec(name, declared["use"], parameters, checked=False, taped=False, blocking=False)


def _property(kind: str, description: str) -> dict[str, Any]:
    types: dict[str, Any] = {"text": {"type": "string"}, "flag": {"type": "boolean"}}
    types["texts"] = {"type": "array", "items": {"type": "string"}}
    if kind.startswith("from "):
        types[kind] = {"type": "integer", "minimum": int(kind.removeprefix("from "))}
    return {**types.get(kind, {"type": "string", "enum": kind.split("|")}), "description": description}


def pkm_tools(workspace: Workspace, clock: Clock) -> tuple[Tool, ...]:
    """Make the tools of one trial, in the order in which the model is shown them."""
    base = KnowledgeBase(workspace, clock)
    return tuple(Tool(spec, partial(_call, spec, base)) for spec in specs())


def _call(spec: ToolSpec, base: KnowledgeBase, args: Mapping[str, Any]) -> Any:
    function = FUNCTIONS[spec.name]
    return function(base, **read_arguments(spec, function, args))


def read_arguments(spec: ToolSpec, function: Callable[..., Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """Read what is declared; raises ToolFailed at the first argument that is wrong.

    Models write null or an empty text for what they do not give, 3.0 for 3, and a text for a list of one.
    """
    read: dict[str, Any] = {}
    parameters = inspect.signature(function).parameters
    for name, declared in spec.parameters["properties"].items():
        value = args.get(name)
        has_default = parameters[name].default is not inspect.Parameter.empty
        if not (has_default and (value is None or (value == "" and declared["type"] == "string"))):
            read[name] = _read(name, declared, value)
    return read


def _read(name: str, declared: Mapping[str, Any], value: Any) -> Any:
    described = "nothing" if value is None else describe_value(value)
    match declared["type"]:
        case "string":
            if not isinstance(value, str):
                raise bad_argument(f"{name} must be a text, not {described}")
            if not value.strip() and name not in MAY_BE_EMPTY:
                raise bad_argument(f"{name} must not be empty")
            choices = declared.get("enum", [value])
            if value not in choices:
                parts = (f"{name} must be one of {', '.join(choices)}", did_you_mean(value, choices))
                raise bad_argument("; ".join(filter(None, parts)))
            return _writable(name, value)
        case "array":
            listed = [value] if isinstance(value, str) else value
            if not isinstance(listed, list | tuple) or not all(isinstance(text, str) for text in listed):
                raise bad_argument(f"{name} must be a list of texts, not {described}")
            return [_writable(name, text) for text in listed]
        case "integer":
            least = declared["minimum"]
            value = int(value) if isinstance(value, float) and value.is_integer() else value
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise bad_argument(f"{name} must be a whole number from {least}, not {described}")
        case _:
            if not isinstance(value, bool):
                raise bad_argument(f"{name} must be true or false, not {described}")
    return value


def _writable(name: str, value: str) -> str:
    """Refuse half a character, which JSON can write and no file can hold."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise bad_argument(f"{name} holds half a character (a lone surrogate); leave it out") from None
    return value

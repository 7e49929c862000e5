"""What is wrong with the arguments of a call, by the declaration of its tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.importer.keys import catalogue, parameters
from pytest_agenteval.benchmarks.ko_agentbench.importer.placeholders import PLACEHOLDER
from pytest_agenteval.errors import nearest

KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def misfits(tool: str, args: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with a call's arguments by the tool's own declaration."""
    if tool not in catalogue():
        return
    known = parameters(tool)
    for name in (name for name in args if name not in known):
        hint = nearest(name, known)
        yield f"the tool has no parameter {name!r}{f'; {hint}' if hint else ''}"
    for name, rule in known.items():
        if name not in args:
            if rule.get("required"):
                yield f"{name!r} is missing, the tool requires it"
        elif not (isinstance(args[name], str) and PLACEHOLDER.search(args[name])):
            yield from _misfit(name, args[name], rule)


def _misfit(name: str, value: Any, rule: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(value, KINDS[rule["type"]]):
        yield f"{name!r} is {value!r}, the tool takes {rule['type']}"
    elif "enum" in rule and value not in rule["enum"]:
        yield f"{name!r} is {value!r}, the tool takes {', '.join(rule['enum'])}"
    elif isinstance(value, int) and not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        yield f"{name!r} is {value}, outside of what the tool takes"

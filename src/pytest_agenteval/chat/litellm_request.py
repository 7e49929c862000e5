"""Writes what is asked as litellm wants it; knows its shape, and does not import it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.canonical import compact


def own(value: Any) -> Any:
    """Give a plain copy, as litellm writes into what it gets; lone surrogates become question marks."""
    return json.loads(compact(value).encode("utf-8", "replace"))


def tool_choice(choice: Any) -> Any:
    """Give one of OpenAI's words as it is, and the name of a tool as the tool that has to be called."""
    if choice in ("auto", "none", "required") or not isinstance(choice, str):
        return choice
    return {"type": "function", "function": {"name": choice}}


def json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give a schema as the response format; strict where it is one that providers take as strict."""
    named = {"name": "reply", "schema": own(schema), "strict": _closed(schema)}
    return {"type": "json_schema", "json_schema": named}


def _closed(schema: Any) -> bool:
    """Whether every object of a schema requires all its keys and allows no others, as strict ones must."""
    if isinstance(schema, list | tuple):
        return all(map(_closed, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object":
        keys = set(schema.get("properties", {}))
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != keys:
            return False
    return all(map(_closed, schema.values()))

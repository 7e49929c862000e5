"""Tools as requests declare them."""

from __future__ import annotations

from typing import Any

from pytest_agenteval.cassettes.wire.json_body import as_map, as_text
from pytest_agenteval.cassettes.wire.traffic import Json
from pytest_agenteval.records.tool import ToolSpec


def function_spec(tool: Json) -> ToolSpec:
    """Read a tool of OpenAI's, its function inside or flat; one of the provider's has its type for a name."""
    kind = as_text(tool.get("type"))
    inner = as_map(tool.get("function") or tool.get("custom")) or tool
    name = as_text(inner.get("name")) or as_text(tool.get("server_label")) or kind
    return tool_spec(name, inner.get("description"), inner.get("parameters"))


def tool_spec(name: str, description: Any, parameters: Any) -> ToolSpec:
    """Give a tool; what the wire leaves out is empty."""
    return ToolSpec(name, as_text(description), as_map(parameters))

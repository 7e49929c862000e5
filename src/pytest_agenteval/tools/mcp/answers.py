"""What servers say of their tools and answer to calls, read as the protocol writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.tools.tool import ToolFailed

TOOL_ERROR = "tool_error"
ODD_SCHEMA = "pytest-agenteval/inputSchema"
"""The key of a tool's ``_meta`` that holds an ``inputSchema`` that the protocol does not know."""


class ServedTool(Record, frozen=True):
    """A tool as its server declares it; ``parameters`` is what stands as the JSON Schema of its arguments."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = NOTHING


def read_tool(tool: Mapping[str, Any]) -> ServedTool:
    """Read one entry of ``tools/list``."""
    schema = tool.get("inputSchema") or tool.get("input_schema") or NOTHING
    meta = tool.get("_meta")
    if isinstance(meta, Mapping) and ODD_SCHEMA in meta:
        schema = meta[ODD_SCHEMA] or NOTHING
    if isinstance(schema, Mapping) and schema and "type" not in schema:
        schema = {"type": "object", **schema}
    return ServedTool(tool["name"], tool.get("description") or tool.get("title") or "", schema)


def is_object_schema(schema: Any) -> bool:
    """Whether a schema may be that of a tool's arguments: of an object, with its properties in a map."""
    return (
        isinstance(schema, Mapping)
        and schema.get("type", "object") == "object"
        and isinstance(schema.get("properties", {}), Mapping)
        and isinstance(schema.get("required", []), list)
    )


def read_result(result: Mapping[str, Any]) -> Any:
    """Give the value of a call's result: its structured content where it has some, else its text.

    Raises ToolFailed for a result that says that the call failed.
    """
    text = "\n".join(map(_text_of, result.get("content") or ()))
    if result.get("isError", result.get("is_error")):
        raise ToolFailed(text or "the tool failed, and its server does not say why", TOOL_ERROR)
    structured = result.get("structuredContent", result.get("structured_content"))
    return text if structured is None else structured


def _text_of(block: Mapping[str, Any]) -> str:
    """Give a block's text; of what is none, what it is and how much of it there is."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource_link":
        return f"[link to {block.get('name') or 'a resource'}: {block.get('uri')}]"
    resource: Mapping[str, Any] = block.get("resource") or NOTHING if kind == "resource" else block
    if "text" in resource:
        return str(resource["text"])
    form = resource.get("mimeType") or resource.get("mime_type") or "of an unknown form"
    data = resource.get("data") or resource.get("blob") or ""
    return f"[{kind}: {form}, {_bytes_of_base64(data)} bytes, not shown]"


def _bytes_of_base64(data: str) -> int:
    return len(data) * 3 // 4 - data[-2:].count("=")

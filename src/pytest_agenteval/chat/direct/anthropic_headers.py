"""What stands before a body that goes to Anthropic: the key, and what of the body is a beta."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_agenteval.cassettes.wire.traffic import Json, as_map, as_text, maps_in
from pytest_agenteval.chat.direct.anthropic_content import blocks_of

VERSION = "2023-06-01"

_BETAS_OF_TOOLS: Mapping[str, str] = {
    "web_fetch": "web-fetch-2025-09-10",
    "memory": "context-management-2025-06-27",
    "tool_search_tool": "advanced-tool-use-2025-11-20",
    "code_execution_20250825": "code-execution-2025-08-25",
}
_SUBSCRIPTION = "sk-ant-oat"
"""How the key of who has a subscription begins: it goes another way."""


def headers_of(key: str, body: Mapping[str, Any]) -> dict[str, str]:
    """Give the headers that name the key, and what of a body the provider calls a beta."""
    subscribed = key.startswith(_SUBSCRIPTION)
    betas = sorted({*_betas(body), *(("oauth-2025-04-20",) if subscribed else ())})
    headers = {"anthropic-version": VERSION, **({"anthropic-beta": ",".join(betas)} if betas else {})}
    if subscribed:
        from_browser = {"anthropic-dangerous-direct-browser-access": "true"}
        return {**headers, "authorization": f"Bearer {key}", **from_browser}
    return {**headers, "x-api-key": key} if key else headers


def _betas(body: Mapping[str, Any]) -> Iterator[str]:
    output = as_map(body.get("output_config"))
    if body.get("output_format") is not None or output.get("format") is not None:
        yield "structured-outputs-2025-11-13"
    if output.get("effort") and as_map(body.get("thinking")).get("type") != "adaptive":
        yield "effort-2025-11-24"
    if any(map(_is_kept_file, blocks_of(body.get("messages")))):
        yield "files-api-2025-04-14"
    if body.get("context_management") is not None:
        yield "context-management-2025-06-27"
    if body.get("mcp_servers"):
        yield "mcp-client-2025-04-04"
    for tool in maps_in(body.get("tools")):
        for kind, beta in _BETAS_OF_TOOLS.items():
            if as_text(tool.get("type")).startswith(kind):
                yield beta


def _is_kept_file(block: Json) -> bool:
    return block.get("type") == "container_upload" or as_map(block.get("source")).get("type") == "file"

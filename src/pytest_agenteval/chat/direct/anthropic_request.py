"""Requests to Anthropic's messages, as litellm would send them, and replies in the terms of the request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.cassettes.wire.normal_form import ReplyParts
from pytest_agenteval.cassettes.wire.traffic import Json, as_map, as_text, maps_in
from pytest_agenteval.chat.direct.anthropic_conversation import (
    anthropic_messages,
    blocks_of,
    marked,
    split_system,
)
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.direct.provider_schemas import anthropic_input_schema, anthropic_reply_schema
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.records.tool_spec import NO_PARAMETERS
from pytest_agenteval.text.json_values import compact_json

FORMAT = "anthropic.messages"
PATH = "/v1/messages"
ANTHROPIC_VERSION = "2023-06-01"
LONGEST_NAME = 128
REPLY_TOOL = "json_tool_call"
"""The tool whose arguments are the reply of a model without structured output."""
DUMMY_TOOL: Mapping[str, Any] = {
    "name": "dummy_tool",
    "input_schema": NO_PARAMETERS,
    "type": "custom",
    "description": "This is a dummy tool call",
}
"""Offered if a conversation holds calls but no tool is offered: the provider requires one."""
CODE_EXECUTION: Mapping[str, Any] = {"name": "code_execution", "type": "code_execution_20250522"}
"""Also offered if a conversation holds files that only the provider's container reads."""
MOST_TOKENS = 128_000
"""The most tokens of a reply of a model that the table of prices lacks: those of newer models."""
TOKENS_AFTER_THOUGHT = 4096
THINKING_BUDGETS: Mapping[str, int] = {
    "minimal": 1024,
    "low": 1024,
    "medium": 2048,
    "high": 4096,
    "xhigh": 8192,
    "max": 16384,
}
"""Tokens of thought by effort, for models that do not decide that themselves."""

_FOREIGN_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_PERSONAL_DATA = re.compile(r"[\w.%+-]+@[\w.-]+\.\w{2,}|\+?[\d\s()-]{7,}")
"""A mail address or a telephone number, which Anthropic does not accept as a user's id."""
_BETAS_OF_TOOLS: Mapping[str, str] = {
    "web_fetch": "web-fetch-2025-09-10",
    "memory": "context-management-2025-06-27",
    "tool_search_tool": "advanced-tool-use-2025-11-20",
    "code_execution_20250825": "code-execution-2025-08-25",
}


def body_of(ask: ModelAsk) -> dict[str, Any]:
    """Write a request's body."""
    maps = ("response_schema", "settings", "further", "extra_body")  # of whatever kind: frozen ones, too
    ask = replace(ask, **{name: json.loads(compact_json(getattr(ask, name))) for name in maps})
    names, thinking = tool_names(ask.tools), _thinking(ask)
    system, rest = split_system(ask.messages)
    takes_system = ask.abilities.get("supports_mid_conversation_system") is True
    messages = anthropic_messages(rest, names, ask.echoes, takes_system=takes_system)
    body: dict[str, Any] = {
        "model": ask.model,
        "messages": messages,
        "max_tokens": _max_tokens(ask, {**thinking, **ask.extra_body}),
        **({"system": system} if system else {}),
    }
    takes_any = ask.abilities.get("supports_sampling_params") is not False
    for name in ("temperature", "top_p"):
        value = ask.settings.get(name)
        if value is not None and (takes_any or (name == "temperature" and value == 1)):
            body[name] = value
    # A tool without a function is in the provider's own form.
    tools = [_declaration(tool, names) if "function" in tool else dict(tool) for tool in ask.tools]
    choice: dict[str, Any] | None = None
    may_force = ask.abilities.get("supports_forced_tool_use") is not False
    if ask.response_schema is not None and not _has_structured_output(ask):
        tools.insert(0, {"name": REPLY_TOOL, "input_schema": {"type": "object", **ask.response_schema}})
        # With an effort, even none, the model cannot be forced to call a tool.
        thinks = ask.settings.get("reasoning_effort") is not None and _can_think(ask)
        thinks = thinks or as_map(ask.extra_body.get("thinking")).get("type") == "enabled"
        choice = {"type": "tool", "name": REPLY_TOOL} if may_force and not thinks else None
    if ask.tools and (wanted := _tool_choice(ask.settings.get("tool_choice"), names)):
        choice = wanted if may_force or wanted["type"] not in ("any", "tool") else {"type": "auto"}
    if not tools and any(message.get("tool_calls") for message in ask.messages):
        tools.append(dict(DUMMY_TOOL))
    if tools and any(block.get("type") == "container_upload" for block in blocks_of(messages)):
        tools.append(dict(CODE_EXECUTION))
    body |= thinking
    if tools:
        body["tools"] = tools
    if choice:
        body["tool_choice"] = choice
    if ask.response_schema is not None and _has_structured_output(ask):
        schema = anthropic_reply_schema(ask.response_schema)
        body["output_format"] = {"type": "json_schema", "schema": schema}
    if ask.streamed:
        body["stream"] = True
    return {**body, **_further_settings(body, ask.further), **ask.extra_body}


def _thinking(ask: ModelAsk) -> dict[str, Any]:
    """Give how much a model is to think, as an effort or in tokens; empty for one that cannot."""
    effort = ask.settings.get("reasoning_effort")
    if effort in (None, "none") or not _can_think(ask):
        return {}
    if effort not in THINKING_BUDGETS:
        words = f"reasoning_effort: expected none, {', '.join(THINKING_BUDGETS)}; found {effort!r}"
        raise AttemptFailed(f"bad_request: {words}", cause="bad_request", retryable=False)
    if ask.abilities.get("supports_adaptive_thinking") is not True:
        return {"thinking": {"type": "enabled", "budget_tokens": THINKING_BUDGETS[effort]}}
    # Else the thoughts would come back empty.
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"thinking": thinking, "output_config": {"effort": "low" if effort == "minimal" else effort}}


def _can_think(ask: ModelAsk) -> bool:
    return any(ask.abilities.get(f"supports_{way}") is True for way in ("reasoning", "adaptive_thinking"))


def _max_tokens(ask: ModelAsk, thinking: Mapping[str, Any]) -> int:
    """Give how long a reply may be with its thoughts, which the provider requires."""
    if most := ask.settings.get("max_tokens"):
        return int(most)
    budget = as_map(thinking.get("thinking")).get("budget_tokens")
    if isinstance(budget, int):
        return budget + TOKENS_AFTER_THOUGHT
    most = ask.abilities.get("max_output_tokens", ask.abilities.get("max_tokens"))
    return int(most) if isinstance(most, int) else MOST_TOKENS


def _declaration(tool: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    function = as_map(tool["function"])
    name = as_text(function.get("name"))
    schema = anthropic_input_schema(as_map(function.get("parameters", NO_PARAMETERS)))
    declaration: dict[str, Any] = {"name": names.get(name, name), "input_schema": schema, "type": "custom"}
    if function.get("description") is not None:
        declaration["description"] = function["description"]
    return marked(declaration, tool if "cache_control" in tool else function)


def _tool_choice(choice: Any, names: Mapping[str, str]) -> dict[str, Any] | None:
    """Give which tool to call; ``choice`` is one of OpenAI's words or maps, or the name of a tool."""
    kind = choice if isinstance(choice, str) else as_text(as_map(choice).get("type"))
    name = choice if isinstance(choice, str) else as_text(as_map(as_map(choice).get("function")).get("name"))
    choices = {"auto": "auto", "none": "none", "required": "any", "any": "any"}
    if kind in choices and (not name or name == kind):
        return {"type": choices[kind]}
    return {"type": "tool", "name": names.get(name, name)} if name else None


def _has_structured_output(ask: ModelAsk) -> bool:
    return ask.abilities.get("supports_native_structured_output") is True


def _further_settings(body: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Give what further settings add to a body, as far as Anthropic has an equivalent."""
    written: dict[str, Any] = {}
    if (stop := further.get("stop")) is not None:
        written["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if (most := further.get("max_completion_tokens")) is not None:
        written["max_tokens"] = most
    if isinstance(user := further.get("user"), str) and not _PERSONAL_DATA.fullmatch(user):
        written["metadata"] = {"user_id": user}
    at_once = further.get("parallel_tool_calls")
    if at_once is not None and "tools" in body:
        choice = body.get("tool_choice") or {"type": "auto"}
        written["tool_choice"] = {**choice, "disable_parallel_tool_use": not at_once}
    return written


def tool_names(tools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Give the name on the wire of each tool whose own name the provider would refuse.

    A valid name stays with its tool; a name that was made valid and is taken gets a number.
    """
    own = [as_text(as_map(tool.get("function")).get("name")) for tool in tools]
    taken = {name for name in own if name and wire_name(name) == name}
    names: dict[str, str] = {}
    for name in own:
        if name and name not in taken and name not in names:
            free, number = wire_name(name), 1
            while free in {*taken, *names.values()}:
                number += 1
                ending = f"_{number}"
                free = wire_name(name)[: LONGEST_NAME - len(ending)] + ending
            names[name] = free
    return names


def wire_name(name: str) -> str:
    """Give a name in the provider's alphabet, which may be taken."""
    return _FOREIGN_IN_NAMES.sub("_", name)[:LONGEST_NAME]


def headers_of(key: str, body: Mapping[str, Any]) -> dict[str, str]:
    """Give the headers with the key, and with the betas that a body uses."""
    subscribed = key.startswith("sk-ant-oat")  # a subscription's key goes into another header
    betas = {"oauth-2025-04-20"} if subscribed else set()
    output = as_map(body.get("output_config"))
    if body.get("output_format") is not None or output.get("format") is not None:
        betas.add("structured-outputs-2025-11-13")
    if output.get("effort") and as_map(body.get("thinking")).get("type") != "adaptive":
        betas.add("effort-2025-11-24")
    for block in blocks_of(body.get("messages")):
        if block.get("type") == "container_upload" or as_map(block.get("source")).get("type") == "file":
            betas.add("files-api-2025-04-14")
    if body.get("context_management") is not None:
        betas.add("context-management-2025-06-27")
    if body.get("mcp_servers"):
        betas.add("mcp-client-2025-04-04")
    for tool in maps_in(body.get("tools")):
        kind = as_text(tool.get("type"))
        betas |= {beta for prefix, beta in _BETAS_OF_TOOLS.items() if kind.startswith(prefix)}
    headers = {"anthropic-version": ANTHROPIC_VERSION}
    if betas:
        headers["anthropic-beta"] = ",".join(sorted(betas))
    if subscribed:
        from_browser = {"anthropic-dangerous-direct-browser-access": "true"}
        return {**headers, "authorization": f"Bearer {key}", **from_browser}
    return {**headers, "x-api-key": key} if key else headers


def echo_of(whole: Json) -> Any:
    """Give the thoughts of a reply, which the provider wants back with the results of its calls."""
    kinds = ("thinking", "redacted_thinking")
    return [dict(block) for block in maps_in(whole.get("content")) if block.get("type") in kinds] or None


def reply_of(parts: ReplyParts, ask: ModelAsk) -> ReplyParts:
    """Give a reply in the terms of the ask: tools by their own names, a schema's object as text."""
    own = {wire: name for name, wire in tool_names(ask.tools).items()}
    last = ask.messages[-1] if ask.messages else {}
    begins_reply = last.get("role") == "assistant" and last.get("prefix")
    prefix = as_text(last.get("content")) if begins_reply else ""
    content = parts.content if parts.content.startswith(prefix) else prefix + parts.content
    calls = tuple(
        replace(call, name=own[call.name]) if call.by == "agent" and call.name in own else call
        for call in parts.calls
    )
    objects = [call for call in calls if call.name == REPLY_TOOL and call.by == "agent"]
    if ask.response_schema is None or not objects:
        return replace(parts, calls=calls, content=content)
    # The arguments of the tool that stood for the schema are the reply's text.
    text = objects[0].arguments
    if not isinstance(text, str):
        values = as_map(text).get("values")  # where some models put the object
        text = json.dumps(text if values is None else values, ensure_ascii=False)
    calls = tuple(call for call in calls if call not in objects)
    if any(call.by == "agent" for call in calls):
        return replace(parts, content=content + text, calls=calls)
    return replace(parts, content=text, calls=calls, finish="stop")

"""Requests to Anthropic's messages API, of text and tools; litellm sends all others.

A conversation becomes turns of user and model, each a list of blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any

from pytest_agenteval.cassettes.wire.traffic import Json, as_map, as_text, maps_in
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.records.tool_spec import NO_PARAMETERS, parse_arguments

Block = dict[str, Any]

FORMAT = "anthropic.messages"
PATH = "/v1/messages"
ANTHROPIC_VERSION = "2023-06-01"
# Replaces a blank text, which the provider refuses. The words are litellm's.
EMPTY_TEXT = "[System: Empty message content sanitised to satisfy protocol]"
# The key of the object that wraps arguments that are no JSON object.
UNREADABLE = "INVALID_JSON"
# The most tokens of a reply of a model without a limit in the table of prices.
MOST_TOKENS = 128_000
TOKENS_AFTER_THOUGHT = 4096
# Tokens of reasoning by effort, for models that do not choose their number themselves.
THINKING_BUDGETS: Mapping[str, int] = {
    "minimal": 1024,
    "low": 1024,
    "medium": 2048,
    "high": 4096,
    "xhigh": 8192,
    "max": 16384,
}

_SYSTEM = ("system", "developer")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
# Characters that the provider refuses in the ids of calls.
_FOREIGN_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")
# A schema of arguments may have no other keys at its top.
_AT_TOP = ("type", "properties", "additionalProperties", "required", "$defs", "strict")


def needs_litellm(ask: ModelAsk) -> bool:
    """Whether an ask holds more than text, tools and the settings of every model."""
    if ask.response_schema is not None or ask.extra_body:
        return True
    spoken = _without_system(ask.messages)
    if not spoken or spoken[-1].get("role") == "assistant":  # a reply that the model continues
        return True
    functions = [as_map(tool.get("function")) for tool in ask.tools]
    if not all(_TOOL_NAME.fullmatch(as_text(function.get("name"))) for function in functions):
        return True
    # References in these forms have to be written out.
    if any({"definitions", "components"} & as_map(it.get("parameters")).keys() for it in functions):
        return True
    return any(
        message.get("role") not in ("user", "assistant", "tool")
        or message.get("thinking_blocks")
        or (message.get("tool_calls") and not functions)  # the provider requires tools where calls are
        for message in spoken
    ) or not all(map(_is_text, ask.messages))


def _without_system(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    leading = takewhile(lambda message: message.get("role") in _SYSTEM, messages)
    return messages[sum(1 for _ in leading) :]


def _is_text(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return True
    return isinstance(content, list | tuple) and all(as_map(it).get("type") == "text" for it in content)


def body_of(ask: ModelAsk) -> dict[str, Any]:
    spoken, thinking = _without_system(ask.messages), _thinking(ask)
    leading = ask.messages[: len(ask.messages) - len(spoken)]
    messages = [
        {"role": role, "content": [block for message in run for block in _blocks(message, ask.echoes)]}
        # The provider expects user and model to alternate; a tool's results are the user's.
        for role, run in groupby(spoken, key=_role)
    ]
    body: dict[str, Any] = {
        "model": ask.model,
        "messages": messages,
        "max_tokens": _max_tokens(ask, thinking),
    }
    if system := [block for message in leading for block in _text_blocks(message, blank="")]:
        body["system"] = system
    takes_any = ask.abilities.get("supports_sampling_params") is not False
    for name in ("temperature", "top_p"):
        value = ask.settings.get(name)
        if value is not None and (takes_any or (name == "temperature" and value == 1)):
            body[name] = value
    body |= thinking
    if ask.tools:
        body["tools"] = [_declaration(as_map(tool.get("function"))) for tool in ask.tools]
        if choice := _tool_choice(ask.settings.get("tool_choice")):
            may_force = ask.abilities.get("supports_forced_tool_use") is not False
            body["tool_choice"] = choice if may_force or choice["type"] == "none" else {"type": "auto"}
    if ask.streamed:
        body["stream"] = True
    return body


def _role(message: Mapping[str, Any]) -> str:
    return "assistant" if message.get("role") == "assistant" else "user"


def _blocks(message: Mapping[str, Any], echoes: Mapping[str, Any]) -> list[Block]:
    if message.get("role") == "tool":
        content = message.get("content")
        blocks = list(content) if isinstance(content, list | tuple) else content or ""
        return [{"type": "tool_result", "tool_use_id": _wire_id(message["tool_call_id"]), "content": blocks}]
    calls = message.get("tool_calls") or ()
    if not calls:
        return _text_blocks(message, blank=EMPTY_TEXT)
    # The thoughts that led to calls go back with them.
    thoughts = echoes.get(calls[0].get("id")) or ()
    return [*thoughts, *_text_blocks(message, blank=""), *map(_call_block, calls)]


def _text_blocks(message: Mapping[str, Any], *, blank: str) -> list[Block]:
    """Give a message's texts; ``blank`` replaces a blank one, which is left out if that is empty."""
    content = message.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else map(dict, content)
    filled = (
        {**part, "text": text if (text := as_text(part.get("text"))).strip() else blank} for part in parts
    )
    return [part for part in filled if part["text"]]


def _call_block(call: Mapping[str, Any]) -> Block:
    function = call["function"]
    args, raw = parse_arguments(as_text(function.get("arguments")))
    written = dict(args) if raw is None else {UNREADABLE: raw}
    return {"type": "tool_use", "id": _wire_id(call["id"]), "name": function["name"], "input": written}


def _wire_id(id: Any) -> str:
    return _FOREIGN_CHARACTERS.sub("_", as_text(id)) or "tool_use_id"


def _thinking(ask: ModelAsk) -> dict[str, Any]:
    """Give how much a model has to think, as an effort or in tokens; empty for one that cannot."""
    effort = ask.settings.get("reasoning_effort")
    adapts = ask.abilities.get("supports_adaptive_thinking") is True
    if effort in (None, "none") or not (adapts or ask.abilities.get("supports_reasoning") is True):
        return {}
    if effort not in THINKING_BUDGETS:
        words = f"reasoning_effort: expected none, {', '.join(THINKING_BUDGETS)}; found {effort!r}"
        raise AttemptFailed(f"bad_request: {words}", cause="bad_request", retryable=False)
    if not adapts:
        return {"thinking": {"type": "enabled", "budget_tokens": THINKING_BUDGETS[effort]}}
    # Else the thoughts would come back empty.
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"thinking": thinking, "output_config": {"effort": "low" if effort == "minimal" else effort}}


def _max_tokens(ask: ModelAsk, thinking: Mapping[str, Any]) -> int:
    """Give how long a reply may be, thoughts included; the provider requires this limit."""
    if most := ask.settings.get("max_tokens"):
        return int(most)
    if budget := as_map(thinking.get("thinking")).get("budget_tokens"):
        return int(budget) + TOKENS_AFTER_THOUGHT
    return int(ask.abilities.get("max_output_tokens") or ask.abilities.get("max_tokens") or MOST_TOKENS)


def _declaration(function: Mapping[str, Any]) -> Block:
    parameters = as_map(function.get("parameters", NO_PARAMETERS))
    schema = {**parameters, "type": "object", "properties": parameters.get("properties", {})}
    return {
        "name": function["name"],
        "input_schema": {name: schema[name] for name in schema if name in _AT_TOP},
        "type": "custom",
        "description": function.get("description") or "",
    }


def _tool_choice(choice: Any) -> dict[str, Any] | None:
    """Give which tool to call; ``choice`` is one of OpenAI's words or maps, or the name of a tool."""
    words = {"auto": "auto", "none": "none", "required": "any", "any": "any"}
    kind = choice if isinstance(choice, str) else as_text(as_map(choice).get("type"))
    if kind in words:
        return {"type": words[kind]}
    name = choice if isinstance(choice, str) else as_text(as_map(as_map(choice).get("function")).get("name"))
    return {"type": "tool", "name": name} if name else None


def headers_of(key: str) -> dict[str, str]:
    headers = {"anthropic-version": ANTHROPIC_VERSION}
    if key.startswith("sk-ant-oat"):  # a subscription's key goes into another header
        beta = {"anthropic-beta": "oauth-2025-04-20", "anthropic-dangerous-direct-browser-access": "true"}
        return {**headers, **beta, "authorization": f"Bearer {key}"}
    return {**headers, "x-api-key": key}


def echo_of(whole: Json) -> Any:
    """Give the signed thoughts of a reply, which the provider wants back with the results of its calls."""
    return [
        dict(block)
        for block in maps_in(whole.get("content"))
        if block.get("type") == "redacted_thinking"
        or (block.get("type") == "thinking" and block.get("signature"))
    ] or None

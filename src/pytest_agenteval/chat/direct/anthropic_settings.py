"""How a model of Anthropic's is to answer: as far as it lets one say so, by the table of prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval.cassettes.wire.traffic import Json, as_map
from pytest_agenteval.chat.direct.anthropic_content import blocks_of
from pytest_agenteval.chat.direct.anthropic_schema import reply_schema
from pytest_agenteval.chat.direct.anthropic_tools import (
    CODE_EXECUTION,
    DUMMY_TOOL,
    REPLY_TOOL,
    choice_of,
    declared,
    forces,
    reply_tool,
)
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.failures import AttemptFailed

MOST_TOKENS = 128_000
"""How long a reply may be at most of a model that the table of prices does not know: what newer ones take."""
TOKENS_AFTER_THOUGHT = 4096

BUDGETS: Mapping[str, int] = {
    "minimal": 1024,
    "low": 1024,
    "medium": 2048,
    "high": 4096,
    "xhigh": 8192,
    "max": 16384,
}
"""How many tokens a model may think that does not decide so itself."""


def sampling(ask: ModelAsk) -> dict[str, Any]:
    """Give how a model is to pick its words, as far as it lets one say so."""
    named = {name: ask.settings.get(name) for name in ("temperature", "top_p")}
    said = {name: value for name, value in named.items() if value is not None}
    if ask.abilities.get("supports_sampling_params") is not False:
        return said
    return {name: value for name, value in said.items() if name == "temperature" and value == 1}


def thinking_of(ask: ModelAsk) -> dict[str, Any]:
    """Give how much a model is to think, in its own words or in tokens; nothing for one that cannot."""
    effort = ask.settings.get("reasoning_effort")
    if effort in (None, "none") or not _can_think(ask):
        return {}
    if effort not in BUDGETS:
        said = f"reasoning_effort: expected none, {', '.join(BUDGETS)}; found {effort!r}"
        raise AttemptFailed(f"bad_request: {said}", cause="bad_request", retryable=False)
    if ask.abilities.get("supports_adaptive_thinking") is not True:
        return {"thinking": {"type": "enabled", "budget_tokens": BUDGETS[effort]}}
    # Else the thoughts would come back empty.
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"thinking": thinking, "output_config": {"effort": "low" if effort == "minimal" else effort}}


def _thinks(ask: ModelAsk) -> bool:
    """Whether a model was told to think, if only not to: it cannot be made to call a tool then."""
    told = ask.settings.get("reasoning_effort") is not None and _can_think(ask)
    return told or as_map(ask.extra_body.get("thinking")).get("type") == "enabled"


def _can_think(ask: ModelAsk) -> bool:
    return any(ask.abilities.get(f"supports_{way}") is True for way in ("reasoning", "adaptive_thinking"))


def max_tokens(ask: ModelAsk, thinking: Mapping[str, Any]) -> int:
    """Give how long a reply may be, thoughts included: the provider wants to be told."""
    if said := ask.settings.get("max_tokens"):
        return int(said)
    budget = as_map(thinking.get("thinking")).get("budget_tokens")
    if isinstance(budget, int):
        return budget + TOKENS_AFTER_THOUGHT
    most = ask.abilities.get("max_output_tokens", ask.abilities.get("max_tokens"))
    return int(most) if isinstance(most, int) else MOST_TOKENS


def offer(ask: ModelAsk, names: Mapping[str, str], messages: Sequence[Json]) -> dict[str, Any]:
    """Give the tools that are offered, and which is to be called."""
    tools, choice = declared(ask.tools, names), None
    may_force = ask.abilities.get("supports_forced_tool_use") is not False
    if ask.response_schema is not None and not _takes_schema(ask):
        tools.insert(0, reply_tool(ask.response_schema))
        choice = {"type": "tool", "name": REPLY_TOOL} if may_force and not _thinks(ask) else None
    if ask.tools and (said := choice_of(ask.settings.get("tool_choice"), names)):
        choice = said if may_force or not forces(said) else {"type": "auto"}
    if not tools and any(message.get("tool_calls") for message in ask.messages):
        tools.append(dict(DUMMY_TOOL))
    if tools and any(block.get("type") == "container_upload" for block in blocks_of(messages)):
        tools.append(dict(CODE_EXECUTION))
    return {**({"tools": tools} if tools else {}), **({"tool_choice": choice} if choice else {})}


def reply_format(ask: ModelAsk) -> dict[str, Any]:
    """Give the schema that the reply has to follow, where a model takes one."""
    if ask.response_schema is None or not _takes_schema(ask):
        return {}
    return {"output_format": {"type": "json_schema", "schema": reply_schema(ask.response_schema)}}


def _takes_schema(ask: ModelAsk) -> bool:
    return ask.abilities.get("supports_native_structured_output") is True

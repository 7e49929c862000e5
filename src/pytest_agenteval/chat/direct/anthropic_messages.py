"""Anthropic's messages from the side of who asks: what litellm sends for the same ask, without it."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.chat.direct.anthropic_settings import (
    max_tokens,
    offer,
    reply_format,
    sampling,
    thinking_of,
)
from pytest_agenteval.chat.direct.anthropic_tools import tool_names
from pytest_agenteval.chat.direct.anthropic_turns import conversation, split_system
from pytest_agenteval.chat.direct.further_settings import for_messages
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.text.canonical import compact

FORMAT = "anthropic.messages"
PATH = "/v1/messages"


def body_of(ask: ModelAsk) -> dict[str, Any]:
    """Write a request's body."""
    ask = _plain(ask)
    names, thinking = tool_names(ask.tools), thinking_of(ask)
    system, rest = split_system(ask.messages)
    takes_system = ask.abilities.get("supports_mid_conversation_system") is True
    messages = conversation(rest, names, ask.echoes, takes_system=takes_system)
    body = {
        "model": ask.model,
        "messages": messages,
        "max_tokens": max_tokens(ask, {**thinking, **ask.extra_body}),
        **({"system": system} if system else {}),
        **sampling(ask),
        **thinking,
        **offer(ask, names, messages),
        **reply_format(ask),
        **({"stream": True} if ask.streamed else {}),
    }
    return {**body, **for_messages(body, ask.further), **ask.extra_body}


def _plain(ask: ModelAsk) -> ModelAsk:
    """Give the ask with plain maps, whatever kind its settings are."""
    return replace(
        ask,
        response_schema=None if ask.response_schema is None else json.loads(compact(ask.response_schema)),
        settings=json.loads(compact(ask.settings)),
        further=json.loads(compact(ask.further)),
        extra_body=json.loads(compact(ask.extra_body)),
    )

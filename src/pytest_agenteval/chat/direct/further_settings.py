"""Settings of OpenAI's chats that an agent asks for beside the usual, in the words of other formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.cassettes.wire.traffic import as_map

_IN_BOTH = frozenset(
    {"user", "parallel_tool_calls", "top_logprobs", "store", "safety_identifier"}
    | {"prompt_cache_key", "prompt_cache_retention"}
)
"""Settings that OpenAI's responses have under the same name."""
FURTHER = _IN_BOTH | frozenset(
    {"stop", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "n", "verbosity"}
    | {"prediction", "modalities", "audio", "functions", "function_call", "max_completion_tokens"}
)
"""Settings that another format calls otherwise or does not have."""
_PERSONAL = re.compile(r"[\w.%+-]+@[\w.-]+\.\w{2,}|\+?[\d\s()-]{7,}")
"""A mail address or a telephone number, which Anthropic does not want to be told."""
_FEWEST_TOKENS = 16
"""OpenAI's responses take no lower limit of a reply's tokens."""


def for_messages(body: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Give what further settings add to a body of Anthropic's, as far as it has words for them."""
    written: dict[str, Any] = {}
    if (stop := further.get("stop")) is not None:
        written["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if (most := further.get("max_completion_tokens")) is not None:
        written["max_tokens"] = most
    if isinstance(user := further.get("user"), str) and not _PERSONAL.fullmatch(user):
        written["metadata"] = {"user_id": user}
    at_once = further.get("parallel_tool_calls")
    if at_once is not None and "tools" in body:
        choice = body.get("tool_choice") or {"type": "auto"}
        written["tool_choice"] = {**choice, "disable_parallel_tool_use": not at_once}
    return written


def for_responses(body: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Give what further settings add to a body of OpenAI's responses, without those that they lack."""
    written = {name: value for name, value in further.items() if name in _IN_BOTH}
    if (most := further.get("max_completion_tokens")) is not None:
        written["max_output_tokens"] = max(most, _FEWEST_TOKENS)
    if (verbosity := further.get("verbosity")) is not None:
        written["text"] = {**as_map(body.get("text")), "verbosity": verbosity}
    return written

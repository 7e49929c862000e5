"""Spans as plain data, and the names that OpenTelemetry's conventions for generative AI give to attributes.

Whoever writes spans (``reports/exports/otel.py``) and whoever reads them has the names from here. They
are those of open-telemetry/semantic-conventions-genai (status: development) as of schema 1.42.0-dev.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from pytest_agenteval.records.record import FrozenValue

Attributes: TypeAlias = Mapping[str, Any]
"""Texts, numbers, booleans and lists of texts, by name."""

OPERATION = "gen_ai.operation.name"
"""What a span stands for: one of the next three words, and others."""
AGENT, CHAT, TOOL = "invoke_agent", "chat", "execute_tool"

AGENT_NAME, AGENT_VERSION = "gen_ai.agent.name", "gen_ai.agent.version"
PROVIDER, CONVERSATION = "gen_ai.provider.name", "gen_ai.conversation.id"
REQUEST_MODEL, RESPONSE_MODEL = "gen_ai.request.model", "gen_ai.response.model"
INPUT_MESSAGES, OUTPUT_MESSAGES = "gen_ai.input.messages", "gen_ai.output.messages"
INSTRUCTIONS, TOOL_DEFINITIONS = "gen_ai.system_instructions", "gen_ai.tool.definitions"
FINISH_REASONS = "gen_ai.response.finish_reasons"
IS_STREAMED, FIRST_CHUNK_S = "gen_ai.request.stream", "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS, OUTPUT_TOKENS = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME, TOOL_TYPE, CALL_ID = "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id"
CALL_ARGUMENTS, CALL_RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
ERROR_TYPE = "error.type"
COST_USD = "agenteval.cost_usd"
"""What a reply cost: the conventions have no word for it."""


class SpanEvent(FrozenValue, frozen=True):
    """Something at one moment of a span, in nanoseconds since 1970."""

    name: str
    at_ns: int
    attributes: Attributes


class Span(FrozenValue, frozen=True):
    """One span of a trace: times are nanoseconds since 1970, ids are hex digits.

    ``parent_id`` is empty for the root. ``error`` says why what the span stands for broke; where it is None
    nothing is said of how it went.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: Literal["client", "internal"]
    start_ns: int
    end_ns: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None

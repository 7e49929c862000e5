"""Spans as plain data: OpenTelemetry's names for attributes, and the forms in which programs export spans.

Whoever writes spans (``reports/exports``) and whoever reads them has the names from here. They are those of
open-telemetry/semantic-conventions-genai (status: development) as of schema 1.42.0-dev. Nothing of
OpenTelemetry is imported: the SDK's objects are known by their attributes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from pytest_agenteval.cassettes.transcripts.parts import Place, moment_of
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


class TraceSpan(FrozenValue, frozen=True):
    """One span of a trace: times are nanoseconds since 1970, ids are hex digits.

    ``parent_id`` is empty for the root. ``error`` says why what the span stands for broke; where it is None
    it is unknown how it went.
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


EPOCH = datetime.fromtimestamp(0, UTC)
_VALUES = ("stringValue", "doubleValue", "boolValue")


def are_spans(value: Any) -> bool:
    """Whether a value is a list of spans, or OTLP's JSON of such."""
    if isinstance(value, Mapping):
        return "resourceSpans" in value
    first = value[0] if isinstance(value, list | tuple) and value else None
    if isinstance(first, Mapping):
        # A collector writes one map of OTLP for each batch; the SDK's JSON is one map for each span.
        return "resourceSpans" in first or {"context", "attributes"} <= first.keys()
    return isinstance(first, TraceSpan) or (hasattr(first, "attributes") and hasattr(first, "start_time"))


def plain_spans(place: Place) -> Iterator[TraceSpan]:
    """Give each span as plain data; raises UnreadableTranscript for what is none, with its place."""
    if isinstance(place.value, Mapping):
        yield from _otlp(place)
        return
    for item in place.items():
        if isinstance(item.value, TraceSpan):
            yield item.value
        elif isinstance(item.value, Mapping):
            yield from _otlp(item) if "resourceSpans" in item.value else [_json_span(item)]
        else:
            yield sdk_span(item.value)


def sdk_span(span: Any) -> TraceSpan:
    # The SDK holds ids as numbers; exported spans have them as hex digits.
    failed = getattr(span.status.status_code, "name", "") == "ERROR"
    parent = f"{span.parent.span_id:016x}" if span.parent is not None else ""
    return TraceSpan(
        f"{span.context.trace_id:032x}",
        f"{span.context.span_id:016x}",
        parent,
        span.name,
        "internal",
        span.start_time or 0,
        span.end_time or 0,
        dict(span.attributes or {}),
        error=(span.status.description or "it failed") if failed else None,
    )


def _json_span(place: Place) -> TraceSpan:
    context, status = place.at("context", "the ids of a span"), place.get("status")
    failed = status is not None and status.text_of("status_code") == "ERROR"
    return TraceSpan(
        context.text_of("trace_id").removeprefix("0x"),
        context.text_of("span_id").removeprefix("0x"),
        place.text_of("parent_id").removeprefix("0x"),
        place.text_of("name"),
        "internal",
        _nanoseconds(place, "start_time"),
        _nanoseconds(place, "end_time"),
        place.at("attributes", "a map of attributes").map(),
        error=(status.text_of("description") or "it failed") if failed and status is not None else None,
    )


def _nanoseconds(place: Place, key: str) -> int:
    at = place.get(key)
    if at is None:
        return 0
    passed = moment_of(at) - EPOCH
    return (passed.days * 86_400 + passed.seconds) * 10**9 + passed.microseconds * 1000


def _otlp(place: Place) -> Iterator[TraceSpan]:
    for resource in place.items_of("resourceSpans"):
        for scope in resource.items_of("scopeSpans"):
            yield from map(_otlp_span, scope.items_of("spans"))


def _otlp_span(place: Place) -> TraceSpan:
    status = place.get("status")
    failed = status is not None and status.map().get("code") in (2, "STATUS_CODE_ERROR")
    return TraceSpan(
        place.text_of("traceId"),
        place.text_of("spanId"),
        place.text_of("parentSpanId"),
        place.text_of("name"),
        "internal",
        _whole_number(place, "startTimeUnixNano"),
        _whole_number(place, "endTimeUnixNano"),
        {each.text_of("key"): _otlp_value(each.get("value")) for each in place.items_of("attributes")},
        error=(status.text_of("message") or "it failed") if failed and status is not None else None,
    )


def _whole_number(place: Place, key: str) -> int:
    """Read a whole number; 0 where there is none."""
    number = place.get(key)
    if number is None:
        return 0
    # Protobuf's JSON writes 64-bit numbers as texts.
    try:
        return int(number.value)
    except (TypeError, ValueError):
        raise number.wrong("a whole number") from None


def _otlp_value(place: Place | None) -> Any:
    value = {} if place is None else place.map()
    if "intValue" in value and place is not None:
        return _whole_number(place, "intValue")
    if place is not None and (listed := place.get("arrayValue")) is not None:
        return [_otlp_value(item) for item in listed.items_of("values")]
    if place is not None and (pairs := place.get("kvlistValue")) is not None:
        return {pair.text_of("key"): _otlp_value(pair.get("value")) for pair in pairs.items_of("values")}
    return next((value[name] for name in _VALUES if name in value), None)


def json_of(value: Any) -> Any:
    """Give what an attribute holds as JSON text; any other value, and other text, as it is."""
    if not isinstance(value, str):
        return [*value] if isinstance(value, Sequence) else value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value

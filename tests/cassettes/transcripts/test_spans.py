"""Spans tell a trial's course in each dialect, in whichever form they are exported."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_agenteval.cassettes.transcripts.parts import UnreadableTranscript
from pytest_agenteval.cassettes.transcripts.reading import read_transcript
from pytest_agenteval.cassettes.transcripts.span_reading import read_spans
from pytest_agenteval.cassettes.transcripts.spans import TraceSpan
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import Ask, Message, ToolCall, ToolError, Transcript, Usage
from pytest_agenteval.reports.exports.otel import trial_spans
from pytest_agenteval.reports.exports.otel_sdk import otlp_json, sdk_span, service
from pytest_agenteval.store.run_folder import RunHeader
from pytest_agenteval.store.run_reader import Run
from tests.cassettes.transcripts.json_damage import damaged
from tests.reports.exports.talk import TALK

RUN = Run(Path("r"), RunHeader("2026-11-21T09:30:15+00:00", name="r"), (), ())
OSLO = {"city": "Oslo"}
ASKED = ToolCall("c1", 1, 0, "weather", OSLO)
TALKED = Transcript(
    (
        Message("system", "Be brief.", turn=1),
        Message("user", "Weather in Oslo?", turn=1),
        Message("assistant", "I look.", (ASKED,), 1),
        Message("tool", '{"c":-7}', turn=2, call_id="c1"),
        Message("assistant", "It is -7.", turn=2),
    ),
    (
        replace(ASKED, result={"c": -7}, started=0.5, ended=0.75),
        ToolCall(
            "own_1", 2, 0, "notify", {}, error=ToolError("tool_error", "nobody home"), started=2.0, ended=2.5
        ),
    ),
    (
        Ask(1, 0.125, 0.5, Usage(9, 5, 2, 1, 0.25, 1, 1), "tool_calls", 0.25, "Hm.", "gpt-5"),
        Ask(2, 1.0, 1.5, Usage(12, 4, cost_usd=0.0, asks=1, attempts=1), model="gpt-5"),
    ),
    usage=Usage(21, 9, 2, 1, 0.25, 2, 2),
    tools=(ToolSpec("weather", "tells", {"type": "object", "properties": {"city": {}}}),),
)


def _ours() -> list[TraceSpan]:
    return list(trial_spans(RUN, replace(TALK, transcript=TALKED), content=True))


@pytest.mark.parametrize("form", ["plain", "SDK", "SDK's JSON", "OTLP's JSON"])
def test_what_we_export_is_read_back(form: str) -> None:
    """Messages, calls, times, tokens, tools: the SDK's own spans, its JSON, and what a collector writes."""
    spans = _ours()
    in_sdk = [sdk_span(span, service()) for span in spans]
    forms: dict[str, Any] = {
        "plain": spans,
        "SDK": in_sdk,
        "SDK's JSON": [json.loads(span.to_json()) for span in in_sdk],
        "OTLP's JSON": otlp_json(spans, service()),
    }
    read = read_transcript(forms[form])
    model = spans[1].attributes["gen_ai.request.model"]
    expected = replace(TALKED, asks=tuple(replace(ask, model=model) for ask in TALKED.asks), tools=read.tools)
    assert read == expected


def _decoded(value: Any) -> Any:
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value


def _span(number: int, parent: int = 0, error: str | None = None, **attributes: Any) -> TraceSpan:
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    at = number * 10**9
    return TraceSpan(
        "t", str(number), str(parent or ""), f"s{number}", "internal", at, at + 10**8, named, (), error
    )


def _flat(prefix: str, *messages: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{prefix}.{number}.message.{name}": value
        for number, message in enumerate(messages)
        for name, value in message.items()
    }


USER = {"role": "user", "content": "Weather in Oslo?"}
CALLING = {
    "role": "assistant",
    "tool_calls.0.tool_call.id": "c1",
    "tool_calls.0.tool_call.function.name": "weather",
    "tool_calls.0.tool_call.function.arguments": '{"city": "Oslo"}',
}
SHOWN = {"role": "tool", "tool_call_id": "c1", "content": "-7"}
ANSWER = {
    "role": "assistant",
    "contents.0.message_content.type": "text",
    "contents.0.message_content.text": "It is -7.",
}
LLM = {"openinference.span.kind": "LLM", "llm.model_name": "gpt-5", "llm.token_count.prompt": 9}


@pytest.mark.parametrize(
    "tool",
    [
        {"tool.name": "weather", "input.value": "Oslo", "output.value": "-7"},
        {
            "tool.name": "weather",
            "input.value": '{"args": [], "kwargs": {"city": "Oslo"}}',
            "output.value": "-7",
        },
        {
            "tool.name": "weather",
            "tool_call.id": "c1",
            "tool.parameters": '{"city": "Oslo"}',
            "output.value": "-7",
        },
    ],
    ids=["a text", "kwargs", "an id"],
)
def test_openinference_is_read_whatever_its_tools_tell(tool: dict[str, Any]) -> None:
    """One attribute for each word of a conversation; arguments without a name are those of the reply."""
    first = {**LLM, **_flat("llm.input_messages", USER), **_flat("llm.output_messages", CALLING)}
    said = _flat("llm.input_messages", USER, CALLING, SHOWN)
    last = {**LLM, **said, **_flat("llm.output_messages", ANSWER), "llm.token_count.completion": 4}
    spans = [_span(1), _span(2, 1), _span(3, 2), _span(4, 1)]
    told = [{}, first, {"openinference.span.kind": "TOOL", **tool}, last]

    read = read_transcript([replace(span, attributes=each) for span, each in zip(spans, told, strict=True)])

    assert [(message.role, message.content) for message in read.messages] == [
        ("user", "Weather in Oslo?"),
        ("assistant", ""),
        ("tool", "-7"),
        ("assistant", "It is -7."),
    ]
    (call,) = read.calls
    assert (call.id, call.args, call.result, call.started, call.ended) == ("c1", OSLO, "-7", 2.0, 2.1)
    assert (read.usage.tokens, read.usage.known_tokens, read.usage.cost_usd) == (None, 22, None)
    assert {ask.model for ask in read.asks} == {"gpt-5"}


def test_one_request_that_two_instrumentations_tell_of_is_one_reply() -> None:
    """A framework's span of a reply holds the client's own: the outer one is read."""
    outer = _span(
        1, gen_ai__operation__name="chat", gen_ai__output__messages='[{"parts": [{"content": "Hi."}]}]'
    )
    inner = _span(2, 1, gen_ai__operation__name="chat", gen_ai__usage__input_tokens=3)
    read = read_transcript([outer, inner])
    assert [message.content for message in read.messages] == ["Hi."]
    assert len(read.asks) == 1


def test_spans_without_content_tell_calls_times_and_tokens() -> None:
    """As the conventions want it, content is left out unless somebody asks for it."""
    chat = _span(
        1, gen_ai__operation__name="chat", gen_ai__usage__input_tokens=3, gen_ai__response__model="m"
    )
    tool = _span(2, error="broken", gen_ai__operation__name="execute_tool", gen_ai__tool__name="weather")
    read = read_transcript([tool, chat])
    assert [(call.tool, call.turn, call.error) for call in read.calls] == [
        ("weather", 1, ToolError("tool_error", "broken"))
    ]
    assert (read.usage.input_tokens, read.asks[0].model) == (3, "m")


def test_spans_that_are_none_name_their_place() -> None:
    """As messages do."""
    with pytest.raises(UnreadableTranscript) as raised:
        read_transcript([{"context": {}, "attributes": {}, "start_time": "noon"}])
    assert str(raised.value) == "transcript[0].start_time: expected a time in ISO 8601, found 'noon'"


@settings(max_examples=30, deadline=None)
@given(damaged(json.loads(otlp_json(_ours(), service()))))
def test_damaged_spans_are_read_or_refused(data: Any) -> None:
    """Nothing that an exporter writes makes an error of ours."""
    with suppress(UnreadableTranscript):
        assert isinstance(read_transcript(data), Transcript)


ATTRIBUTES = {name: _decoded(value) for span in _ours() for name, value in span.attributes.items()}


@settings(max_examples=30, deadline=None)
@given(damaged(ATTRIBUTES), st.sampled_from(["LLM", "TOOL", None]))
def test_odd_attributes_cost_no_more_than_themselves(told: Any, kind: str | None) -> None:
    """Instrumentations change with their frameworks: what cannot be read is left out."""
    written = {
        name: json.dumps(value) if isinstance(value, list | dict) else value for name, value in told.items()
    }
    named = (
        {"openinference.span.kind": kind, **LLM, **_flat("llm.input_messages", USER, CALLING)} if kind else {}
    )
    read = read_spans([replace(_span(1), attributes={**written, **named})])
    assert isinstance(read, Transcript)

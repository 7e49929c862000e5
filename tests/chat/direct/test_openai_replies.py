"""What a direct chat reads of OpenAI's replies, beside what litellm reads of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import msgspec
import pytest

from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.cassettes.wire.reader import read_parts, whole_reply
from pytest_agenteval.cassettes.wire.traffic import UnreadableTraffic
from pytest_agenteval.chat.direct import openai_chat_request, openai_responses_request
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.records.replies import finish_of
from pytest_agenteval.records.tool_spec import parse_arguments
from tests.chat.litellm_oracle import Compared

from .sent_bodies import USER, Case, Listener, listening
from .test_openai_responses import ADDED, SAID, THOUGHT

COUNTS = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
DETAILS = {
    "prompt_tokens_details": {"cached_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 3},
}


def _chat(finish: str | None = "stop", usage: Any = COUNTS, **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": None, **message}
    choice = {"index": 0, "finish_reason": finish, "message": said}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def _call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": "call_a", "type": "function", "function": {"name": name, "arguments": arguments}}


def _response(*output: Mapping[str, Any], **said: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return {**head, **rest, "output": list(output), **said}


def _cut(reason: str) -> dict[str, Any]:
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


USES = json.dumps({"tool_uses": [{"recipient_name": "functions.add", "parameters": {"a": 1}}]})
SUMMED = {**THOUGHT, "summary": [{"type": "summary_text", "text": "I think."}]}
SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
REPLIES: Mapping[str, Mapping[str, Any]] = {
    "thoughts-before": _chat(content="<think>a</think>\n\nb"),
    "thoughts-open": _chat(content="<think>a"),
    "thoughts-behind": _chat(content="b<think>a</think>"),
    "reasoning": _chat(content="b", reasoning="r"),
    "reasoning-content": _chat(content="b", reasoning_content="r"),
    "refusal": _chat(refusal="No."),
    "length": _chat("length", content="b"),
    "filter": _chat("content_filter", content=""),
    "end-of-sequence": _chat("eos", content="x"),
    "own-word": _chat("odd", content="x"),
    "no-finish": _chat(None, content="x"),
    "calls-and-stop": _chat("stop", tool_calls=[_call("add", "{}")]),
    "broken-arguments": _chat("tool_calls", tool_calls=[_call("add", "{a")]),
    "several-at-once": _chat("tool_calls", tool_calls=[_call("multi_tool_use.parallel", USES)]),
    "counts": _chat(content="x", usage={**COUNTS, **DETAILS}),
    "no-counts": _chat(content="x", usage=None),
    "spaces": _chat(content="  hi \n"),
    "responses-two-messages": _response(SUMMED, SAID, SAID),
    "responses-call": _response(SUMMED, SAID, ADDED),
    "responses-call-alone": _response(ADDED),
    "responses-length": _response(SAID, **_cut("max_output_tokens")),
    "responses-filter": _response(SAID, **_cut("content_filter")),
    "responses-thought-too-long": _response(SUMMED, **_cut("max_output_tokens")),
    "responses-call-cut": _response(ADDED, **_cut("max_output_tokens")),
    "responses-search": _response(SEARCHED, SAID),
}


COMPARED = Compared("openai_replies")


@pytest.fixture(scope="module")
def listener(loop: asyncio.Runner) -> Iterator[Listener]:
    """A server that answers as it is told."""
    with listening(loop) as server:
        yield server


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_says_what_litellm_reads(listener: Listener, name: str) -> None:
    """Text, thoughts, calls, how it ended and what it took do not depend on who asks."""
    responses, answer = name.startswith("responses"), REPLIES[name]
    module: ModuleType = openai_responses_request if responses else openai_chat_request

    whole = whole_reply(module.FORMAT, _http(answer))
    parts = module.reply_of(read_parts(module.FORMAT, whole), ModelAsk("m", USER))

    calls = [(call.id, call.name, *parse_arguments(call.arguments_text)) for call in parts.calls]
    finish = finish_of(parts.finish, calls=bool(calls), refused=parts.refused)
    ours = [parts.content, parts.reasoning, calls, finish, msgspec.to_builtins(parts.usage)]
    if COMPARED.agreed(name, ours):
        return
    case = Case(name, "openai/gpt-5-pro" if responses else "openai/gpt-4o")
    reply = listener.read_by_litellm(case, answer)
    assert parts.content == reply.text
    assert parts.reasoning == reply.reasoning
    assert calls == [(call.id, call.tool, call.args, call.raw_args) for call in reply.calls]
    assert finish == reply.finish
    assert parts.usage.tokens == reply.usage.tokens
    assert parts.usage.cached_tokens == reply.usage.cached_tokens
    assert parts.usage.reasoning_tokens == reply.usage.reasoning_tokens
    COMPARED.record(name, ours)


def test_a_refusal_of_the_responses_is_one() -> None:
    """litellm reads an empty answer there, which a grader would take for the model's."""
    refused = {**SAID, "content": [{"type": "refusal", "refusal": "No."}]}
    whole = whole_reply("openai.responses", _http(_response(refused)))
    parts = openai_responses_request.reply_of(read_parts("openai.responses", whole), ModelAsk("m", USER))

    assert (parts.content, parts.refused) == ("No.", True)


@pytest.mark.parametrize("output", [(), (SUMMED,), (SEARCHED,)], ids=["empty", "thought", "search"])
def test_a_whole_reply_without_an_answer_is_none(
    listener: Listener, output: tuple[Any, ...], request: pytest.FixtureRequest
) -> None:
    """It is asked again, as through litellm: an empty answer would be graded as the model's."""
    with pytest.raises(UnreadableTraffic, match="neither a message nor a call") as failed:
        openai_responses_request.reply_of(
            read_parts("openai.responses", _response(*output)), ModelAsk("gpt-5-pro", USER)
        )
    case = f"no answer, {request.node.callspec.id}"
    if not COMPARED.agreed(case, str(failed.value)):
        with pytest.raises(AttemptFailed, match="no usable reply"):
            listener.read_by_litellm(Case("empty", "openai/gpt-5-pro"), _response(*output))
        COMPARED.record(case, str(failed.value))


def test_a_message_without_words_is_an_answer() -> None:
    """A model may have nothing to say."""
    silent = {**SAID, "content": [{"type": "output_text", "text": "", "annotations": []}]}
    parts = read_parts("openai.responses", _response(silent))

    assert openai_responses_request.reply_of(parts, ModelAsk("gpt-5-pro", USER)).content == ""


def _http(answer: Mapping[str, Any]) -> Response:
    return Response(200, "OK", {"content-type": ["application/json"]}, json.dumps(answer).encode())
